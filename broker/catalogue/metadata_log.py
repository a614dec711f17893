"""The files of `__cluster_metadata-0`: read whole at start, appended to with one fsync per batch.

Kohort behaves like the leader of a quorum of one. Kafka reads the same files when it is started on the directory.

Always true:
- what a `sync` has covered is durable, and what `append` has refused is not in the file;
- a file on which an fsync has failed is never written to or believed again: `mend` puts another one in its place;
- an append that finds the file longer than it left it writes nothing: another process has opened the directory.

Source: KIP-595, KIP-630; Kafka's KafkaRaftLog, FileQuorumStateStore.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from broker.catalogue.snapshots import DELETED, PARTIAL, MetadataBatch, metadata_batch, newest_snapshot
from protocol.records import batch as record_batch
from protocol.records.errors import CorruptBatch
from protocol.types import METADATA_TOPIC_ID, ZERO_UUID, uuid_text
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.files import DISK, Disk, LogFile, make_directory, remove_files, replace_file, sync_directory
from storage.reading.walk import Verdict, Walk, sound_batch_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from storage.reading.walk import Header

FOLDER = "__cluster_metadata-0"
_MAX_BATCH_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class TornTail:
    """What was cut off the end of the log at open."""

    file: str
    kept_bytes: int
    cut_bytes: int


class MetadataLogFailed(StorageError):
    """The log cannot be appended to: it was opened to be looked at, is to be mended first, or has another writer."""


class MetadataLog:
    """The open log. `append` and `sync` may run in a worker thread, one call at a time."""

    def __init__(self, folder: Path, *, node_id: int, disk: Disk = DISK) -> None:
        self.folder = folder
        self.node_id = node_id
        self.next_offset = 0
        self.leader_epoch = 0
        self.torn: TornTail | None = None
        self.formatted_with: list[MetadataBatch] = []  # the zero snapshot: voters, and records to begin with
        self.bytes_since_snapshot = 0
        self.last_timestamp = 0  # of the last record, ms
        self._disk = disk
        self._may_cut = True
        self._epochs: list[tuple[int, int]] = []  # (epoch, first offset)
        self._size_bytes = 0
        self._reach_bytes = 0  # where the last byte may lie that we have written, taken back or not
        self._durable = (0, 0)  # (bytes, next offset) as of the last flush that went well
        self._file: LogFile
        self.failed: str | None = None  # why nothing may be written: until it is mended, or for good if `intruded`
        self.intruded = False  # that is because another process has opened the directory and written

    @classmethod
    def open(
        cls, directory: Path, *, node_id: int, disk: Disk = DISK, may_cut: bool = True
    ) -> tuple[MetadataLog, list[MetadataBatch]]:
        """Open or create the log below `directory`; return it with every batch that counts, oldest first.

        That is the newest snapshot, if there is one, and what comes after it. A torn last batch is cut (`torn` says
        what), if it may be. Raises: CorruptFile when a snapshot or another batch is damaged, or the log does not begin
        where it must; DirectoryRefused when it belongs to a larger quorum; StorageError.
        """
        log = cls(directory / FOLDER, node_id=node_id, disk=disk)
        log._may_cut = may_cut
        try:
            return log, log._load()
        except OSError as error:
            raise StorageError("cannot open", log.folder, error) from error

    @classmethod
    def inspect(cls, directory: Path, *, node_id: int, disk: Disk = DISK) -> tuple[MetadataLog, list[MetadataBatch]]:
        """The same as `open`, and nothing is written: a torn last batch is CorruptFile. The log takes no appends."""
        log = cls(directory / FOLDER, node_id=node_id, disk=disk)
        log.failed = "opened only to look at"
        log._may_cut = False
        try:
            batches, _ = log._read()
            log._check_older()
        except OSError as error:
            raise StorageError("cannot read", log.folder, error) from error
        return log, batches

    def _load(self) -> list[MetadataBatch]:
        make_directory(self.folder, self._disk)
        # Also when it was there: whoever made it may have died before this.
        sync_directory(self.folder.parent, self._disk)
        batches, active = self._read()
        self._file = LogFile(active, os.O_RDWR | os.O_CREAT, self._disk)
        sync_directory(self.folder, self._disk)
        self._size_bytes = self._reach_bytes = self._file.size()
        self._durable = self.mark()
        return batches

    def write_again(self) -> None:
        """Write the newest segment over itself, so that the next `sync` speaks of all of it.

        Needed after an unclean end: the process before may have died of a failed fsync, and its last records then lie
        in the page cache alone, as pages that no fsync looks at any more. Raises: StorageError.
        """
        try:
            self._file.write_again(0, self._size_bytes)
        except OSError as error:
            raise StorageError("cannot write again", self._file.path, error) from error

    def _read(self) -> tuple[list[MetadataBatch], Path]:
        """Every batch that counts, and the segment to append to (which need not be there yet)."""
        snapshot = newest_snapshot(self.folder)
        if snapshot is not None and snapshot.end_offset == 0:
            self.formatted_with = snapshot.read()
        batches: list[MetadataBatch] = []
        begin = 0
        if snapshot is not None and snapshot.end_offset > 0:
            batches.extend(snapshot.read())
            begin, self.leader_epoch = snapshot.end_offset, snapshot.epoch
        segments = self._segments(begin)
        for path in segments:
            if path is segments[0]:
                self.next_offset = int(path.stem)
            elif int(path.stem) != self.next_offset:
                raise CorruptFile(path, f"the segment before it ends at offset {self.next_offset}")
            for batch in self._read_segment(path, last=path == segments[-1]):
                if batch.base_offset >= begin:
                    batches.append(batch)
                    self.bytes_since_snapshot += batch.size_bytes
                self.last_timestamp = batch.timestamp
        if segments and self.next_offset < begin and segments[-1].stat().st_size:
            raise CorruptFile(segments[-1], f"it ends at offset {self.next_offset}, the newest snapshot at {begin}")
        if self.next_offset < begin or not segments:
            # Kafka leaves a directory so when it has replaced a log by its snapshot.
            self.next_offset = begin
            segments = [*segments, self.folder / f"{begin:020d}.log"]
        self.leader_epoch = max(self.leader_epoch, self._read_quorum_epoch())
        return batches, segments[-1]

    def _check_older(self) -> None:
        """Those that the newest snapshot has replaced: we do not read them again, Kafka does. Raises: CorruptFile."""
        segments = segments_in(self.folder)
        for path, following in pairwise(segments):
            content = path.read_bytes()
            _check_segment(path, content, len(content), int(following.stem))

    def _segments(self, begin: int) -> list[Path]:
        """The segment files to be read, from the one that holds offset `begin` on. Raises: CorruptFile."""
        segments = segments_in(self.folder)
        if segments and int(segments[0].stem) > begin:
            raise CorruptFile(segments[0], f"the metadata log does not begin at offset {begin}, and no snapshot does")
        while len(segments) > 1 and int(segments[1].stem) <= begin:
            del segments[0]
        return segments

    def _read_segment(self, path: Path, *, last: bool) -> Iterator[MetadataBatch]:
        data = path.read_bytes()
        walk, why = Walk.of_bytes(data), ""
        try:
            for _, header, batch in walk.batches():
                if header[0] != self.next_offset:
                    raise CorruptBatch(_out_of_row(header, self.next_offset))
                found = metadata_batch(header, batch)
                yield found
                self.next_offset = header[0] + header[6] + 1
                if found.leader_epoch > self.leader_epoch or not self._epochs:
                    self.leader_epoch = max(self.leader_epoch, found.leader_epoch)
                    self._epochs.append((self.leader_epoch, found.base_offset))
            why = walk.why
        except CorruptBatch as error:
            why = str(error)
        if why:
            self._cut(path, data, walk.position, why, last=last)

    def _cut(self, path: Path, data: bytes, position: int, why: str, *, last: bool) -> None:
        """Cut a torn tail. What has sound batches after it is no torn tail: Kafka would drop all of it, we refuse."""
        if not last or sound_batch_after(data, position, self.next_offset):
            raise CorruptFile(path, f"damaged batch at byte {position} with valid ones after it: {why}")
        if not self._may_cut:
            raise CorruptFile(path, f"damaged last batch at byte {position}: {why}")
        file = LogFile(path, os.O_RDWR, self._disk)
        file.truncate(position)
        file.sync()
        self.torn = TornTail(str(path), position, len(data) - position)

    def append(self, values: Sequence[tuple[bytes | None, bytes]], *, now_ms: int, control: bool = False) -> int:
        """Append records as one batch, not yet durable; return the offset of the first.

        Raises: StorageError, after which nothing of the batch is in the file, or MetadataLogFailed, after which
        nothing may be written any more.
        """
        if self.failed is not None:
            raise MetadataLogFailed(self.failed, self.folder)
        if self._file.size() != self._size_bytes:
            self._refuse_intruder()
        assert len(values) <= _MAX_BATCH_RECORDS
        base_offset = self.next_offset
        encoded = record_batch.encode_batch(
            [record_batch.Record(base_offset + i, now_ms, key, value, ()) for i, (key, value) in enumerate(values)],
            base_offset=base_offset,
            leader_epoch=self.leader_epoch,
            control=control,
        )
        self._reach_bytes = self._size_bytes + len(encoded)
        try:
            self._file.write_fully(encoded, self._size_bytes)
        except OSError as error:
            self._truncate()
            raise StorageError("cannot append to", self._file.path, error) from error
        self._size_bytes += len(encoded)
        self.bytes_since_snapshot += len(encoded)
        self.last_timestamp = now_ms
        self.next_offset += len(values)
        return base_offset

    def _refuse_intruder(self) -> NoReturn:
        self.failed = "another process has written to"
        self.intruded = True
        raise MetadataLogFailed(self.failed, self.folder)

    def sync(self) -> None:
        """Make all appends durable. A failed fsync may have lost pages for good: the log takes nothing until `mend`.

        Raises: StorageError.
        """
        self.flush()
        self._durable = self.mark()

    def flush(self) -> None:
        """`sync` in the middle of a change, which `mend` does not keep: between two batches of it.

        Of two that are on their way a power loss may take the first alone, and a hole is what no start accepts.
        Raises: StorageError.
        """
        try:
            self._file.datasync()
        except OSError as error:
            self.failed = "a flush has failed on"
            raise StorageError("cannot flush", self._file.path, error) from error

    def mend(self) -> None:
        """Put a new file in the place of the one that has failed: what the last good flush covered, and no more.

        What lay behind that was refused. Nothing is asked of the old file but its content, batch by batch against the
        CRCs: its pages may be called clean and be nowhere else. Until the new name is durable, either file may be found
        after a power loss, and both hold what was acknowledged. Blocks for as long as the segment takes.
        Raises: MetadataLogFailed for another writer, CorruptFile when what is durable cannot be read any more,
        StorageError; after each it may be tried again.
        """
        path, (size_bytes, next_offset) = self._file.path, self._durable
        fresh = path.with_name(path.name + ".tmp")
        try:
            if self._file.size() > self._reach_bytes:
                self._refuse_intruder()
            content = self._file.pread(size_bytes, 0)
            _check_segment(path, content, size_bytes, next_offset)
            remove_files([fresh], self._disk)  # of an attempt that failed: no page of it is used again
            file = LogFile(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._disk)
            file.write_fully(content, 0)
            file.sync()
            self._disk.rename(fresh, path)
            file.path = path
            sync_directory(self.folder, self._disk)
        except OSError as error:
            raise StorageError("cannot mend", path, error) from error
        self._file = file
        self._size_bytes = self._reach_bytes = size_bytes
        self.next_offset = next_offset
        self.failed = None

    def roll(self) -> None:
        """Begin a new segment, because a snapshot covers everything up to here. All must be flushed.

        Raises: StorageError, after which the log has `failed` if the new file is there but perhaps not for good.
        """
        assert self._durable == self.mark()
        path = self.folder / f"{self.next_offset:020d}.log"
        try:
            if self._file.size() != self._size_bytes:
                self._refuse_intruder()
            if self._size_bytes:
                self._file = LogFile(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._disk)
                self._size_bytes = self._reach_bytes = 0
                self._durable = self.mark()
                self.failed = "a new segment may not last in"  # from here on only it is read; then that is not true
                sync_directory(self.folder, self._disk)
                self.failed = None
        except OSError as error:
            raise StorageError("cannot begin", path, error) from error
        self.bytes_since_snapshot = 0

    def remove_leftovers(self) -> None:
        """Remove snapshots that were never finished, and those that Kafka has done with. They do no harm."""
        leftovers = [path for ending in (PARTIAL, DELETED) for path in self.folder.glob(f"*.checkpoint{ending}")]
        with suppress(StorageError):
            remove_files(leftovers, self._disk)

    def mark(self) -> tuple[int, int]:
        """Where the log ends now, for `rewind`."""
        return self._size_bytes, self.next_offset

    def rewind(self, mark: tuple[int, int]) -> None:
        """Take back the appends since `mark`: half of a change must not stay when its other half was refused."""
        self._size_bytes, self.next_offset = mark
        self._truncate()

    def _truncate(self) -> None:
        try:
            self._file.truncate(self._size_bytes)
        except OSError as error:
            self.failed = f"an unfinished append could not be taken back ({error}) from"
        else:
            self._reach_bytes = self._size_bytes

    def begin_epoch(self, leader_change: tuple[bytes, bytes], *, now_ms: int, kraft_version: int = 0) -> None:
        """Become leader of the next epoch: `quorum-state` first, then the LEADER_CHANGE control batch."""
        self.leader_epoch += 1
        self._epochs.append((self.leader_epoch, self.next_offset))
        state: dict[str, Any] = {"leaderId": self.node_id, "leaderEpoch": self.leader_epoch, "votedId": -1}
        if kraft_version:
            state |= {"votedDirectoryId": uuid_text(ZERO_UUID), "data_version": 1}
        else:
            voters = [{"voterId": self.node_id}]
            state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": voters, "data_version": 0}
        replace_file(self.folder / "quorum-state", json.dumps(state, separators=(",", ":")).encode(), self._disk)
        partition_metadata = self.folder / "partition.metadata"
        if not partition_metadata.exists():
            text = f"version: 0\ntopic_id: {uuid_text(METADATA_TOPIC_ID)}"
            replace_file(partition_metadata, text.encode(), self._disk)
        self.append([leader_change], now_ms=now_ms, control=True)
        lines = ["0", str(len(self._epochs)), *(f"{epoch} {offset}" for epoch, offset in self._epochs)]
        replace_file(self.folder / "leader-epoch-checkpoint", ("\n".join(lines) + "\n").encode(), self._disk)

    def _read_quorum_epoch(self) -> int:
        """The epoch of `quorum-state`, 0 when there is none. Raises: CorruptFile, DirectoryRefused."""
        path = self.folder / "quorum-state"
        try:
            state: Any = json.loads(path.read_bytes())
            epoch = int(state["leaderEpoch"])
            voters = [int(voter["voterId"]) for voter in state.get("currentVoters", [])]
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(path, f"it is not the JSON that Kafka writes ({error})") from error
        if voters not in ([], [self.node_id]):
            raise DirectoryRefused(f"{path}: the voters are {voters}; Kohort opens directories of a single node only")
        return epoch


def segments_in(folder: Path) -> list[Path]:
    """The segments of a metadata log, the oldest first."""
    return sorted(path for path in folder.glob("*.log") if path.stem.isdigit())


def _check_segment(path: Path, content: bytes, size_bytes: int, next_offset: int) -> None:
    """Raises: CorruptFile unless `content` is sound batches in a row, up to `next_offset`."""
    offset = int(path.stem)
    walk = Walk.of_bytes(content)
    for _, header, _ in walk.batches():
        if header[0] != offset:
            raise CorruptFile(path, _out_of_row(header, offset))
        offset = header[0] + header[6] + 1
    if walk.verdict is Verdict.CORRUPT:
        raise CorruptFile(path, walk.why)
    if len(content) != size_bytes or offset != next_offset:
        why = f"{len(content)} bytes up to offset {offset} are left of {size_bytes} bytes up to {next_offset}"
        raise CorruptFile(path, why)


def _out_of_row(header: Header, offset: int) -> str:
    return f"base offset {header[0]} where {offset} is due"
