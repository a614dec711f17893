"""The files of a broker that is dead: cut back to an earlier moment, or carried on to a later one.

A log is only appended to. So its beginning is what it held when its broker died earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from coordinator.routing import partition_for
from protocol.records import batch, group_records
from protocol.records.batch import BatchHeader, iterate_headers, iterate_records
from protocol.records.group_records import GroupKey, GroupValue
from protocol.records.transaction_records import (
    TransactionLogKey,
    VersionedValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

STOPPED, FLUSHED = ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"
INTERNAL_PARTITIONS = 50  # of `__transaction_state` and of `__consumer_offsets`
PREPARED, COMPLETE = (2, 3), (4, 5)


@dataclass(frozen=True)
class BeforeStop:
    """What an orderly stop will write anew, as it is while the broker lives: for a broker that is to look killed."""

    snapshots: frozenset[Path]
    flushed: bytes

    @classmethod
    def of(cls, data: Path) -> Self:
        """Raises: FileNotFoundError when nothing was flushed yet."""
        return cls(_snapshots(data), (data / FLUSHED).read_bytes())

    def go_back(self, data: Path) -> None:
        """Take back what the stop wrote: logs are recovered as after a SIGKILL."""
        (data / STOPPED).unlink()
        (data / FLUSHED).write_bytes(self.flushed)
        for path in _snapshots(data) - self.snapshots:
            path.unlink()


def _snapshots(data: Path) -> frozenset[Path]:
    return frozenset(data.glob("*-*/*.snapshot"))


def cut_before(data: Path, tid: str, states: tuple[int, ...], keep: int = 0) -> None:
    """Cut off the last record of a transactional id in one of these states, but for `keep` bytes, and what follows."""
    position, _ = _last_in(data, tid, states)
    _truncate(_newest(_log_of(data, tid))[0], position + keep)


def cut_behind(data: Path, tid: str, states: tuple[int, ...]) -> None:
    """Cut off what follows the last record of a transactional id in one of these states."""
    _truncate(_newest(_log_of(data, tid))[0], sum(_last_in(data, tid, states)))


def unmark(data: Path, topic: str) -> None:
    """Cut off the marker that partition 0 of a topic ends with."""
    file, _, batches = _newest(data / f"{topic}-0")
    position, header = batches[-1]
    assert header.is_control, f"{topic} does not end with a marker"
    _truncate(file, position)


def append_epoch(data: Path, tid: str, epoch: int) -> None:
    """Write the newest state of a transactional id again, in another epoch of its producer."""
    file, _, batches = _newest(_log_of(data, tid))
    _, _, newest = _written(data, tid)[-1]
    newest.value.producer_epoch = epoch
    _, last = batches[-1]
    offset = last.last_offset + 1
    record = batch.Record(offset, last.max_timestamp, encode_key(TransactionLogKey(tid)), encode_value(newest))
    with file.open("ab") as opened:
        opened.write(batch.encode_batch([record], base_offset=offset, leader_epoch=last.leader_epoch))


def append_to_group(data: Path, key: GroupKey, value: GroupValue) -> None:
    """Write one more record of a group."""
    file, _, batches = _newest(data / f"__consumer_offsets-{partition_for(key.group, INTERNAL_PARTITIONS)}")
    _, last = batches[-1]
    offset = last.last_offset + 1
    record = batch.Record(offset, last.max_timestamp, group_records.encode_key(key), group_records.encode_value(value))
    with file.open("ab") as opened:
        opened.write(batch.encode_batch([record], base_offset=offset, leader_epoch=last.leader_epoch))


def break_snapshot(data: Path, topic: str) -> None:
    """Turn a bit of the newest snapshot of the producers of partition 0."""
    file = max((data / f"{topic}-0").glob("*.snapshot"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def _newest(folder: Path) -> tuple[Path, bytes, list[tuple[int, BatchHeader]]]:
    """The last segment of a partition, its bytes, and its batches with their positions."""
    file = max(folder.glob("*.log"))
    content = file.read_bytes()
    return file, content, list(iterate_headers(content))


def _log_of(data: Path, tid: str) -> Path:
    return data / f"__transaction_state-{partition_for(tid, INTERNAL_PARTITIONS)}"


def _written(data: Path, tid: str) -> list[tuple[int, BatchHeader, VersionedValue]]:
    """(position, header, value) of each record of the id, tombstones left out."""
    _, content, batches = _newest(_log_of(data, tid))
    found = []
    for position, header in batches:
        for record in iterate_records(content, position):
            value = decode_value(record.value)
            if decode_key(record.key) == TransactionLogKey(tid) and value is not None:
                found.append((position, header, value))
    return found


def _last_in(data: Path, tid: str, states: tuple[int, ...]) -> tuple[int, int]:
    """(position, size in bytes) of the batch of the id's last record in one of these states."""
    found = [(at, header) for at, header, value in _written(data, tid) if value.value.transaction_status in states]
    position, header = found[-1]
    return position, header.size_bytes


def _truncate(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)
