"""Writing snapshots of the metadata log, and removing what they replace.

A snapshot gets its name when it is whole and fsynced, and the log is cut only after that name is durable: a crash at
any moment leaves the newest whole snapshot and all of the log behind it.

Source: KIP-630; Kafka's FileRawSnapshotWriter, RecordsSnapshotWriter, SnapshotGenerator, KafkaMetadataLog.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.catalogue.appending import cut_into_batches, metadata_version
from broker.catalogue.metadata_log import segments_in
from broker.catalogue.snapshot_records import snapshot_records
from broker.catalogue.snapshots import PARTIAL, all_snapshots, log_timestamp
from protocol.records import batch as record_batch
from protocol.records import control_records
from protocol.records import metadata_records as records
from storage.errors import StorageError
from storage.files import LogFile, remove_files, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.metadata_log import MetadataLog
    from broker.catalogue.startup import Quorum
    from storage.files import Disk

_BATCH_RECORDS = 1_024
_PUT_OFF_MS = 60_000  # after an attempt that the disk refused


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is due, and when an old one goes with the log below the next: Kafka's keys and defaults.

    `metadata.log.max.record.bytes.between.snapshots`, `metadata.log.max.snapshot.interval.ms` (0: never for its age),
    `metadata.max.retention.bytes`, `metadata.max.retention.ms` (negative: no limit).
    """

    record_bytes: int = 20 * 1024 * 1024
    interval_ms: int = 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 604_800_000


class Snapshots:
    """When the next snapshot is due, and making it."""

    def __init__(self, policy: SnapshotPolicy, now_ms: int, disk: Disk) -> None:
        self.policy = policy
        self._disk = disk
        self._taken_ms = now_ms
        self._not_before_ms = 0

    def due(self, log: MetadataLog, now_ms: int) -> bool:
        """Whether enough was written since the newest snapshot, or it is old and anything was."""
        if log.bytes_since_snapshot >= self.policy.record_bytes:
            return now_ms >= self._not_before_ms
        interval_ms = self.policy.interval_ms
        old = interval_ms > 0 and now_ms - self._taken_ms >= interval_ms
        return old and log.bytes_since_snapshot > 0 and now_ms >= self._not_before_ms

    def put_off(self, now_ms: int) -> None:
        """The disk has refused one: not again at once."""
        self._not_before_ms = now_ms + _PUT_OFF_MS

    def take(self, log: MetadataLog, state: ClusterState, quorum: Quorum, now_ms: int) -> Path:
        """Write a snapshot of `state`, begin a new segment behind it, remove what is no longer needed; its path.

        In a worker thread, while nothing is appended and `state` stays as it is. All of the log must be flushed.
        Raises: StorageError, CorruptFile; then the log has lost nothing, but may have `failed` and want to be mended.
        """
        level = metadata_version(state)
        frames = (records.encode_frame(record, metadata_version=level) for record in snapshot_records(state))
        path = log.folder / f"{log.next_offset:020d}-{log.leader_epoch:010d}.checkpoint"
        head = control_records.snapshot_head(log.last_timestamp, quorum.kraft_version, quorum.voters_value)
        write_snapshot(path, head, frames, epoch=log.leader_epoch, now_ms=now_ms, disk=self._disk)
        log.roll()
        self._taken_ms = now_ms
        remove_old(log.folder, self.policy, now_ms, self._disk)
        return path


def write_snapshot(
    path: Path, head: list[tuple[bytes, bytes]], frames: Iterable[bytes], *, epoch: int, now_ms: int, disk: Disk
) -> None:
    """Write a snapshot whose first control batch is `head`; durable under its name on return. Raises: StorageError."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        remove_files([partial], disk)
        file = LogFile(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, disk, mode=0o444)
        position = 0
        for batch in _batches(head, frames, epoch, now_ms):
            file.write_fully(batch, position)
            position += len(batch)
        file.sync()
        disk.rename(partial, path)
        sync_directory(path.parent, disk)
    except OSError as error:
        with suppress(StorageError):
            remove_files([partial], disk)
        raise StorageError("cannot write", path, error) from error


def _batches(
    head: list[tuple[bytes, bytes]], frames: Iterable[bytes], epoch: int, now_ms: int
) -> Iterator[bytes | bytearray]:
    """Header, data and footer, with offsets that count from 0 in the file."""

    def encode(pairs: list[tuple[bytes | None, bytes]], base_offset: int, *, control: bool) -> bytes | bytearray:
        return record_batch.encode_pairs(
            pairs, timestamp=now_ms, base_offset=base_offset, leader_epoch=epoch, control=control
        )

    yield encode([*head], 0, control=True)
    offset = len(head)
    for group in cut_into_batches(frames, _BATCH_RECORDS):
        yield encode([(None, frame) for frame in group], offset, control=False)
        offset += len(group)
    yield encode([control_records.snapshot_footer()], offset, control=True)


def remove_old(folder: Path, policy: SnapshotPolicy, now_ms: int, disk: Disk) -> None:
    """Remove the oldest snapshots while all is too large or they are too old, each with the log below the next one.

    The newest snapshot stays whatever its age. Segments go before the snapshot that spoke for them, the oldest first,
    each durably: what is left is a log without gaps that begins at or below a snapshot.
    Raises: StorageError, CorruptFile.
    """
    try:
        snapshots = all_snapshots(folder)
        while len(snapshots) > 1 and _too_much(folder, policy, now_ms, snapshots[0].path):
            oldest = snapshots.pop(0)
            segments = segments_in(folder)
            while len(segments) > 1 and int(segments[1].stem) <= snapshots[0].end_offset:
                remove_files([segments.pop(0)], disk)
                sync_directory(folder, disk)
            remove_files([oldest.path], disk)
    except OSError as error:
        raise StorageError("cannot remove old snapshots from", folder, error) from error


def _too_much(folder: Path, policy: SnapshotPolicy, now_ms: int, oldest: Path) -> bool:
    if 0 <= policy.retention_ms < now_ms - log_timestamp(oldest):
        return True
    if policy.retention_bytes < 0:
        return False
    sizes = (path.stat().st_size for path in folder.iterdir() if path.suffix in (".log", ".checkpoint"))
    return sum(sizes) > policy.retention_bytes
