"""What does a group notice while the cleaner works? Heartbeats beside a clean of a compacted log, and without one.

Apache Kafka cleans in threads of its own process, Kohort in a process of its own.
"""

import asyncio
import threading
import time

from aiokafka import AIOKafkaProducer

from benchmarks.common import Row, arguments, brokers, create_topic, load, machine, show
from tests.support.broker_process import BrokerProcess

SECONDS = 4
# Everything is dirty all the time, and small segments are closed soon: the cleaner always has something to do.
BUSY_CLEANER = {
    "cleanup.policy": "compact",
    "segment.bytes": "8388608",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "file.delete.delay.ms": "1000",
}


async def produce(address: str, topic: str, count: int) -> None:
    """Keyed records of 1 KB, a thousand keys: what a clean leaves is small."""
    producer = AIOKafkaProducer(bootstrap_servers=address, linger_ms=5, max_batch_size=65_536)
    await producer.start()
    try:
        for number in range(count):
            await producer.send(topic, bytes(1_000), key=b"%d" % (number % 1_000))
        await producer.flush()
    finally:
        await producer.stop()


def heartbeat_p99_us(broker: BrokerProcess) -> float:
    """The 99th percentile of heartbeats, one in flight on each of four connections."""
    return float(load(broker, "heartbeat", conns=4, depth=1, seconds=SECONDS)["p99_us"])


def while_producing(broker: BrokerProcess, topic: str, count: int) -> float:
    """Heartbeats beside a producer to `topic`."""

    producing = threading.Thread(target=lambda: asyncio.run(produce(broker.address, topic, count)))
    producing.start()
    time.sleep(0.5)
    p99_us = heartbeat_p99_us(broker)
    producing.join()
    return p99_us


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    options = parser.parse_args()
    idle = Row("heartbeat 4 x 1, p99, nothing else", "us")
    plain = Row("heartbeat 4 x 1, p99, beside a producer", "us")
    cleaned = Row("heartbeat 4 x 1, p99, beside a producer and the cleaner of its topic", "us")
    with brokers(options, **{"log.cleaner.backoff.ms": 100}) as running:
        for broker in running:
            create_topic(broker, "plain", 1)
            create_topic(broker, "compacted", 1, **BUSY_CLEANER)
            heartbeat_p99_us(broker)  # warms it up
            idle.take(broker.name, [heartbeat_p99_us(broker) for _ in range(options.rounds)])
            for row, topic in ((plain, "plain"), (cleaned, "compacted")):
                row.take(broker.name, [while_producing(broker, topic, options.records) for _ in range(options.rounds)])
    print(f"\n{machine()}; {SECONDS} s a count, median of {options.rounds}\n")
    show([idle, plain, cleaned], options)


if __name__ == "__main__":
    main()
