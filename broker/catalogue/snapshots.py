"""Reading snapshots of the metadata log, whoever wrote them. `snapshot_writer` makes ours.

Source: KIP-630; Kafka's Snapshots, RecordsSnapshotReader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.records import batch as record_batch
from protocol.records.control_records import ControlType, control_type, decode_control_value
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptFile
from storage.reading.walk import Verdict, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.reading.walk import Header

BOOTSTRAP = "bootstrap.checkpoint"
PARTIAL, DELETED = ".part", ".deleted"  # behind the name: unfinished, and obsolete
# Not `.checkpoint.part` or `.checkpoint.deleted`: unfinished, and obsolete.
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """One batch as it was read: `values` are record frames, or control records when `control`."""

    base_offset: int
    leader_epoch: int
    control: bool
    values: tuple[tuple[bytes | None, bytes], ...]
    timestamp: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot file. It stands for all records below `end_offset`, the last of which is of `epoch`."""

    path: Path
    end_offset: int
    epoch: int

    def read(self) -> list[MetadataBatch]:
        """Its batches, header and footer included. Raises: CorruptFile when it is damaged or not whole."""
        return read_snapshot(self.path)


def newest_snapshot(folder: Path) -> Snapshot | None:
    """The snapshot with the greatest (epoch, end offset), None when there is none."""
    return next(reversed(all_snapshots(folder)), None)


def all_snapshots(folder: Path) -> list[Snapshot]:
    """Every snapshot that has its name, the oldest first."""
    found = [
        Snapshot(path, int(match[1]), int(match[2]))
        for path in folder.glob("*.checkpoint")
        if (match := _NAME.fullmatch(path.name)) is not None
    ]
    return sorted(found, key=lambda snapshot: (snapshot.epoch, snapshot.end_offset))


def log_timestamp(path: Path) -> int:
    """When the last record that a snapshot covers was written, in ms: its header says. Raises: CorruptFile; OSError."""
    try:
        _, header, batch = next(Walk.of_file(path).batches())
        key, value = metadata_batch(header, batch).values[0]
        if control_type(key) is not ControlType.SNAPSHOT_HEADER:
            raise CorruptFile(path, "it does not begin with a snapshot header")
        return int(decode_control_value(ControlType.SNAPSHOT_HEADER, value).last_contained_log_timestamp)
    except (CorruptBatch, ProtocolError, IndexError, StopIteration) as error:
        raise CorruptFile(path, str(error)) from error


def read_snapshot(path: Path) -> list[MetadataBatch]:
    """The batches of a file with the layout of a snapshot. Raises: CorruptFile; OSError."""
    try:
        batches = list(read_batches(path.read_bytes()))
        kinds = [control_type(key) for batch in batches if batch.control for key, _ in batch.values]
    except (CorruptBatch, ProtocolError) as error:
        raise CorruptFile(path, str(error)) from error
    if kinds[:1] != [ControlType.SNAPSHOT_HEADER] or not batches[0].control:
        raise CorruptFile(path, "it does not begin with a snapshot header")
    if kinds[-1] is not ControlType.SNAPSHOT_FOOTER or not batches[-1].control:
        raise CorruptFile(path, "it does not end with a snapshot footer")
    return batches


def read_batches(data: bytes) -> Iterator[MetadataBatch]:
    """Every batch of `data`, which must hold nothing else. Raises: CorruptBatch."""
    walk = Walk.of_bytes(data)
    for _, header, batch in walk.batches():
        yield metadata_batch(header, batch)
    if walk.verdict is not Verdict.WHOLE:
        raise CorruptBatch(walk.why)


def metadata_batch(fields: Header, batch: memoryview) -> MetadataBatch:
    """A sound batch of the metadata log, its records as pairs. Raises: CorruptBatch."""
    header = record_batch.BatchHeader._make(fields)
    values = tuple((record.key, record.value or b"") for record in record_batch.iterate_records(batch))
    return MetadataBatch(
        header.base_offset, header.leader_epoch, header.is_control, values, header.max_timestamp, len(batch)
    )
