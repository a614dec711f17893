"""From the decision to its end: what happens when markers cannot be written, or the process dies between."""

from __future__ import annotations

import pytest

from coordinator.transactions.inputs import MarkersWritten
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import TID, Driver

NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
RETRIED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


@pytest.mark.parametrize("error", RETRIED)
def test_a_marker_that_is_refused_is_written_when_it_can_be(error):
    """TX40: Prepare is kept, and only the partition that waits is written again."""
    broker = Driver()
    broker.open("t-0", "t-1")
    broker.marker_errors["t", 1] = error
    broker.end(commit=True)
    assert broker.state == "PrepareCommit"
    assert broker.describe().topics[0].partitions == [1]

    broker.advance(60_000)
    assert broker.state == "PrepareCommit"
    broker.marker_errors.clear()
    broker.advance(10_000)

    assert broker.state == "CompleteCommit"
    assert {name: len(written) for name, written in broker.markers.items()} == {("t", 0): 1, ("t", 1): 1}


def test_how_often_is_tried_grows_less_and_is_told_less():
    """A disk that is full for an hour does not fill the log of lines too."""
    broker = Driver()
    broker.open()
    broker.marker_errors["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    broker.end(commit=True)

    broker.advance(3_600_000)

    delayed = [event.facts["tries"] for event in broker.events if event.kind == "markers_delayed"]
    assert delayed == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_a_deleted_topic_does_not_hold_the_others_up():
    """TX39: Complete is reached without it."""
    broker = Driver()
    broker.open("t-0", "u-0")
    del broker.topics.partitions["u"]

    broker.end(commit=True)

    assert broker.state == "CompleteCommit"
    assert list(broker.markers) == [("t", 0)]


def test_a_topic_that_is_deleted_while_its_marker_waits_lets_go():
    """TX39, TX40: as soon as it is tried again."""
    broker = Driver()
    broker.open("t-0", "u-0")
    broker.marker_errors["u", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.end(commit=True)

    del broker.topics.partitions["u"]
    broker.advance(10_000)

    assert broker.state == "CompleteCommit"


def test_a_partition_that_is_there_but_unknown_to_its_leader_is_waited_for():
    """4.7: only what does not exist is left out; a partition without leader is not deleted."""
    broker = Driver()
    broker.open("t-0")
    broker.marker_errors["t", 0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    broker.end(commit=True)

    assert broker.state == "PrepareCommit"


def test_a_partition_that_refuses_the_epoch_is_given_up_aloud():
    """KAFKA-19999 from this side: a partition that has seen a higher epoch never takes the marker, so waiting for it
    would hang the transaction for good, as it does upstream.
    """
    broker = Driver()
    broker.open("t-0", "t-1")
    broker.marker_errors["t", 1] = ErrorCode.INVALID_PRODUCER_EPOCH

    broker.end(commit=True)

    assert broker.state == "CompleteCommit"
    told = broker.last("marker_abandoned")
    assert (told["partition"], told["error"]) == ("t-1", "INVALID_PRODUCER_EPOCH")


@pytest.mark.parametrize("error", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_a_partition_that_can_have_no_markers_needs_none(error):
    """4.7: 35 and 43 remove it."""
    broker = Driver()
    broker.open()
    broker.marker_errors["t", 0] = error

    broker.end(commit=True)

    assert broker.state == "CompleteCommit"


def test_results_of_a_transaction_that_is_over_change_nothing():
    """A late answer, twice over."""
    broker = Driver()
    pid, _ = broker.open()
    broker.end(commit=True)
    broker.add("t-0")
    broker.hold_markers()
    broker.end(commit=False)
    before = broker.live

    broker.feed(MarkersWritten(TID, pid, 1, {("t", 0): NONE}))
    broker.feed(MarkersWritten("nobody", pid, 1, {("t", 0): NONE}))
    broker.feed(MarkersWritten(TID, pid, 2, {("u", 0): ErrorCode.KAFKA_STORAGE_ERROR}))

    assert broker.live.unmarked == before.unmarked
    assert broker.state == "PrepareAbort"


def test_an_end_that_cannot_be_written_is_tried_until_it_is():
    """4.1: the markers are in, so nothing else can be done."""
    broker = Driver()
    broker.open()
    broker.hold_markers()
    broker.end(commit=True)
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)

    broker.release_markers()

    assert (broker.state, broker.add("t-0").error) == ("PrepareCommit", BUSY)
    broker.advance(1_000)
    assert broker.state == "CompleteCommit"
    assert len(broker.markers["t", 0]) == 1


# Crashes of the coordinator


def test_a_crash_in_ongoing_leaves_it_open_under_its_old_clock():
    """TX81: add is known, commit succeeds; TX36 after a restart: it times out by its first start."""
    broker = Driver()
    broker.open("t-0")
    broker.advance(50_000)

    broker.restart()

    assert broker.add("t-0").error is NONE
    broker.advance(10_000)
    assert broker.state == "Ongoing"
    broker.advance(1)
    assert broker.state == "CompleteAbort"


def test_a_transaction_that_timed_out_while_the_broker_was_down_is_aborted_at_once():
    """4.9: Ongoing keeps running on its old clock."""
    broker = Driver()
    broker.open("t-0")
    broker.hold_appends()
    broker.now_ms += 3_600_000

    broker.restart()
    broker.release_appends()
    broker.advance(0)

    assert broker.state == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
def test_a_crash_after_prepare_is_finished_without_any_client(commit):
    """TX82: all markers, then Complete."""
    broker = Driver()
    pid, _ = broker.open("t-0", "t-1")
    broker.hold_markers()
    broker.end(commit=commit)

    broker.restart()
    broker.release_markers()

    assert broker.state == ("CompleteCommit" if commit else "CompleteAbort")
    assert [(m.producer_id, m.epoch, m.committed, m.version) for m in broker.markers["t", 1]] == [(pid, 1, commit, 2)]
    assert broker.last("transaction_completed")["cause"] == "loaded"


def test_a_crash_between_two_markers_writes_both_again():
    """TX83: the second one in the first partition does no harm."""
    broker = Driver()
    broker.open("t-0", "t-1")
    broker.marker_errors["t", 1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.end(commit=True)
    broker.marker_errors.clear()

    broker.restart()

    assert {name: len(written) for name, written in broker.markers.items()} == {("t", 0): 2, ("t", 1): 1}
    assert broker.state == "CompleteCommit"


def test_a_crash_after_the_markers_writes_them_again():
    """TX84."""
    broker = Driver()
    broker.open("t-0")
    broker.hold_markers()
    broker.end(commit=True)
    broker.hold_appends()
    broker.release_markers()
    assert broker.statuses()[-1] == "PrepareCommit"

    broker.restart()
    broker.release_appends()

    assert broker.state == "CompleteCommit"
    assert len(broker.markers["t", 0]) == 2


@pytest.mark.parametrize("version", [4, 5])
def test_a_retry_after_a_crash_is_known(version):
    """TX85: TV0 by the state, TV2 by the epoch."""
    broker = Driver()
    pair = broker.open(version=version)
    broker.end(commit=True, version=version)

    broker.restart()

    assert broker.end(commit=True, version=version, pair=pair).error is NONE


def test_a_crash_before_the_decision_is_in_the_log_leaves_it_open():
    """TX87: what is not in the log has not been."""
    broker = Driver()
    pair = broker.open()
    broker.hold_appends()
    broker.end(commit=True)

    broker.restart()

    assert (broker.state, broker.pair) == ("Ongoing", pair)


def test_a_crash_before_the_first_record_leaves_nothing():
    """4.10."""
    broker = Driver()
    broker.hold_appends()
    broker.init()

    broker.restart()

    assert broker.transaction is None
