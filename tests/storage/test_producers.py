"""Producers, their transactions and their snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from storage.errors import CorruptFile
from storage.reading.transaction_index import AbortedTransaction, pack_transaction_index, parse_transaction_index
from storage.state.producer_checks import ACCEPT, Duplicate, Refuse, Verdict, check, check_marker, check_unsequenced
from storage.state.producer_snapshot import pack_snapshot, parse_snapshot
from storage.state.producer_state import ProducerEntry, ProducerState, SentBatch, Verification
from tests.storage.logs import SMALL, batch, marker, opened, transactional


def state(*batches: tuple[int, int], epoch: int = 0) -> ProducerEntry:
    """A producer that sent these (first sequence, count), one after the other from offset 0."""
    producers, offset = ProducerState(), 0
    for sequence, count in batches:
        producers.data_appended(7, epoch, sequence, offset, count - 1, 1_000 + offset, transactional=False)
        offset += count
    return producers.entries[7]


def verdict(
    entry: ProducerEntry | None, sequence: int, count: int = 1, *, epoch: int = 0, **options: object
) -> Verdict:
    return check(
        entry,
        producer_id=7,
        epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=count - 1,
        **{"transactional": False, **options},  # type: ignore[arg-type]  # tests pass options through
    )


def code(found: Verdict) -> ErrorCode | None:
    return found.code if isinstance(found, Refuse) else None


OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_tx02_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    assert verdict(state((0, 3)), 0, 3) == Duplicate(base_offset=0, last_offset=2, timestamp=1_000)


def test_tx03_the_last_five_batches_are_remembered() -> None:
    """The sixth last is out of order, the fifth last a duplicate."""
    entry = state(*[(at, 1) for at in range(6)])
    assert code(verdict(entry, 0)) == OUT_OF_ORDER
    assert verdict(entry, 1) == Duplicate(1, 1, 1_001)


def test_tx04_a_part_of_a_batch_is_no_duplicate() -> None:
    assert code(verdict(state((0, 3)), 0, 2)) == OUT_OF_ORDER


def test_tx05_a_gap_is_refused_and_the_next_sequence_is_not() -> None:
    entry = state((0, 3))
    assert code(verdict(entry, 5)) == OUT_OF_ORDER
    assert verdict(entry, 3) is ACCEPT


def test_tx06_a_new_epoch_begins_at_zero_and_the_old_one_is_fenced() -> None:
    assert code(verdict(state((0, 3)), 5, epoch=1)) == OUT_OF_ORDER
    assert verdict(state((0, 3)), 0, epoch=1) is ACCEPT
    assert code(verdict(state((0, 1), epoch=1), 3, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_tx07_an_unknown_producer_may_begin_anywhere() -> None:
    assert verdict(None, 7) is ACCEPT


def test_tx08_sequences_wrap() -> None:
    """After 2^31 - 1 comes 0, and a batch may run over the wrap."""
    assert verdict(state((2**31 - 1, 1)), 0) is ACCEPT
    over = state((2**31 - 2, 3))
    assert over.last_sequence == 0
    assert verdict(over, 1) is ACCEPT
    assert verdict(over, 2**31 - 2, 3) == Duplicate(0, 2, 1_000)


def test_tx09_a_negative_sequence_is_an_invalid_record() -> None:
    assert code(verdict(None, -1)) == ErrorCode.INVALID_RECORD


def test_a_marker_of_a_new_epoch_forgets_the_batches() -> None:
    """Then 0 is the next sequence; a marker of the same epoch changes nothing about that."""
    producers = ProducerState()
    producers.data_appended(7, 0, 0, 0, 2, 1_000, transactional=True)
    producers.marker_appended(7, 0, 0, 3, 1_000, aborted=False)
    assert verdict(producers.entries[7], 3) is ACCEPT
    producers.marker_appended(7, 1, 0, 4, 1_000, aborted=False)
    assert code(verdict(producers.entries[7], 3, epoch=1)) == OUT_OF_ORDER
    assert verdict(producers.entries[7], 0, epoch=1) is ACCEPT


def test_plain_data_inside_a_transaction_and_unverified_ones_are_refused() -> None:
    producers = ProducerState()
    producers.data_appended(7, 0, 0, 0, 0, 1_000, transactional=True)
    assert code(verdict(producers.entries[7], 1)) == ErrorCode.INVALID_TXN_STATE
    assert verdict(producers.entries[7], 1, transactional=True, verify=True) is ACCEPT
    asked = Verification(epoch=0, lowest_sequence=5, transaction_v2=False)
    assert code(verdict(None, 5, transactional=True, verify=True)) == ErrorCode.INVALID_TXN_STATE
    assert code(verdict(None, 5, transactional=True, verify=True, verification=asked)) == ErrorCode.INVALID_TXN_STATE
    assert verdict(None, 5, transactional=True, verify=True, verification=asked, guard=asked) is ACCEPT
    assert code(verdict(None, 6, transactional=True, verification=asked, guard=asked)) == OUT_OF_ORDER
    second = Verification(epoch=0, lowest_sequence=5, transaction_v2=True)
    assert code(verdict(None, 5, transactional=True, verification=second, guard=second)) == OUT_OF_ORDER


def test_an_epoch_that_is_fenced_is_refused_as_such_before_verification_is_missed() -> None:
    """Its producer can go on after an abort, where INVALID_TXN_STATE ends it."""
    entry = state((0, 1), epoch=3)
    assert code(verdict(entry, 1, epoch=2, transactional=True, verify=True)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_between_question_and_answer_voids_the_answer() -> None:
    """The batch that comes after its transaction's end must not begin another one that nobody would end."""
    producers = ProducerState()
    asked = producers.start_verification(7, 0, 0, 1_000, transaction_v2=False)
    producers.marker_appended(7, 0, 0, 0, 1_000, aborted=True)
    again = producers.start_verification(7, 0, 0, 1_000, transaction_v2=False)
    known = {"transactional": True, "verify": True, "verification": producers.verifications[7]}
    assert code(verdict(producers.entries[7], 0, guard=asked, **known)) == ErrorCode.INVALID_TXN_STATE
    assert verdict(producers.entries[7], 0, guard=again, **known) is ACCEPT


def test_a_marker_of_version_2_leaves_the_question_of_the_next_transaction() -> None:
    """It carries the epoch that the next transaction has."""
    producers = ProducerState()
    asked = producers.start_verification(7, 1, 0, 1_000, transaction_v2=True)
    producers.marker_appended(7, 1, 0, 0, 1_000, aborted=True)
    assert producers.verifications == {7: asked}
    producers.marker_appended(7, 2, 0, 1, 1_000, aborted=True)
    assert not producers.verifications


def test_tx10_a_lower_sequence_that_was_asked_about_holds_higher_ones_back() -> None:
    """Else a batch whose verification failed in passing would be out of order for good once the next ones are in."""
    producers = ProducerState()
    asked = producers.start_verification(7, 0, 4, 1_000, transaction_v2=False)
    assert producers.start_verification(7, 0, 2, 1_000, transaction_v2=False) is asked
    known = {"transactional": True, "verification": asked, "guard": asked, "verify": True}
    assert code(verdict(None, 4, **known)) == OUT_OF_ORDER
    assert verdict(None, 2, **known) is ACCEPT
    producers.start_verification(7, 1, 9, 1_000, transaction_v2=False)
    assert (asked.epoch, asked.lowest_sequence) == (1, 9)
    producers.start_verification(7, 0, 0, 1_000, transaction_v2=False)
    assert (asked.epoch, asked.lowest_sequence) == (1, 9)


def test_a_question_goes_when_the_transaction_has_its_first_batch_or_with_age() -> None:
    producers = ProducerState()
    producers.start_verification(7, 0, 0, 1_000, transaction_v2=False)
    producers.data_appended(7, 0, 0, 0, 0, 1_000, transactional=True)
    assert not producers.verifications
    producers.start_verification(8, 0, 0, 1_000, transaction_v2=False)
    producers.expire(1_999, 1_000)
    assert list(producers.verifications) == [8]
    producers.expire(2_000, 1_000)
    assert not producers.verifications


def test_offsets_of_a_transaction_have_no_sequences() -> None:
    """The group coordinator appends them all with sequence 0; epoch and verification count."""
    producers = ProducerState()
    producers.data_appended(7, 3, 0, 0, 0, 1_000, transactional=True)
    entry = producers.entries[7]
    assert check_unsequenced(entry, producer_id=7, epoch=3, verify=True) is None
    refused = check_unsequenced(entry, producer_id=7, epoch=2, verify=True)
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_PRODUCER_EPOCH
    refused = check_unsequenced(entry, producer_id=7, epoch=4, verify=True)
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_TXN_STATE


# epoch of the entry, is its transaction open, marker's epoch, transaction version, answer
MARKERS = [
    (3, True, 3, 0, None),
    (3, True, 4, 0, None),
    (3, True, 2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    (3, False, 2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
    (3, False, 3, 0, None),
    (3, True, 4, 2, None),
    (3, True, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (3, False, 3, 2, None),
    (3, False, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (32_767, True, 32_767, 2, None),
    (3, True, -1, 0, ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("known", "is_open", "epoch", "version", "answer"), MARKERS)
def test_tx56_tx69_t11_a_marker_must_be_of_this_transaction(
    known: int, is_open: bool, epoch: int, version: int, answer: ErrorCode | None
) -> None:
    """Version 2 raises the epoch; an equal one with nothing open is the repetition of one whose answer was lost."""
    entry = ProducerEntry(7, known, transaction_first_offset=0 if is_open else -1)
    refused = check_marker(entry, producer_id=7, epoch=epoch, coordinator_epoch=0, transaction_version=version)
    assert (refused.code if refused else None) == answer


def test_tx69_a_marker_of_an_older_coordinator_is_refused_and_one_of_an_unknown_producer_is_not() -> None:
    entry = ProducerEntry(7, 3, coordinator_epoch=5)
    marker_of = {"producer_id": 7, "epoch": 3, "transaction_version": 0}
    assert check_marker(entry, coordinator_epoch=5, **marker_of) is None
    refused = check_marker(entry, coordinator_epoch=4, **marker_of)
    assert refused is not None
    assert refused.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert check_marker(None, coordinator_epoch=0, **marker_of) is None


def test_tx13_silent_producers_expire_unless_a_transaction_is_open() -> None:
    producers = ProducerState()
    producers.data_appended(1, 0, 0, 0, 0, 1_000, transactional=False)
    producers.data_appended(2, 0, 0, 1, 0, 1_000, transactional=True)
    assert producers.expire(1_999, 1_000) == []
    assert producers.expire(2_000, 1_000) == [1]
    assert list(producers.entries) == [2]


# -- snapshots -------------------------------------------------------------------------------------------------

GOLDEN = {
    "0001 48674bc7 00000000": [],
    "0001 8669b7e6 00000001 00000000000003e8 0000 00000004 0000000000000009 00000004 0000018bcfe56800 ffffffff "
    "ffffffffffffffff": [ProducerEntry(1000, 0, (SentBatch(4, 9, 4, 1_700_000_000_000),), -1, 1_700_000_000_000, -1)],
    "0001 5c04e355 00000001 000000000000000f 0000 00000000 0000000000000001 00000000 000001a1fd72d220 00000001 "
    "0000000000000001": [ProducerEntry(15, 0, (SentBatch(0, 1, 0, 0x1A1FD72D220),), 1, 0x1A1FD72D220, 1)],
}


def facts(entry: ProducerEntry) -> tuple[object, ...]:
    names = ("producer_id", "epoch", "batches", "coordinator_epoch", "last_timestamp", "transaction_first_offset")
    return tuple(getattr(entry, name) for name in names)


@pytest.mark.parametrize("golden", GOLDEN)
def test_snapshots_are_kafkas_bytes(golden: str) -> None:
    """Written by a running Kafka."""
    data, entries = bytes.fromhex(golden), GOLDEN[golden]
    assert pack_snapshot(entries) == data
    assert [facts(entry) for entry in parse_snapshot(Path("x"), data)] == [facts(entry) for entry in entries]


@pytest.mark.parametrize(("at", "why"), [(0, "version"), (3, "CRC"), (20, "CRC"), (-1, "CRC")])
def test_a_changed_snapshot_is_noticed(at: int, why: str) -> None:
    data = bytearray.fromhex(list(GOLDEN)[1])
    data[at] ^= 1
    with pytest.raises(CorruptFile, match=why):
        parse_snapshot(Path("x"), bytes(data))
    with pytest.raises(CorruptFile):
        parse_snapshot(Path("x"), bytes(data[:-1]))


def test_tx11_tx12_duplicates_are_known_after_a_restart(tmp_path: Path) -> None:
    """After a kill and after a clean stop the newest batch is still known as sent."""
    log = opened(tmp_path)
    for at in range(3):
        log.append(batch(1, producer_id=7, producer_epoch=0, base_sequence=at), leader_epoch=0)
    for clean in (False, True):
        again = opened(tmp_path, clean=clean)
        assert verdict(again.producers.entries[7], 2) == Duplicate(2, 2, 1_000)
        again.close()


# -- transactions ----------------------------------------------------------------------------------------------


def test_the_transaction_index_is_kafkas_bytes() -> None:
    """Written by a running Kafka: pid 8, 3-5, LSO 0; pid 7, 0-6, LSO 4."""
    data = bytes.fromhex(
        "0000 0000000000000008 0000000000000003 0000000000000005 0000000000000000"
        "0000 0000000000000007 0000000000000000 0000000000000006 0000000000000004"
    )
    entries = [AbortedTransaction(8, 3, 5, 0), AbortedTransaction(7, 0, 6, 4)]
    assert pack_transaction_index(entries) == data
    assert parse_transaction_index(data + b"\0" * 5) == entries


def test_tx57_tx58_the_last_stable_offset_and_the_aborted_list(tmp_path: Path) -> None:
    """Two aborted, one open after them: the list is in the order of the markers."""
    log = opened(tmp_path)
    log.append(transactional(7, 0, (b"a", b"1")), leader_epoch=0)
    log.append(transactional(8, 0, (b"b", b"1")), leader_epoch=0)
    assert log.last_stable_offset(2) == 0
    log.append(marker(8, 0, abort=True), leader_epoch=0)
    assert log.last_stable_offset(3) == 0
    log.append(marker(7, 0, abort=True), leader_epoch=0)
    log.append(transactional(9, 0, (b"c", b"1")), leader_epoch=0)
    assert log.last_stable_offset(5) == 4
    assert log.first_unstable_offset == 4
    assert log.aborted_transactions(0, 4) == [AbortedTransaction(8, 1, 2, 0), AbortedTransaction(7, 0, 3, 4)]


def test_a_marker_above_the_high_watermark_decides_nothing_yet(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(transactional(7, 0, (b"a", b"1")), leader_epoch=0)
    log.append(marker(7, 0, abort=False), leader_epoch=0)
    assert log.last_stable_offset(1) == 0
    assert log.last_stable_offset(2) == 2


def test_tx59_an_aborted_transaction_is_listed_up_to_its_marker(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(transactional(7, 0, (b"a", b"1"), (b"b", b"1")), leader_epoch=0)
    log.append(marker(7, 0, abort=True), leader_epoch=0)
    log.append(batch(1), leader_epoch=0)
    assert [len(log.aborted_transactions(offset, 4)) for offset in range(4)] == [1, 1, 1, 0]


def test_tx62_deleting_into_an_open_transaction_leaves_it_open(tmp_path: Path) -> None:
    """The last stable offset is the log start then; a later abort is indexed from the first offset on."""
    log = opened(tmp_path)
    log.append(batch(2), leader_epoch=0)
    log.append(transactional(7, 0, (b"a", b"1")), leader_epoch=0)
    log.delete_records_before(3)
    assert log.last_stable_offset(3) == 3
    log.append(marker(7, 0, abort=True), leader_epoch=0)
    assert log.aborted_transactions(3, 4) == [AbortedTransaction(7, 2, 3, 4)]


@pytest.mark.parametrize("reopen", [None, True, False])
def test_tx63_tx64_aborts_over_several_segments_are_found(tmp_path: Path, reopen: bool | None) -> None:
    """A transaction that spans a roll is in its marker's segment."""
    log = opened(tmp_path)
    for at in range(3):
        log.append(transactional(7, at, (b"a", b"1")), leader_epoch=0)
        log.roll()
        log.append(marker(7, 0, abort=True), leader_epoch=0)
    if reopen is not None:
        log.close()
        log = opened(tmp_path, SMALL, clean=reopen)
    assert [entry.first_offset for entry in log.aborted_transactions(0, 6)] == [0, 2, 4]
    assert [entry.first_offset for entry in log.aborted_transactions(2, 3)] == [2]
    log.truncate_to(5)
    assert [entry.first_offset for entry in log.aborted_transactions(0, 6)] == [0, 2]
    assert log.first_unstable_offset == 4


def test_a_file_that_somebody_put_there_does_not_stop_a_truncation(tmp_path: Path) -> None:
    """It is of no offset. The next start names it and refuses; an open log has no use for it."""
    log = opened(tmp_path / "t-0")
    log.append(batch(3, producer_id=7, producer_epoch=0, base_sequence=0), leader_epoch=0)
    log.append(batch(3, producer_id=7, producer_epoch=0, base_sequence=3), leader_epoch=0)
    odd = tmp_path / "t-0" / "copy of 00000000000000000000.snapshot"
    odd.write_bytes(b"")

    log.truncate_to(3)

    assert log.log_end_offset == 3
    assert odd.exists()
