"""Compaction of any history with transactions in it: what a reader sees is what a model says, and nothing twice."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage.clean.cleaner import clean
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig
from tests.storage.logs import all_bytes, headers_in, keyed, marker, opened, records_in, transactional

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=500)

Step = tuple[Any, ...]
keys = st.sampled_from([b"a", b"b", b"c"])
producers = st.sampled_from([1, 2])
steps = st.one_of(
    st.tuples(st.just("plain"), keys, st.booleans()),
    st.tuples(st.just("transactional"), keys, st.booleans(), producers),
    st.tuples(st.just("end"), producers, st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([1, 2, 1_000])),
    st.tuples(st.just("delete records"), st.integers(0, 3)),
    st.tuples(st.just("start anew"), st.sampled_from(["stopped", "killed", "without snapshots"])),
)


@dataclass
class Written:
    """One record that was appended; `visible` once it is decided, if it was not aborted."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = -1
    visible: bool = True


@dataclass
class Life:
    """A log and its model."""

    log: PartitionLog
    now_ms: int = 1_000
    checkpoint: int | None = None
    written: list[Written] = field(default_factory=list)
    open: dict[int, list[Written]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    snapshots_lost: bool = False  # what is deleted then is not known of producers either

    def step(self, step: Step) -> None:
        self.now_ms += 300
        match step:
            case ("plain", key, dead):
                value = None if dead else b"%d" % len(self.written)
                offset = self.log.append(keyed((key, value), timestamp=self.now_ms), leader_epoch=0)
                self.written.append(Written(offset, key, value))
            case ("transactional", key, dead, producer):
                value = None if dead else b"%d" % len(self.written)
                sequence = self.sequences.get(producer, 0)
                self.sequences[producer] = sequence + 1
                offset = self.log.append(transactional(producer, sequence, (key, value)), leader_epoch=0)
                one = Written(offset, key, value, producer, visible=False)
                self.written.append(one)
                self.open.setdefault(producer, []).append(one)
            case ("end", producer, abort) if producer in self.open:
                self.log.append(marker(producer, 0, abort=abort), leader_epoch=0)
                for one in self.open.pop(producer):
                    one.visible = not abort
            case ("roll",):
                self.log.roll(now_ms=self.now_ms)
            case ("clean", max_keys):
                self.clean(max_keys)
            case ("delete records", behind) if not self.snapshots_lost:
                stable = self.log.last_stable_offset(self.log.log_end_offset)
                self.log.delete_records_before(max(stable - behind, 0))
                self.log.apply_retention(self.now_ms, self.log.log_end_offset)
            case ("start anew", how):
                log_start_offset = self.log.log_start_offset
                recovery_point = self.log.recovery_point
                if how == "stopped":
                    self.log.close()
                if how == "without snapshots" and not log_start_offset:  # the batches have to tell of the producers
                    self.snapshots_lost = True
                    recovery_point = 0
                    for path in self.log.directory.glob("*.snapshot"):
                        path.unlink()
                self.log = opened(
                    self.log.directory,
                    CONFIG,
                    clean=how == "stopped",
                    recovery_point=recovery_point,
                    log_start_offset=log_start_offset,
                )

    def clean(self, max_keys: int) -> None:
        dirty = self.log.dirty_range(self.checkpoint, self.now_ms, self.log.log_end_offset)
        result = clean(replace(self.log.plan_cleaning(dirty, self.now_ms), max_keys=max_keys))
        assert self.log.swap_in(result)
        self.checkpoint = result.clean_end_offset
        seen = [key for offset, key, _ in self.visible() if offset < result.clean_end_offset]
        assert len(seen) == len(set(seen)), f"superseded values are left below {result.clean_end_offset}"

    def check_producers(self) -> None:
        """C05: what each was acknowledged last, and where its transaction begins."""
        entries = self.log.producers.entries
        assert {producer: entries[producer].last_sequence + 1 for producer in self.sequences} == self.sequences
        for producer in self.sequences:
            pending = self.open.get(producer)
            assert entries[producer].transaction_first_offset == (pending[0].offset if pending else -1)

    def visible(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a read_committed consumer gets from the log."""
        stable = self.log.last_stable_offset(self.log.log_end_offset)
        aborted = self.log.aborted_transactions(self.log.log_start_offset, self.log.log_end_offset)
        data, position = all_bytes(self.log), 0
        found = []
        for header in headers_in(data):
            batch = data[position : position + header.size_bytes]
            position += header.size_bytes
            hidden = header.is_transactional and any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in aborted
            )
            if not header.is_control and not hidden and header.base_offset < stable:
                found += [(record.offset, record.key, record.value) for record in records_in(batch)]
        return [one for one in found if one[0] >= self.log.log_start_offset]

    def check(self) -> None:
        """The last value of every key, and nothing that was not written so."""
        stable = min((one.offset for pending in self.open.values() for one in pending), default=1 << 60)
        start = self.log.log_start_offset
        decided = [one for one in self.written if one.visible and start <= one.offset < stable]
        expected = {one.key: one.value for one in decided}
        found = self.visible()
        last = {key: value for _, key, value in found}
        for key in {one.key for one in decided}:
            assert last.get(key) == expected[key], f"{key!r}"
        assert set(found) <= {(one.offset, one.key, one.value) for one in decided}


@settings(max_examples=150)
@given(st.lists(steps, max_size=40))
@example(
    [
        ("transactional", b"a", False, 1), ("end", 1, True), ("roll",), ("clean", 1_000), ("plain", b"b", False),
        ("transactional", b"b", False, 1), ("end", 1, False), ("roll",), ("clean", 1_000),
    ]
)  # fmt: skip
@example([("plain", b"a", False), ("transactional", b"a", False, 2), ("roll",), ("end", 2, True), ("clean", 1_000)])
def test_a_reader_sees_the_last_value_of_every_key_and_nothing_twice(history: list[Step]) -> None:
    """C06, C07, C08 and C15 for any history: the transaction of a producer that aborted one before counts
    again, and one whose marker lies in a later segment than its records is aborted all the same."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(opened(Path(folder) / "t-0", CONFIG))
        for step in history:
            life.step(step)
            life.check()
            life.check_producers()
