"""How long do committed offsets take to load, and how long is a broker away after SIGKILL under load?

Records are written by real commits. `loaded` is measured from the start of the process to the first right answer to an
OffsetFetch, with the files out of the page cache.
"""

import subprocess
import threading
import time

from benchmarks.common import (
    Row,
    arguments,
    brokers,
    create_topic,
    drop_from_page_cache,
    kload,
    machine,
    show,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire import Wire

PARTITIONS = 100  # of the topic that offsets are committed for: so many records a commit
GROUPS = 10_000  # that lie over all partitions of the log


def commit_records(
    broker: BrokerProcess, count: int, group: str | None, *, groups: int = GROUPS, partitions: int = PARTITIONS
) -> None:
    """Write `count` offset records: of one group (one partition of the log), or of `groups` in turn."""
    written = 0
    with Wire(broker.address) as wire:
        in_flight = 0
        while written < count or in_flight:
            if written < count:
                name = group or f"bench-{written // partitions % groups}"
                wire.send_commit(name, "bench", dict.fromkeys(range(partitions), written))
                written, in_flight = written + partitions, in_flight + 1
            if in_flight >= 20 or written >= count:
                wire.receive()
                in_flight -= 1


def seconds_until_answered(broker: BrokerProcess, group: str, began: float) -> float:
    """From `began` until the group's offsets are told."""
    while True:
        try:
            with Wire(broker.address, timeout_s=5) as wire:
                while True:
                    if wire.coordinator_error(group) == 0:
                        error, offsets = wire.committed(group, "bench", [0])
                        if error == 0 and offsets[0] >= 0:
                            return time.monotonic() - began
                    time.sleep(0.005)
        except OSError:
            time.sleep(0.005)


def served_after_start(broker: BrokerProcess, group: str) -> float:
    """Start the broker, and ask from the first moment on."""
    began = time.monotonic()
    starting = threading.Thread(target=broker.start)
    starting.start()
    took = seconds_until_answered(broker, group, began)
    starting.join()
    return took


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=417_000, help="offset records over all partitions")
    parser.add_argument("--one", type=int, default=583_000, help="offset records of one partition")
    options = parser.parse_args()
    one = Row(f"load {options.one:,} offset records of one partition, cold", "s", "<= 0.5")
    spread = Row(f"load {options.records:,} offset records more, of {GROUPS:,} groups, cold", "s", "<= Kafka")
    killed = Row(
        f"ready again after SIGKILL under commits, {(options.one + options.records):,} records there", "s", "<= 1.5"
    )
    with brokers(options) as running:
        for broker in running:
            create_topic(broker, "bench", PARTITIONS)
            commit_records(broker, options.one, "bench")
            for row, records in ((one, 0), (spread, options.records)):
                if records:
                    commit_records(broker, records, None)
                times = []
                for _ in range(options.rounds):
                    broker.stop()
                    drop_from_page_cache(broker.data)
                    times.append(served_after_start(broker, "bench"))
                row.take(broker.name, times)
            times = []
            for _ in range(options.rounds):
                host, _, port = broker.address.rpartition(":")
                words = [str(kload()), host, port, "commit", "conns=4", "topic=bench", "partitions=1", "seconds=20"]
                with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as under_load:
                    time.sleep(1.5)
                    broker.kill()
                    under_load.wait()
                times.append(served_after_start(broker, "bench"))
            killed.take(broker.name, times)
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([one, spread, killed], options)


if __name__ == "__main__":
    main()
