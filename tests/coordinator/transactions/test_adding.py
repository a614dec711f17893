"""Partitions join a transaction, and are asked after."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import Driver, partition

NONE = ErrorCode.NONE
UNKNOWN, FENCED = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_partitions_are_in_the_log_before_anybody_is_told():
    """TX41: the Ongoing record precedes the data."""
    broker = Driver()
    broker.init()
    broker.hold_appends()

    answer = broker.add("t-0", "t-1")

    assert (answer.response, broker.state) == (None, "Empty")
    broker.release_appends()
    assert answer.response == {("t", 0): NONE, ("t", 1): NONE}
    assert broker.statuses() == ["Empty", "Ongoing"]
    assert broker.live.start_ms == broker.now_ms


def test_a_stranger_is_refused():
    """TX25: unknown id 49, wrong producer id 49, wrong epoch 90."""
    broker = Driver()

    assert broker.add("t-0", pair=(1, 0)).error is UNKNOWN
    pid, epoch = broker.init().pair
    assert broker.add("t-0", pair=(pid + 1, epoch)).error is UNKNOWN
    assert broker.add("t-0", pair=(pid, epoch + 1)).error is FENCED
    assert broker.add("t-0", pair=(pid, epoch), tid="").error is ErrorCode.INVALID_REQUEST
    assert len(broker.log) == 1


def test_what_is_in_already_is_added_without_a_record():
    """TX27, and TX86: a producer that heard no answer asks again."""
    broker = Driver()
    broker.open("t-0", "t-1")

    assert broker.add("t-1").error is NONE

    assert len(broker.log) == 2


def test_more_partitions_join_and_the_clock_is_that_of_the_first():
    """4.3: union; start stays."""
    broker = Driver()
    broker.open("t-0")
    start_ms = broker.live.start_ms
    broker.advance(500)

    broker.add("u-0", "t-0")

    assert broker.live.partitions == {("t", 0), ("u", 0)}
    assert (broker.live.start_ms, broker.live.last_update_ms) == (start_ms, start_ms + 500)


def test_a_request_without_partitions_opens_a_transaction():
    """4.3: surprising, and Kafka's."""
    broker = Driver()
    broker.init()

    assert broker.add().error is NONE

    assert (broker.state, broker.live.partitions) == ("Ongoing", frozenset())
    assert broker.end(commit=True).error is NONE
    assert broker.state == "CompleteCommit"


def test_while_something_is_on_its_way_it_comes_again():
    """TX31: until Complete 51, after it 0."""
    broker = Driver()
    broker.open(version=3)
    broker.hold_markers()
    broker.end(commit=True, version=3)

    assert broker.add("t-0", client_version=0).error is BUSY

    broker.release_markers()
    assert broker.add("t-0", client_version=0).error is NONE


def test_the_producer_of_the_next_id_is_told_to_come_again_not_that_it_is_unknown():
    """4.5, exhaustion: the new pair is in use before Complete makes it the current one."""
    broker = Driver()
    broker.open()
    broker.hold_markers()
    broker.end(commit=True)

    assert broker.add("t-0", pair=(4711, 0)).error is BUSY


def test_verification_says_for_each_partition_whether_it_is_in():
    """TX33: 120 for what is not; nothing is written."""
    broker = Driver()
    broker.open("t-0", version=3)

    answer = broker.verify("t-0", "t-1")

    assert answer.response == {("t", 0): NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
    assert len(broker.log) == 2


def test_verification_refuses_strangers_and_what_is_being_ended():
    """TX33: unknown id or producer 49, another epoch 90; Prepare 51."""
    broker = Driver()
    assert broker.verify("t-0", pair=(1, 0)).error is UNKNOWN
    assert broker.verify("t-0", tid="").error is ErrorCode.INVALID_REQUEST
    pid, epoch = broker.open("t-0", version=3)
    assert broker.verify("t-0", pair=(pid + 1, epoch)).error is UNKNOWN
    assert broker.verify("t-0", pair=(pid, epoch + 1)).error is FENCED

    broker.hold_markers()
    broker.end(commit=True, version=3)

    assert broker.verify("t-0").error is BUSY


def test_verification_does_not_mind_what_is_on_its_way():
    """4.3: pending is ignored; what is in, is in."""
    broker = Driver()
    broker.open("t-0")
    broker.hold_appends()
    broker.add("t-1")

    assert broker.verify("t-0").error is NONE
    assert broker.verify("t-1").error is ErrorCode.TRANSACTION_ABORTABLE


def test_a_client_of_kip_890_is_told_that_a_level_without_it_cannot_serve_it():
    """TX54: 35, and nothing is left pending."""
    broker = Driver(0)
    broker.init()

    assert broker.add("t-0").error is ErrorCode.UNSUPPORTED_VERSION

    assert broker.live.pending is None
    assert broker.add("t-0", client_version=0).error is NONE


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE])
def test_a_write_that_fails_adds_nothing(error):
    """4.1: 56 becomes 16, 10 the unknown server error."""
    broker = Driver()
    broker.init()
    broker.fail_appends(error)

    expected = {
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    assert broker.add("t-0").error is expected[error]
    assert (broker.state, broker.live.pending) == ("Empty", None)
    assert broker.verify("t-0").error is ErrorCode.TRANSACTION_ABORTABLE
    assert not broker.timers


def test_offsets_join_like_any_partition():
    """TX70: the group's partition of `__consumer_offsets`."""
    broker = Driver()
    broker.open("__consumer_offsets-7")

    assert broker.verify("__consumer_offsets-7").error is NONE
    assert broker.live.partitions == {partition("__consumer_offsets-7")}
