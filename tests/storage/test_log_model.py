"""Random histories of a log against a plain list of records."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from protocol.records.batch import Record, encode_batch
from storage.errors import OffsetOutOfRange
from storage.log.partition_log import PartitionLog
from storage.log.placed import Placed
from storage.reading.batches import Parted
from storage.state.log_config import LogConfig
from storage.state.tail import TailBudget
from tests.storage.logs import pairs, parted, records_in

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)


class LogMachine(RuleBasedStateMachine):
    """The model: (offset, timestamp, value) of every record, in a list."""

    @initialize(tail_batches=st.integers(0, 5))
    def begin(self, tail_batches: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.tail = TailBudget(limit_batches=tail_batches)
        self.records: list[tuple[int, int, bytes]] = []
        self.batches: list[tuple[int, int]] = []  # base offset, offset after the last
        self.start = self.end = self.flushed = 0
        self.placed: Placed | None = None
        self.placing: list[list[tuple[int, int, bytes]]] = []
        self.log = self.opened(clean=True)

    def opened(self, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(
            Path(self.folder.name),
            CONFIG,
            clean=clean,
            recovery_point=self.flushed,
            log_start_offset=self.start,
            tail=self.tail,
        )

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(
        times=st.lists(st.integers(0, 300), min_size=1, max_size=4),
        size=st.integers(0, 120),
        compression=st.integers(0, 4),
    )
    def append(self, times: list[int], size: int, compression: int) -> None:
        self.settled()
        made = [Record(at, time, None, bytes([at]) * size) for at, time in enumerate(times)]
        assert self.log.append(encode_batch(made, compression=compression), leader_epoch=0) == self.end
        self.records += [(self.end + at, time, bytes([at]) * size) for at, time in enumerate(times)]
        self.batches.append((self.end, self.end + len(times)))
        self.end += len(times)

    @rule(
        times=st.lists(st.integers(0, 300), min_size=1, max_size=4),
        size=st.integers(0, 120),
        behind=st.booleans(),
        stays=st.booleans(),
    )
    def place(self, times: list[int], size: int, behind: bool, stays: bool) -> None:
        made: bytearray | Parted = encode_batch(
            [Record(at, time, None, bytes([at]) * size) for at, time in enumerate(times)]
        )
        if stays:
            made = parted(made)
        if not behind or self.placed is None or self.placed.is_over:
            self.settled()
            self.placed = self.log.place(made, leader_epoch=0)
        elif not self.log.place_behind(self.placed, made):
            return
        base = self.end + sum(map(len, self.placing))
        self.placing.append([(base + at, time, bytes([at]) * size) for at, time in enumerate(times)])

    @rule()
    def write(self) -> None:
        if self.placed is not None:
            self.placed.write()

    @rule()
    def finish(self) -> None:
        if self.placed is not None:
            self.log.finish(self.placed)
            self.settled()

    def settled(self) -> None:
        """What is placed is in the log now, or will be when the log does what comes next."""
        for records in self.placing:
            self.records += records
            self.batches.append((self.end, self.end + len(records)))
            self.end += len(records)
        self.placed, self.placing = None, []

    @rule(data=st.data(), max_bytes=st.integers(1, 2_000), copied=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, copied: bool) -> None:
        offset = data.draw(st.integers(-1, self.end + 1))
        upper = data.draw(st.integers(0, self.end + 1))
        if not self.start <= offset <= self.end:
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, max_bytes)
            return
        result = self.log.read(offset, max_bytes, upper_bound_offset=upper, copied=copied)
        found = [record.offset for record in records_in(b"".join(result.buffers))]
        whole = [
            at
            for base, end in self.batches
            if end > offset and end <= upper
            for at in range(base, end)
            if any(record[0] == at for record in self.records)
        ]
        assert found == whole[: len(found)]
        assert found or not whole or offset >= upper
        assert result.size_bytes <= max_bytes or sum(base in found for base, _ in self.batches) == 1
        if found:
            assert result.next_offset > found[-1]

    @rule(timestamp=st.integers(-1, 301))
    def look_up_a_time(self, timestamp: int) -> None:
        expected = next(
            ((time, offset) for offset, time, _ in self.records if time >= timestamp and offset >= self.start), None
        )
        found = self.log.offset_for_timestamp(timestamp)
        assert (found and (found.timestamp, found.offset)) == expected

    @rule()
    def find_the_latest(self) -> None:
        kept = [(time, -offset) for offset, time, _ in self.records if offset >= self.start]
        found = self.log.offset_of_max_timestamp()
        assert (found and (found.timestamp, -found.offset)) == (max(kept) if kept else None)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.settled()
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(offset)
        self.batches = [(base, end) for base, end in self.batches if end <= offset]
        kept = self.batches[-1][1] if self.batches else 0
        self.records = [record for record in self.records if record[0] < kept]
        self.end = offset
        self.flushed = min(self.flushed, offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.delete_records_before(self.start)
        self.log.apply_retention(0, self.end)
        if self.log.log_end_offset > self.end:  # it has rolled
            self.settled()
        first = self.log.bases[0]
        assert first <= self.start
        self.batches = [(base, end) for base, end in self.batches if end > first]
        self.records = [record for record in self.records if record[0] >= first]

    @rule()
    def flush(self) -> None:
        self.flushed = self.log.flush()
        assert self.flushed == self.end

    @rule()
    def release(self) -> None:
        self.log.release_unused()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean or (self.placed is not None and self.placed.is_over):  # what was written is found
            self.settled()
        self.placed, self.placing = None, []
        if clean:
            self.log.close()
            self.flushed = self.log.recovery_point
        self.log = self.opened(clean=clean)
        # A gap at the very end, left by a truncation inside a batch, is in no file.
        self.end = self.log.log_end_offset
        assert self.end >= (self.batches[-1][1] if self.batches else self.start)
        self.flushed = min(self.flushed, self.end)
        assert not self.log.recovery.cuts

    @invariant()
    def all_records_are_there(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        kept = [(offset, value) for offset, _, value in self.records]
        found = [(offset, value) for offset, _, value in pairs(self.log)]
        assert [pair for pair in found if pair[0] >= self.start] == [pair for pair in kept if pair[0] >= self.start]


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
