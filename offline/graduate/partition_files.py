"""The files of one partition's folder, each read whole: batches, indexes, epochs, producer snapshots.

After a clean stop Kafka believes indexes, epochs and snapshots without reading a batch, so each is held against the
batches here.

Source: Kafka's LogLoader, OffsetIndex.sanityCheck, DumpLogSegments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from protocol.records import batch as record_batch
from storage.errors import CorruptFile
from storage.reading.batches import read_marker
from storage.reading.checkpoints import LEADER_EPOCHS, parse_checkpoint
from storage.reading.folder import scan_folder
from storage.reading.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.reading.transaction_index import ENTRY_BYTES as TRANSACTION_ENTRY_BYTES
from storage.reading.walk import Verdict, Walk
from storage.state.producer_snapshot import parse_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ANEW = "; remove the file, then start Kohort and stop it, which writes it anew"
_MAX_PROBLEMS = 20  # of one folder: whoever has more knows enough


class _Enough(Exception):
    """A folder with so many problems that more would tell nothing."""


@dataclass(slots=True)
class PartitionFiles:
    """What a folder holds, and what is wrong in it."""

    folder: Path
    problems: list[str] = field(default_factory=list)
    record_count: int = 0
    size_bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0
    newest_epoch: int = -1
    open_transactions: dict[int, int] = field(default_factory=dict)  # producer id -> first offset
    group_record_types: set[int] = field(default_factory=set)  # of `__consumer_offsets`: types of keys

    def problem(self, file: Path, what: str) -> None:
        """Say what is wrong with a file."""
        self.problems.append(f"{file}: {what}")
        if len(self.problems) >= _MAX_PROBLEMS:
            raise _Enough


def inspect_partition(folder: Path, *, group_records: bool = False) -> PartitionFiles:
    """Read every file of a folder; with `group_records` also the types of the keys in it."""
    found = PartitionFiles(folder)
    try:
        _inspect(found, group_records)
    except _Enough:
        found.problems.append(f"{folder}: and more")
    except CorruptFile as error:
        found.problems.append(str(error))
    except OSError as error:
        found.problems.append(f"{error.filename or folder}: {(error.strerror or str(error)).lower()}")
    return found


def _inspect(found: PartitionFiles, group_records: bool) -> None:
    present = scan_folder(found.folder)
    present.refuse_odd()
    bases = present.sizes
    for path in [*present.cleaned, *present.swaps]:
        found.problem(path, "a cleaning was interrupted; start Kohort and stop it, which finishes it")
    logs = sorted(bases[".log"])
    if not logs:
        # Kohort makes the first segment with the first record, and Kafka when it opens the folder.
        if any(bases.values()) or (found.folder / LEADER_EPOCHS).exists():
            found.problem(found.folder, "it has no segment, and files of one")
        return
    found.start_offset = found.end_offset = logs[0]
    for base_offset in logs:
        path = found.folder / f"{base_offset:020d}.log"
        if not path.exists():
            found.problem(found.folder, f"the segment of offset {base_offset} is not named with 20 digits")
            continue
        if base_offset < found.end_offset:
            found.problem(path, f"it begins below offset {found.end_offset}, where the segment before it ends")
        found.end_offset = max(found.end_offset, base_offset)
        _Segment(found, path, base_offset).check(group_records)
    _check_epochs(found)
    for offset in sorted(bases[".snapshot"]):
        path = found.folder / f"{offset:020d}.snapshot"
        parse_snapshot(path, path.read_bytes())
    if found.size_bytes and found.end_offset not in bases[".snapshot"]:
        found.problem(
            found.folder / f"{found.end_offset:020d}.snapshot",
            "it is not there; Kafka would forget which producers wrote, and take their retries twice",
        )


def _check_epochs(found: PartitionFiles) -> None:
    path = found.folder / LEADER_EPOCHS
    if not path.exists():
        if found.size_bytes:
            found.problem(path, "it is not there")
        return
    before = (-1, -1)
    for entry in parse_checkpoint(path, path.read_bytes()):
        try:
            epoch, start = map(int, entry)
        except ValueError:
            found.problem(path, f"{' '.join(entry)!r} is not `epoch startOffset`")
            return
        if epoch <= before[0] or start <= before[1]:
            found.problem(path, f"epoch {epoch} from offset {start} comes after epoch {before[0]} from {before[1]}")
        before = (epoch, start)
    if before[1] > found.end_offset:
        found.problem(path, f"epoch {before[0]} begins at offset {before[1]}, beyond the log's end {found.end_offset}")
    if before[0] < found.newest_epoch:
        found.problem(path, f"it ends with epoch {before[0]}, and the batches with {found.newest_epoch}")
    found.newest_epoch = max(found.newest_epoch, before[0])


class _Segment:
    """One segment: its batches in one pass, and the indexes held against them on the way."""

    def __init__(self, found: PartitionFiles, path: Path, base_offset: int) -> None:
        self._found = found
        self._path = path
        self._base_offset = base_offset
        self._latest_timestamp = -1

    def check(self, group_records: bool) -> None:
        """Every batch, then what the indexes have left over."""
        found = self._found
        offsets = self._offset_index()
        times = self._time_index()
        aborted = self._path.with_suffix(".txnindex")
        if aborted.exists() and aborted.stat().st_size % TRANSACTION_ENTRY_BYTES:
            found.problem(aborted, f"its {aborted.stat().st_size} bytes are no whole entries")
        at = time_at = 0
        for position, header, data in self._batches():
            while at < len(offsets) and offsets.positions[at] <= position:
                where, offset = offsets.positions[at], self._base_offset + offsets.offsets[at]
                if where < position or offset < header.base_offset:
                    self._wrong_entry(".index", at, OFFSET_ENTRY_BYTES, f"offset {offset} at byte {where}")
                at += 1
            while time_at < len(times) and self._base_offset + times.offsets[time_at] <= header.last_offset:
                if times.timestamps[time_at] < self._latest_timestamp:
                    what = f"time {times.timestamps[time_at]}, and {self._latest_timestamp} comes before it"
                    self._wrong_entry(".timeindex", time_at, TIME_ENTRY_BYTES, what)
                time_at += 1
            self._latest_timestamp = max(self._latest_timestamp, header.max_timestamp)
            found.record_count += header.record_count
            found.end_offset = header.next_offset
            found.newest_epoch = max(found.newest_epoch, header.leader_epoch)
            if header.is_transactional:
                self._follow_transaction(header, data)
            if group_records and not header.is_control:
                keys = (key for key, _ in record_batch.iterate_keys_values(data))
                found.group_record_types.update(int.from_bytes(key[:2]) for key in keys if key is not None)
        found.size_bytes += self._path.stat().st_size
        if at < len(offsets):
            self._wrong_entry(".index", at, OFFSET_ENTRY_BYTES, "it points beyond the last batch")
        if time_at < len(times):
            self._wrong_entry(".timeindex", time_at, TIME_ENTRY_BYTES, "its offset lies beyond the last batch")

    def _wrong_entry(self, suffix: str, number: int, entry_bytes: int, what: str) -> None:
        self._found.problem(
            self._path.with_suffix(suffix), f"wrong entry at byte {number * entry_bytes}: {what}{_ANEW}"
        )

    def _batches(self) -> Iterator[tuple[int, record_batch.BatchHeader, bytes]]:
        """(byte, header, batch) of every batch, checked; a problem ends it."""
        walk = Walk.of_file(self._path)
        for position, fields, batch in walk.batches():
            header = record_batch.BatchHeader._make(fields)
            if header.base_offset < self._found.end_offset:
                self._found.problem(
                    self._path,
                    f"the batch at byte {position} begins at offset {header.base_offset}, "
                    f"below {self._found.end_offset}, where the one before it ends",
                )
                return
            yield position, header, bytes(batch)
        if walk.verdict is Verdict.TORN:
            self._found.problem(self._path, f"torn batch at byte {walk.position}, the last of the file")
        elif walk.verdict is Verdict.CORRUPT:
            self._found.problem(self._path, f"damaged batch at byte {walk.position}: {walk.why}")

    def _follow_transaction(self, header: record_batch.BatchHeader, data: bytes) -> None:
        if not header.is_control:
            self._found.open_transactions.setdefault(header.producer_id, header.base_offset)
        elif read_marker(data) is not None:
            self._found.open_transactions.pop(header.producer_id, None)

    def _offset_index(self) -> OffsetIndex:
        path = self._path.with_suffix(".index")
        data = self._index_bytes(path)
        index = OffsetIndex.parse(data)
        if index is None or len(index) * OFFSET_ENTRY_BYTES != len(data):
            self._found.problem(path, f"its {len(data)} bytes are no offset index as a clean stop leaves it{_ANEW}")
            return OffsetIndex()
        return index

    def _time_index(self) -> TimeIndex:
        path = self._path.with_suffix(".timeindex")
        data = self._index_bytes(path)
        index = TimeIndex.parse(data)
        if index is None or len(index) * TIME_ENTRY_BYTES != len(data):
            self._found.problem(path, f"its {len(data)} bytes are no time index as a clean stop leaves it{_ANEW}")
            return TimeIndex()
        return index

    def _index_bytes(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            self._found.problem(path, "it is not there; start Kohort and stop it, which writes it anew")
            return b""
