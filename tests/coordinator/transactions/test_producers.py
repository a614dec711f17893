"""InitProducerId: who gets which id and epoch, and who is shut out."""

from __future__ import annotations

import pytest

from coordinator.outcome import Reply
from coordinator.transactions.inputs import ExpireTransactionalId
from coordinator.transactions.transaction import LARGEST_EPOCH
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import TID, TIMEOUT, Driver

FENCED, BUSY = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS


def at_epoch(epoch: int, version: int = 2) -> Driver:
    """An id that rests in this epoch."""
    broker = Driver(version)
    broker.init()
    broker.rewrite(producer_epoch=epoch)
    return broker


def test_a_new_id_gets_epoch_0_and_one_empty_record():
    """TX17: null partitions, start -1."""
    broker = Driver()

    assert broker.init().pair == (1000, 0)

    ((_, value, _),) = broker.log
    assert value.value.transaction_partitions is None
    assert (value.value.transaction_start_timestamp_ms, value.value.transaction_timeout_ms) == (-1, TIMEOUT)
    assert value.value.previous_producer_id == 1000


def test_a_new_id_gets_epoch_0_whatever_pair_the_client_has():
    """4.2: the id expired meanwhile."""
    assert Driver().init((7, 12)).pair == (1000, 0)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"tid": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"pair": (5, -1)}, ErrorCode.INVALID_REQUEST),
        ({"pair": (-1, 5)}, ErrorCode.INVALID_REQUEST),
        ({"enable_2pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_request_that_is_never_right_is_refused(more, error):
    """TX18: and leaves nothing behind, not even a producer id that is gone."""
    broker = Driver()

    answer = broker.init(**more)

    assert answer.error is error
    assert (answer.response.producer_id, answer.response.producer_epoch) == (-1, -1)
    assert (broker.log, broker.shard.states, broker.next_id) == ([], {}, 1000)


def test_two_phase_commit_has_no_timeout_where_it_is_allowed():
    """KIP-939: somebody else decides, so the clock never does."""
    broker = Driver(two_phase_commit=True)
    broker.init(enable_2pc=True, timeout_ms=5, version=6)
    broker.add("t-0")

    broker.advance(10**9)

    assert (broker.state, broker.live.timeout_ms) == ("Ongoing", 2_147_483_647)


def test_the_second_producer_gets_the_next_epoch_and_the_first_is_shut_out():
    """TX19: add 90 (v1: 47 is the handler's business), EndTxn 90, v1 47."""
    broker = Driver()
    first = broker.init().pair

    assert broker.init().pair == (first[0], 1)

    assert broker.add("t-0", pair=first).error is FENCED
    assert broker.verify("t-0", pair=first).error is FENCED
    assert broker.end(commit=True, pair=first, version=4).error is FENCED
    assert broker.end(commit=True, pair=first, version=1).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.end(commit=True, pair=first).error is FENCED


def test_an_answer_that_was_lost_is_given_again():
    """TX20: the same epoch for the pair before; an older one is fenced, 47 in version 3."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.init((pid, 0))
    assert broker.init((pid, 1)).pair == (pid, 2)

    assert broker.init((pid, 1)).pair == (pid, 2)
    assert broker.init((pid, 0)).error is FENCED
    assert broker.init((pid, 0), version=3).error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_answer_that_was_lost_with_the_process_is_not_known_again():
    """4.10: the last epoch is not in the log, as in Kafka; without a pair the producer goes on."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.init((pid, 0))

    broker.restart()

    assert broker.init((pid, 0)).error is FENCED
    assert broker.init().pair == (pid, 2)


def test_another_producer_id_is_fenced():
    """TX21."""
    broker = Driver()
    pid, epoch = broker.init().pair

    assert broker.init((pid + 77, epoch)).error is FENCED
    assert broker.last("transaction_request_refused")["error"] == "PRODUCER_FENCED"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_whoever_takes_over_an_open_transaction_has_it_aborted_first(version):
    """TX22: 51, an abort marker with e + 1, and e + 2 the next time. TX23: the zombie's commit is fenced."""
    broker = Driver(version)
    broker.init()
    broker.add("t-0", "t-1", client_version=0)
    zombie = broker.pair

    assert broker.init().error is BUSY

    assert broker.statuses() == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert [(one.epoch, one.committed) for one in broker.markers["t", 1]] == [(1, False)]
    assert broker.markers["t", 0][0].version == (2 if version == 2 else 0)
    assert broker.end(commit=True, pair=zombie, version=4).error is FENCED
    assert broker.last("transaction_decided")["cause"] == "fenced"
    assert broker.init().pair == (zombie[0], 2)


def test_the_same_producer_that_takes_over_its_own_transaction_is_not_bumped_twice():
    """TX50: KIP-890 keeps the last epoch at the abort, so the request that comes again is known."""
    broker = Driver()
    pair = broker.open()

    assert broker.init(pair).error is BUSY

    assert broker.init(pair).pair == (pair[0], pair[1] + 1)


@pytest.mark.parametrize("version", [0, 1])
def test_before_kip_890_the_same_producer_is_fenced_by_its_own_abort(version):
    """4.2: the fence forgets the last epoch."""
    broker = Driver(version)
    pair = broker.init().pair
    broker.add("t-0", client_version=0)

    assert broker.init(pair).error is BUSY

    assert broker.init(pair).error is FENCED
    assert broker.init().pair == (pair[0], 2)


def test_a_request_during_another_s_write_comes_again():
    """4.1: pending meets 51."""
    broker = Driver()
    broker.hold_appends()
    first = broker.init()
    second = broker.init()

    assert (first.response, second.error) == (None, BUSY)

    broker.release_appends()
    assert first.pair == (1000, 0)
    assert broker.init().pair == (1000, 1)


def test_exhausted_epochs_make_a_new_id():
    """TX24: repeated with (old id, 32766) the same; with 32765 fenced."""
    broker = at_epoch(32_766)

    assert broker.init((1000, 32_766)).pair == (1001, 0)

    assert broker.init((1000, 32_766)).pair == (1001, 0)
    assert broker.init((1000, 32_765)).error is FENCED
    assert broker.init().pair == (1001, 1)


def test_exhausted_epochs_make_a_new_id_for_a_new_process():
    """4.2: no pair."""
    broker = at_epoch(32_766)

    assert broker.init().pair == (1001, 0)
    assert broker.init((1000, 32_766)).error is FENCED


def test_an_old_epoch_of_an_exhausted_id_is_fenced_not_an_internal_error():
    """Kafka answers -1 where the epoch after the last one is asked for."""
    broker = at_epoch(LARGEST_EPOCH)

    assert broker.init((1000, 32_766)).error is FENCED
    assert broker.init().pair == (1001, 0)


def test_without_an_id_to_be_had_the_producer_comes_again():
    """4.2: 14; then as if nothing had been."""
    broker = Driver()
    broker.ids_refused = True
    assert broker.init().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    broker.ids_refused = False
    assert broker.init().pair == (1000, 0)


def test_a_write_that_fails_leaves_no_trace_of_a_new_id():
    """4.1, append errors: 19 becomes 15; the id is unknown as before."""
    broker = Driver()
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert broker.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.transaction is None
    assert broker.init().error is ErrorCode.NONE


def test_what_waits_to_be_written_of_a_new_id_has_its_own_timeout():
    broker = Driver()
    broker.hold_appends()
    broker.init(timeout_ms=5_000)

    assert (broker.live.producer_id, broker.live.timeout_ms) == (1000, 5_000)
    broker.release_appends()
    assert broker.live.timeout_ms == 5_000


def test_refused_records_take_no_answer_back():
    """The rules decide upon what is committed: what they answered stays true."""
    broker = Driver()
    replies = [Reply(broker, "one"), Reply(broker, "another")]
    asked = ExpireTransactionalId(TID)
    assert broker.shard.taken_back(asked, iter(replies), ErrorCode.KAFKA_STORAGE_ERROR) == replies


def test_a_write_that_fails_leaves_the_epoch():
    """The next attempt gets the same: nobody was ever told it."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)

    assert broker.init((pid, 0)).error is ErrorCode.NOT_COORDINATOR
    assert broker.init((pid, 0)).pair == (pid, 1)


def test_a_write_that_is_late_counts_although_its_client_is_told_to_come_again():
    """The record is in the log: the epoch is taken."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.fail_appends(ErrorCode.REQUEST_TIMED_OUT)

    assert broker.init((pid, 0)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.pair == (pid, 1)
    assert broker.init((pid, 0)).pair == (pid, 1)


@pytest.mark.parametrize("version", [0, 1])
def test_a_fence_that_cannot_be_written_is_not_bumped_again(version):
    """4.6: the epoch that nobody was told is used once."""
    broker = Driver(version)
    broker.init()
    broker.add("t-0", client_version=0)
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)

    assert broker.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.init().error is BUSY

    assert [one.epoch for one in broker.markers["t", 0]] == [1]


def test_fencing_at_the_last_epochs_never_overflows():
    """4.6: TV0 goes to 32767 and no further; the next producer has a new id."""
    broker = at_epoch(32_766, version=0)
    broker.add("t-0", client_version=0)

    assert broker.init().error is BUSY

    assert [one.epoch for one in broker.markers["t", 0]] == [32_767]
    assert broker.init().pair == (1001, 0)
