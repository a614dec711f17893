"""What is left of transactions after any end: the producers, what is open, and what readers must pass over.

The log is the truth: whatever it holds after a crash, its derived state must be what reading it from its beginning
gives. The oracle here does that, batch by batch, in the plainest way.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from protocol.records.batch import iterate_headers, iterate_records
from storage.clean.cleaner import clean
from storage.log.partition_log import PartitionLog
from storage.reading.transaction_index import AbortedTransaction
from storage.state.log_config import LogConfig
from tests.storage.logs import all_bytes, batch, marker, opened, transactional
from tests.storage.test_crash import BrokenDisk, Crash, breakages
from tests.storage.test_power_loss import PowerLossDisk

TINY = LogConfig(segment_bytes=700, index_interval_bytes=100)

Facts = tuple[dict[int, tuple[int, int, int, int]], list[AbortedTransaction]]


def by_reading(log: PartitionLog) -> Facts:
    """(epoch, last sequence, coordinator epoch, first offset of the open transaction) by producer; what was aborted."""
    producers: dict[int, tuple[int, int, int, int]] = {}
    aborted: list[AbortedTransaction] = []
    data = all_bytes(log, log.bases[0])
    for position, header in iterate_headers(data):
        if header.producer_id < 0:
            continue
        epoch, sequence, coordinator_epoch, first = producers.get(header.producer_id, (-1, -1, -1, -1))
        if header.is_control:
            record = next(iter(iterate_records(data, position)))
            if first >= 0 and record.key == b"\0\0\0\0":
                rest = [entry[3] for pid, entry in producers.items() if entry[3] >= 0 and pid != header.producer_id]
                stable = min(rest, default=header.last_offset + 1)
                aborted.append(AbortedTransaction(header.producer_id, first, header.last_offset, stable))
            sequence = sequence if epoch == header.producer_epoch else -1
            coordinator_epoch, first = int.from_bytes((record.value or b"")[2:6], "big"), -1
        else:
            sequence = header.base_sequence + header.last_offset_delta
            if header.is_transactional and first < 0:
                first = header.base_offset
        producers[header.producer_id] = (header.producer_epoch, sequence, coordinator_epoch, first)
    return producers, aborted


def by_state(log: PartitionLog) -> Facts:
    producers = {
        entry.producer_id: (
            entry.epoch,
            entry.last_sequence,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in log.producers.entries.values()
    }
    return producers, [entry for segment in log.segments for entry in segment.aborted]


def stable_by_reading(facts: Facts, log_end_offset: int) -> int:
    return min([entry[3] for entry in facts[0].values() if entry[3] >= 0], default=log_end_offset)


def steps(random: Random, count: int) -> Iterator[bytearray]:
    """Batches of three transactional producers and a plain one, and markers, some of which end nothing."""
    sequences, epochs = dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0)
    for _ in range(count):
        producer = random.randrange(4)
        if producer == 3:
            yield batch(1, producer_id=3, producer_epoch=0, base_sequence=sequences[3])
            sequences[3] += 1
        elif random.random() < 0.6:
            pairs = [(b"k%d" % random.randrange(3), b"v" * 60) for _ in range(random.randrange(1, 3))]
            yield transactional(producer, sequences[producer], *pairs, epoch=epochs[producer])
            sequences[producer] += len(pairs)
        else:
            if random.random() < 0.5:  # as version 2 does
                epochs[producer] += 1
                sequences[producer] = 0
            yield marker(producer, epochs[producer], abort=random.random() < 0.5)


def life(log: PartitionLog, seed: int, flushed: Callable[[int], None] = lambda _: None, count: int = 24) -> None:
    for at, made in enumerate(steps(Random(seed), count)):
        log.append(made, leader_epoch=at // 9)
        if at % 7 == 6:
            flushed(log.flush())


def as_it_reads(log: PartitionLog, where: object = None) -> None:
    facts = by_reading(log)
    assert by_state(log) == facts, where
    assert log.last_stable_offset(log.log_end_offset) == stable_by_reading(facts, log.log_end_offset), where


@pytest.mark.parametrize("seed", range(3))
def test_tx81_a_kill_at_any_operation_leaves_transactions_as_the_log_has_them(tmp_path: Path, seed: int) -> None:
    """TX63, TX64: over segments that were flushed and segments that were not, with rolls inside of transactions."""
    directory = tmp_path / "t-0"
    for at in breakages():
        disk, points = BrokenDisk(at, half=True), [0]
        with suppress(Crash):
            log = opened(directory, TINY, disk=disk)
            life(log, seed, points.append)
            log.close()
        again = opened(directory, TINY, disk=BrokenDisk(0), recovery_point=points[-1])
        as_it_reads(again, (at, disk.broke))
        again.close()
        as_it_reads(opened(directory, TINY, clean=True, disk=BrokenDisk(0)), (at, disk.broke))
        shutil.rmtree(directory)
        if not disk.broke:
            break
    assert at > 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_transactions_after_a_power_loss_are_what_the_log_has(tmp_path: Path, seed: int) -> None:
    """Of each file only what was fsynced, of each folder only fsynced names."""
    directory = tmp_path / "t-0"
    for at in breakages():
        directory.mkdir()
        disk, points = PowerLossDisk(at, directory), [0]
        with suppress(Crash):
            log = opened(directory, TINY, disk=disk)
            life(log, seed, points.append)
            log.close()
        disk.lose_power()
        again = opened(directory, TINY, recovery_point=points[-1])
        assert again.log_end_offset >= points[-1]
        as_it_reads(again, (at, disk.broke))
        shutil.rmtree(directory)
        if not disk.broke:
            break


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lost", ["", ".txnindex", "index", "snapshot", "all"])
def test_tx63_what_is_derived_comes_back_without_its_files(tmp_path: Path, seed: int, lost: str) -> None:
    """After a kill, with some or all of the files gone that are made from the batches."""
    life(opened(tmp_path, TINY), seed, count=40)
    for path in tmp_path.iterdir():
        if (lost == "all" and path.suffix != ".log") or (lost and path.name.endswith(lost)):
            path.unlink()
    as_it_reads(opened(tmp_path, TINY))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("clean_stop", [True, False])
def test_index_files_that_are_missing_are_rebuilt_with_the_transactions_in_them(
    tmp_path: Path, seed: int, clean_stop: bool
) -> None:
    """Also where no batch is checked: who removes a segment's indexes removes its transaction index with them."""
    log = opened(tmp_path, TINY)
    life(log, seed, count=40)
    log.close()
    for path in tmp_path.iterdir():
        if path.suffix in {".index", ".timeindex", ".txnindex"}:
            path.unlink()
    again = opened(tmp_path, TINY, clean=clean_stop, recovery_point=log.log_end_offset)
    as_it_reads(again)
    again.close()
    as_it_reads(opened(tmp_path, TINY, clean=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "damaged", [lambda data: data[:-3], lambda data: bytes(len(data)), lambda data: data[1:] + b"x"]
)
def test_a_transaction_index_that_cannot_be_right_is_rebuilt(
    tmp_path: Path, seed: int, damaged: Callable[[bytes], bytes]
) -> None:
    """After a stop in good order too: readers would be given what was aborted."""
    log = opened(tmp_path, TINY)
    life(log, seed, count=40)
    log.close()
    indexes = list(tmp_path.glob("*.txnindex"))
    for path in indexes:
        path.write_bytes(damaged(path.read_bytes()))
    again = opened(tmp_path, TINY, clean=True)
    as_it_reads(again)
    assert len(again.recovery.rebuilt_indexes) == len(indexes) > 0
    again.close()
    as_it_reads(opened(tmp_path, TINY, clean=True))


@pytest.mark.parametrize("seed", range(6))
def test_a_truncated_log_has_the_transactions_of_what_is_left(tmp_path: Path, seed: int) -> None:
    log = opened(tmp_path, TINY)
    life(log, seed, count=40)
    ends = [header.next_offset for _, header in iterate_headers(all_bytes(log))]
    log.truncate_to(Random(seed).choice(ends))
    as_it_reads(log)
    again = opened(tmp_path, TINY)
    as_it_reads(again)


@pytest.mark.parametrize("seed", range(6))
def test_tx65_tx66_what_readers_see_is_the_same_after_cleaning(tmp_path: Path, seed: int) -> None:
    """The newest committed value of each key, nothing of what was aborted, and nothing of what is open is touched."""
    config = LogConfig(segment_bytes=700, index_interval_bytes=100, compact=True, delete=False)
    log = opened(tmp_path, config)
    life(log, seed, count=80)
    producers, stable = by_state(log)[0], log.last_stable_offset(log.log_end_offset)
    before, beyond = committed(log, stable), all_bytes(log, stable)
    for now_ms in (2_000, 3_000):
        dirty = log.dirty_range(None, now_ms, log.log_end_offset)
        log.swap_in(clean(log.plan_cleaning(dirty, now_ms)))
    assert committed(log, stable) == before
    assert all_bytes(log, stable) == beyond
    for clean_stop in (False, True):
        again = opened(tmp_path, config, clean=clean_stop)
        assert committed(again, stable) == before
        assert by_state(again)[0] == producers
        assert again.last_stable_offset(again.log_end_offset) == stable
        again.close()


def committed(log: PartitionLog, end: int) -> dict[bytes | None, tuple[int, bytes | None]]:
    """What a read_committed reader makes of the log: the newest value of each key, with its offset."""
    newest: dict[bytes | None, tuple[int, bytes | None]] = {}
    offset = log.log_start_offset
    while offset < end:
        found = log.read(offset, 10**6, upper_bound_offset=end, copied=True)
        data = b"".join(found.buffers)
        waiting = sorted(log.aborted_transactions(offset, found.next_offset), key=lambda entry: entry.first_offset)
        aborting: set[int] = set()
        for position, header in iterate_headers(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                for record in iterate_records(data, position):
                    newest[record.key] = (record.offset, record.value)
        offset = found.next_offset
    return newest
