"""Every kind of file in a data directory, damaged in every way.

The error is named, the rest is served, and nothing that was acknowledged is lost without a word.

Each file is emptied, cut in half, has a bit flipped, cannot be read (a folder lies in its place, since root may read
everything), or is gone; after a clean stop and after a kill.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.loop import logs
from protocol.errors import ErrorCode, KafkaError
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from tests.storage.logs import marker, transactional
from tests.support.whole_broker import Whole

N = f"{0:020d}"
GROUP_LOGS = "__consumer_offsets-0"
VALUES = [b"%d" % at * 50 for at in range(12)]
FILES = {
    "log": f"t-0/{N}.log",
    "index": f"t-0/{N}.index",
    "timeindex": f"t-0/{N}.timeindex",
    "txnindex": f"t-0/{N}.txnindex",
    "snapshot": "t-0/00000000000000000015.snapshot",
    "leader epochs": "t-0/leader-epoch-checkpoint",
    "topic id": "t-0/partition.metadata",
    "group log": f"{GROUP_LOGS}/{N}.log",
    "recovery points": "recovery-point-offset-checkpoint",
    "high watermarks": "replication-offset-checkpoint",
    "log starts": "log-start-offset-checkpoint",
    "cleaner": "cleaner-offset-checkpoint",
    "identity": "meta.properties",
    "clean marker": ".kafka_cleanshutdown",
    "metadata log": f"__cluster_metadata-0/{N}.log",
    "quorum": "__cluster_metadata-0/quorum-state",
    "metadata topic id": "__cluster_metadata-0/partition.metadata",
    "metadata epochs": "__cluster_metadata-0/leader-epoch-checkpoint",
}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


WAYS: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "halved": halve,
    "flipped": flip,
    "unreadable": unreadable,
    "gone": Path.unlink,
}


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same life, ended by SIGTERM and by SIGKILL."""
    made = {}
    for end in ("stopped", "killed"):
        directory = made[end] = tmp_path_factory.mktemp(end) / "data"
        broker = Whole(directory)
        there, elsewhere = broker.groups_of(0)[0], broker.groups_of(1)[0]
        broker.create("t", index_interval_bytes="1")
        broker.create("other")
        broker.create("compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", delete_retention_ms="0")
        broker.create("started")
        partition = broker.broker.partitions.get("t", 0)
        assert partition is not None
        for sequence, value in enumerate(VALUES):
            broker.produce("t", value, producer_id=5, producer_epoch=0, base_sequence=sequence)
            broker.produce("other", value)
            broker.produce("compacted", value)
            broker.produce("started", value)
        partition.append(transactional(6, 0, (b"k", b"aborted")))
        partition.append(marker(6, 0, abort=True))
        partition.log.roll(now_ms=broker.runtime.now_ms())
        compacted, started = (broker.broker.partitions.get(name, 0) for name in ("compacted", "started"))
        assert compacted is not None
        assert started is not None
        compacted.log.roll(now_ms=broker.runtime.now_ms())
        broker.produce("compacted", b"active")
        started.delete_records_before(5)
        assert broker.commit(there, 7) == broker.commit(elsewhere, 8) == ErrorCode.NONE
        broker.runtime.advance(120_000)  # flushes, checkpoints, a clean
        assert "log_cleaned" in broker.log.getvalue()
        broker.produce("t", b"last", producer_id=5, producer_epoch=0, base_sequence=len(VALUES))
        if end == "stopped":
            assert broker.stop()
            broker.forget()
        else:
            # As a SIGKILL leaves it: the next start takes over files, not objects.
            shutil.copytree(directory, directory.with_name("copy"))
            broker.stop()
            shutil.rmtree(directory)
            directory.with_name("copy").rename(directory)
            (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return made


# What a start may refuse, as Kafka's does: there is no other copy of what stands there, and to guess would lose more.
# (A bit flipped in a text may leave a text: another number, which no format of Kafka's would notice.)
_ALL = ("emptied", "halved", "flipped", "unreadable")
REFUSED = {
    *(("identity", way) for way in _ALL),
    *(("topic id", way) for way in _ALL),
    *(("metadata log", way) for way in WAYS),
    *(("quorum", way) for way in _ALL),
    *((name, way) for name in ("recovery points", "log starts", "cleaner", "high watermarks") for way in _ALL[1:]),
    ("clean marker", "unreadable"),
    ("metadata epochs", "unreadable"),
}


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", FILES)
def test_damage_is_named_and_the_rest_is_served(
    directories: dict[str, Path], tmp_path: Path, file: str, way: str, end: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(directories[end], data)
    path = data / FILES[file]
    if not path.exists():
        assert (file, end) in {("clean marker", "killed"), ("snapshot", "killed")}, f"{path} is not there"
        return
    WAYS[way](path)
    try:
        broker = Whole(data)
    except (CorruptFile, StorageError, DirectoryRefused, OSError) as refusal:
        assert path.name in str(refusal) or path.parent.name in str(refusal), refusal
        assert (file, way) in REFUSED
        return
    broker.runtime.advance(5_000)
    there, elsewhere = broker.groups_of(0)[0], broker.groups_of(1)[0]
    damaged = path.parent.name
    lost = []
    values = read(broker, "t")
    if values is not None and values != [*VALUES, b"aborted", b"last"]:
        lost.append("t-0")
    if broker.committed(there) != 7:
        lost.append(GROUP_LOGS)
    said = broker.log.getvalue() + str(broker.broker.partitions.not_ready) + str(broker.broker.groups.not_ready)
    if (file, way, end) == ("metadata log", "halved", "killed"):
        # After a kill that is a torn tail, as far as anybody can tell. Topics went with it.
        assert "metadata_log_truncated" in said
        assert "folder_set_aside" in said
        broker.stop()
        return
    assert set(lost) <= {damaged}
    for name in lost:
        assert name in said, f"{name} lost records without a word: {said}"
    assert read(broker, "other") == VALUES
    assert broker.committed(elsewhere) == 8
    assert "Traceback" not in said
    assert broker.produce("other", b"more") == len(VALUES)
    assert broker.commit(elsewhere, 9) == ErrorCode.NONE
    broker.stop()


def read(broker: Whole, topic: str) -> list[bytes | None] | None:
    """The topic's values as a consumer checks them; None when the reader is told that they cannot be read."""
    try:
        return broker.values(topic)
    except KafkaError:
        return None
