"""Make the golden directories: `python -m tests.pipeline.capture [NAME ...]`.

Each is what a broker left on the disk after `at_work`, with what the clients said in `said.json`, packed as
golden/NAME.tar.xz. Needs Java and Maven for the Kafka ones.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.clients import harness
from tests.pipeline.at_work import at_work, committed
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kafka, Kohort, eventually

GOLDEN = Path(__file__).parent / "golden"
OFFSETS = "__consumer_offsets"
# Small partitions counts keep the files few; cleaning soon and often.
SETTINGS: dict[str, Any] = {
    **QUICK_GROUPS,
    "num.partitions": 6,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 200,
    "log.retention.ms": -1,
}
# name -> (broker, version, codec of __consumer_offsets, compacted, KIP-848)
DIRECTORIES: dict[str, tuple[type[BrokerProcess], str, int, bool, bool]] = {
    "kafka-4.3.1": (Kafka, "4.3.1", 0, False, True),
    "kafka-4.3.1-compacted-zstd": (Kafka, "4.3.1", 4, True, True),
    "kafka-3.9.2": (Kafka, "3.9.2", 0, False, False),
    "kafka-3.9.2-compacted-snappy": (Kafka, "3.9.2", 2, True, False),
    "kohort": (Kohort, "", 0, False, False),
    "kohort-consumer": (Kohort, "", 0, False, True),
    "kohort-compacted-gzip": (Kohort, "", 1, True, False),
}


def capture(name: str, scratch: Path) -> Path:
    """Start the broker, have the clients work, stop it, pack what it wrote."""
    kind, version, codec, compacted, next_generation = DIRECTORIES[name]
    settings = {**SETTINGS, "offsets.topic.compression.codec": codec}
    environment = {"KAFKA_VERSION": version, "KAFKA_HEAP": "384m"} if version else {}
    broker = kind(scratch / "broker", settings, environment=environment)  # type: ignore[call-arg]  # Both take it.
    spawner = harness.spawner(scratch, lambda _: "")
    spawn = next(spawner)
    with broker:
        said = at_work(broker.address, spawn, next_generation=next_generation)
        if compacted:
            _have_it_cleaned(broker)
            said["committed"]["janitor"] = committed(broker.address, "janitor")
        said["stopped_at_ms"] = int(time.time() * 1000)
    next(spawner, None)
    return pack(name, broker.data, said)


def _have_it_cleaned(broker: BrokerProcess) -> None:
    """Roll every segment by an age of a second, commit once more so that they do, wait for the cleaner."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    wanted = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in wanted.items()]
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)
    from confluent_kafka import Consumer, TopicPartition

    checkpoint = broker.data / "cleaner-offset-checkpoint"

    def cleaned() -> bool:
        # One commit in each log partition, until all have been cleaned.
        for group in ("janitor", "kp", "librd", "aio", "simple"):
            consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "enable.auto.commit": False})
            if group == "janitor":
                consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
            else:
                tp = consumer.committed([TopicPartition("orders", 2)], 10)
                consumer.commit(offsets=tp, asynchronous=False)
            consumer.close()
        return checkpoint.exists() and checkpoint.read_text().count(OFFSETS) >= 2

    eventually(cleaned, deadline_s=90, every_s=1.2, what="the cleaner cleans")


def pack(name: str, data: Path, said: dict[str, Any]) -> Path:
    """golden/NAME.tar.xz with the partitions that matter, the checkpoints and said.json."""
    (data / "said.json").write_text(json.dumps(said, sort_keys=True))
    target = GOLDEN / f"{name}.tar.xz"
    GOLDEN.mkdir(exist_ok=True)
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(data.iterdir()):
            wanted = path.name.startswith((OFFSETS, "orders-", "payments-", "__kohort_rebalances"))
            if wanted or path.name.endswith("-checkpoint") or path.name in ("said.json", "meta.properties"):
                archive.add(path, arcname=path.name, filter=_plain)
    return target


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith((".deleted", ".tmp")) else entry


def unpack(name: str, directory: Path) -> tuple[Path, dict[str, Any]]:
    """(the log directory, what the clients said)."""
    target = directory / name
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target, json.loads((target / "said.json").read_text())


def main() -> None:
    """Capture the directories named, or all."""
    for name in sys.argv[1:] or DIRECTORIES:
        scratch = Path(tempfile.mkdtemp(prefix="kohort-golden-"))
        made = capture(name, scratch)
        print(f"{made.name}: {made.stat().st_size} bytes", flush=True)
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
