"""Timeouts of transactions, expiry of ids, and what is shown of them."""

from __future__ import annotations

import re

import pytest

from coordinator.transactions.describe import list_transactions
from coordinator.transactions.inputs import ExpireTransactionalId, TransactionTimedOut, Unload
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordinator.transactions.driver import TID, TIMEOUT, Driver

NONE, FENCED, BUSY = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
WEEK = 7 * 24 * 60 * 60_000


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted(version):
    """TX36: abort marker e + 1, CompleteAbort, and the producer's next calls are fenced."""
    broker = Driver(version)
    pair = broker.init(version=3).pair
    broker.add("t-0", client_version=0)
    broker.advance(TIMEOUT)
    assert broker.state == "Ongoing"

    broker.advance(1)

    assert broker.state == "CompleteAbort"
    assert [(m.epoch, m.committed, m.version) for m in broker.markers["t", 0]] == [(1, False, 2 if version == 2 else 0)]
    assert broker.add("t-0", pair=pair, client_version=0).error is FENCED
    assert broker.end(commit=True, pair=pair, version=3).error is FENCED
    assert (broker.last("transaction_decided")["cause"], broker.last("transaction_decided")["open_ms"]) == (
        "timed_out",
        TIMEOUT + 1,
    )


def test_a_producer_that_has_begun_nothing_has_all_the_time_in_the_world():
    """TX37: the clock starts with the first partition."""
    broker = Driver()
    broker.init()

    broker.advance(10 * TIMEOUT)

    assert broker.statuses() == ["Empty"]


def test_each_transaction_has_its_own_clock():
    """The timer of one that ended in time does not end the next."""
    broker = Driver()
    broker.open()
    broker.advance(TIMEOUT - 10)
    broker.end(commit=True)
    broker.add("t-0")

    broker.advance(TIMEOUT)
    broker.feed(TransactionTimedOut(TID, 1_000_000))

    assert broker.state == "Ongoing"


def test_a_write_on_its_way_is_waited_for():
    """4.6: pending ones are looked at again."""
    broker = Driver()
    broker.open()
    broker.hold_appends()
    broker.add("t-1")

    broker.advance(TIMEOUT + 1)
    broker.release_appends()
    assert broker.state == "Ongoing"

    broker.advance(1_000)
    assert broker.state == "CompleteAbort"
    assert sorted(broker.markers) == [("t", 0), ("t", 1)]


@pytest.mark.parametrize("version", [0, 2])
def test_an_abort_that_cannot_be_written_comes_again(version):
    """And is one abort with one bump in the end."""
    broker = Driver(version)
    broker.init()
    broker.add("t-0", client_version=0)
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)

    broker.advance(TIMEOUT + 10_000)

    assert [m.epoch for m in broker.markers["t", 0]] == [1]
    assert broker.live.producer_epoch == 1


def test_at_the_end_of_the_epochs_the_timeout_takes_a_new_id():
    """4.6, rotation; and waits for one if there is none."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.rewrite(producer_epoch=32_766)
    broker.add("t-0")
    broker.ids_refused = True
    broker.advance(TIMEOUT + 5_000)
    assert broker.state == "Ongoing"
    broker.ids_refused = False

    broker.advance(1_000)

    assert broker.pair == (pid + 1, 0)
    assert [m.epoch for m in broker.markers["t", 0]] == [32_767]


# Expiry


@pytest.mark.parametrize("ended", [None, True, False])
def test_an_id_that_nobody_uses_is_forgotten(ended):
    """TX38: tombstone, then unknown: describe 105, EndTxn 49, add 49; a new producer gets a new id."""
    broker = Driver()
    pair = broker.init().pair
    if ended is not None:
        broker.add("t-0")
        broker.end(commit=ended)
    broker.advance(WEEK - 1)
    broker.feed(ExpireTransactionalId(TID))
    assert broker.transaction is not None

    broker.advance(1)
    broker.feed(ExpireTransactionalId(TID))

    assert (broker.transaction, broker.statuses()[-1]) == (None, "None")
    assert broker.last("transactional_id_expired")["idle_ms"] == WEEK
    assert broker.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert broker.end(commit=True, pair=pair).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.add("t-0", pair=pair).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.init(pair).pair == (1001, 0)


def test_what_is_open_or_decided_never_expires():
    """TX38."""
    broker = Driver(two_phase_commit=True)
    broker.init(enable_2pc=True, version=6)
    broker.add("t-0")
    broker.advance(2 * WEEK)
    broker.feed(ExpireTransactionalId(TID))
    assert broker.state == "Ongoing"

    broker.hold_markers()
    broker.end(commit=True)
    broker.now_ms += 2 * WEEK
    broker.feed(ExpireTransactionalId(TID))

    assert broker.state == "PrepareCommit"


def test_while_its_tombstone_is_on_its_way_nobody_gets_in_between():
    """4.1: Dead, in memory only; a write that fails leaves the id as it was."""
    broker = Driver()
    pair = broker.init().pair
    broker.now_ms += WEEK
    broker.hold_appends()
    broker.feed(ExpireTransactionalId(TID))

    assert broker.init(pair).error is BUSY
    assert broker.add("t-0").error is BUSY
    assert broker.describe().transaction_state == "Empty"
    broker.release_appends(ErrorCode.KAFKA_STORAGE_ERROR)

    assert broker.add("t-0").error is NONE


def test_a_forgotten_id_stays_forgotten():
    """TX89."""
    broker = Driver()
    broker.init()
    broker.now_ms += WEEK
    broker.feed(ExpireTransactionalId(TID))

    broker.restart()

    assert broker.transaction is None
    broker.feed(ExpireTransactionalId(TID))


def test_whoever_gives_the_partition_up_keeps_nothing():
    """No timer of an id that another broker leads."""
    broker = Driver()
    broker.open()

    broker.feed(Unload(TID))
    broker.feed(Unload(TID))

    assert (broker.shard.states, broker.timers) == ({}, {})


# What is shown


def test_a_transaction_is_described():
    """8: state, timeout, start, pair, partitions."""
    broker = Driver()
    pid, epoch = broker.open("u-0", "t-2", "t-1")

    told = broker.describe()

    assert (told.error_code, told.transaction_state, told.transactional_id) == (0, "Ongoing", TID)
    assert (told.transaction_timeout_ms, told.transaction_start_time_ms) == (TIMEOUT, broker.now_ms)
    assert (told.producer_id, told.producer_epoch) == (pid, epoch)
    assert [(topic.topic, topic.partitions) for topic in told.topics] == [("t", [1, 2]), ("u", [0])]


def test_what_cannot_be_described_is_an_error_and_nothing_else():
    """8: empty 42, unknown 105; state "", zeros."""
    broker = Driver()

    assert broker.describe("").error_code == ErrorCode.INVALID_REQUEST
    told = broker.describe("nobody")

    assert (told.error_code, told.transactional_id, told.transaction_state, told.producer_id) == (105, "nobody", "", 0)


def listed(broker: Driver, pattern: str | None = None, **filters) -> list[str]:
    request = ListTransactionsRequest(**filters)
    matches = None if pattern is None else (lambda name: re.fullmatch(pattern, name) is not None)
    answer = list_transactions(broker.shard.states.values(), request, matches, broker.now_ms)
    return sorted(one.transactional_id for one in answer.transaction_states)


def test_ids_are_listed_by_state_producer_duration_and_pattern():
    """8: filters joined by and; an id without a transaction counts as very old."""
    broker = Driver()
    first = broker.open()
    broker.advance(5_000)
    broker.init(tid="other")

    assert listed(broker) == ["other", "tx"]
    assert listed(broker, state_filters=["Ongoing"]) == ["tx"]
    assert listed(broker, producer_id_filters=[first[0]]) == ["tx"]
    assert listed(broker, duration_filter=4_999) == ["other", "tx"]
    assert listed(broker, duration_filter=5_000) == ["other"]
    assert listed(broker, "o.*") == ["other"]
    assert listed(broker, "o") == []
    assert listed(broker, "o.*", state_filters=["Ongoing"]) == []


def test_unknown_state_names_are_said_and_match_nothing():
    """8: exact spelling. Dead and PrepareEpochFence are names, of states that nobody sees."""
    broker = Driver()
    broker.open()
    request = ListTransactionsRequest(state_filters=["ongoing", "Dead", "PrepareEpochFence", "Sleeping"])

    answer = list_transactions(broker.shard.states.values(), request, None, broker.now_ms)

    assert (answer.unknown_state_filters, answer.transaction_states) == (["ongoing", "Sleeping"], [])
