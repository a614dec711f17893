"""EndTxn, in both generations: what is decided, what is answered, what is refused."""

from __future__ import annotations

import pytest

from coordinator.transactions.transaction import LARGEST_EPOCH
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import Driver

NONE = ErrorCode.NONE
FENCED, BUSY, WRONG_STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE
STRANGER = ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Before KIP-890


def test_an_old_client_ends_its_transaction_and_keeps_its_epoch():
    """TX53: markers of the same epoch, transaction version 0, whatever opened it."""
    broker = Driver()
    pair = broker.open("t-0", "u-0")

    answer = broker.end(commit=True, version=3)

    assert answer.error is NONE
    assert broker.pair == pair
    assert broker.statuses() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert {name: [(m.epoch, m.committed, m.version) for m in written] for name, written in broker.markers.items()} == {
        ("t", 0): [(0, True, 0)],
        ("u", 0): [(0, True, 0)],
    }


def test_the_answer_comes_after_prepare_and_before_the_markers():
    """1: the decision cannot change any more."""
    broker = Driver()
    broker.open()
    broker.hold_appends()
    broker.hold_markers()
    answer = broker.end(commit=True)
    assert (answer.response, broker.state) == (None, "Ongoing")

    broker.release_appends()

    assert answer.error is NONE
    assert (broker.state, broker.markers) == ("PrepareCommit", {})
    broker.release_markers()
    assert broker.state == "CompleteCommit"


def test_nothing_to_end_is_a_wrong_state_for_old_clients():
    """TX29: Empty 48; Ongoing with no data works, and writes its markers."""
    broker = Driver()
    broker.init()
    assert broker.end(commit=True, version=3).error is WRONG_STATE
    assert broker.end(commit=False, version=3).error is WRONG_STATE


def test_an_old_client_s_retry_is_known_by_the_state():
    """TX30: 51 until Complete, then 0; the other way 48."""
    broker = Driver()
    broker.open(version=3)
    broker.hold_markers()
    broker.end(commit=True, version=3)
    assert broker.end(commit=True, version=3).error is BUSY
    assert broker.end(commit=False, version=3).error is BUSY

    broker.release_markers()

    assert broker.end(commit=True, version=3).error is NONE
    assert broker.end(commit=False, version=3).error is WRONG_STATE


def test_what_comes_behind_an_end_on_the_same_connection_comes_again():
    """TX32: 0, 51, 51."""
    broker = Driver()
    broker.open(version=3)
    broker.hold_markers()

    answers = [broker.end(commit=True, version=3), broker.end(commit=True, version=3), broker.init()]

    assert [answer.error for answer in answers] == [NONE, BUSY, BUSY]


@pytest.mark.parametrize("version", [4, 5])
def test_strangers_cannot_end_it(version):
    """TX25 for EndTxn: unknown 49, another producer 49, another epoch 90."""
    broker = Driver()
    assert broker.end(commit=True, pair=(1, 0), version=version).error is STRANGER
    assert broker.end(commit=True, pair=(1, 0), version=version, tid="").error is ErrorCode.INVALID_REQUEST
    pid, epoch = broker.open(version=version)

    assert broker.end(commit=True, pair=(pid + 1, epoch), version=version).error is STRANGER
    assert broker.end(commit=True, pair=(pid, epoch + 1), version=version).error is FENCED
    assert broker.state == "Ongoing"


# Since KIP-890


def test_the_epoch_rises_with_the_end_and_the_client_is_told():
    """TX43: answer, marker, Prepare and Complete carry e + 1."""
    broker = Driver()
    pid, _ = broker.open("t-0")

    assert broker.end(commit=True).pair == (pid, 1)

    assert [(m.producer_id, m.epoch, m.version) for m in broker.markers["t", 0]] == [(pid, 1, 2)]
    assert [value.value.producer_epoch for _, value, _ in broker.log] == [0, 0, 1, 1]
    assert [value.value.client_transaction_version for _, value, _ in broker.log] == [0, 2, 2, 2]


def test_a_lost_answer_is_given_again():
    """TX44: 51, then 0 with e + 1; the other way 48."""
    broker = Driver()
    pid, epoch = broker.open()
    broker.hold_markers()
    broker.end(commit=True)
    assert broker.end(commit=True, pair=(pid, epoch)).error is BUSY

    broker.release_markers()

    assert broker.end(commit=True, pair=(pid, epoch)).pair == (pid, 1)
    assert broker.end(commit=False, pair=(pid, epoch)).error is WRONG_STATE
    assert len(broker.log) == 4


def test_a_retry_that_comes_in_the_next_transaction_is_fenced():
    """TX45: the client has gone on without the answer, so it is not the client."""
    broker = Driver()
    pid, epoch = broker.open()
    broker.end(commit=True)
    broker.add("t-0")

    assert broker.end(commit=True, pair=(pid, epoch)).error is FENCED


def test_an_abort_with_nothing_open_bumps_the_epoch():
    """TX46: Prepare and Complete without partitions, no markers; a commit is refused."""
    broker = Driver()
    pid, epoch = broker.init().pair
    assert broker.end(commit=True).error is WRONG_STATE

    assert broker.end(commit=False).pair == (pid, epoch + 1)

    assert broker.statuses() == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert broker.markers == {}
    _, prepare, _ = broker.log[1]
    assert prepare.value.transaction_partitions == []
    assert prepare.value.transaction_start_timestamp_ms == broker.now_ms


def test_an_abort_after_an_abort_is_another_one_and_its_retry_is_not():
    """TX47."""
    broker = Driver()
    pid, _ = broker.open()
    broker.end(commit=False)

    assert broker.end(commit=False, pair=(pid, 1)).pair == (pid, 2)

    assert broker.end(commit=False, pair=(pid, 1)).pair == (pid, 2)
    assert len(broker.markers["t", 0]) == 1


@pytest.mark.parametrize("commit", [True, False])
def test_after_a_commit_only_an_abort_bumps(commit):
    """4.5: the current epoch."""
    broker = Driver()
    pid, _ = broker.open()
    broker.end(commit=True)

    answer = broker.end(commit=commit)

    if commit:
        assert answer.error is WRONG_STATE
    else:
        assert answer.pair == (pid, 2)


def test_after_the_timeout_the_client_s_abort_counts_as_asked_again():
    """TX51: abort 0 and e + 1, commit 48; it goes on with e + 1."""
    broker = Driver()
    pid, epoch = broker.open()
    broker.advance(60_001)
    assert broker.state == "CompleteAbort"

    assert broker.end(commit=True, pair=(pid, epoch)).error is WRONG_STATE
    assert broker.end(commit=False, pair=(pid, epoch)).pair == (pid, epoch + 1)
    assert broker.add("t-0", pair=(pid, epoch + 1)).error is NONE


# At the end of the epochs


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_is_the_marker_s_and_the_next_transaction_has_a_new_id(commit):
    """TX49: answer (new id, 0), marker old id 32767; the retry with (old id, 32766) gets the same."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.rewrite(producer_epoch=32_766)
    broker.add("t-0")
    broker.hold_markers()

    assert broker.end(commit=commit).pair == (pid + 1, 0)
    assert broker.end(commit=commit, pair=(pid, 32_766)).error is BUSY
    broker.release_markers()

    assert [(m.producer_id, m.epoch) for m in broker.markers["t", 0]] == [(pid, LARGEST_EPOCH)]
    _, prepare, _ = broker.log[-2]
    assert (prepare.value.producer_epoch, prepare.value.next_producer_id) == (LARGEST_EPOCH, pid + 1)
    _, complete, _ = broker.log[-1]
    assert (complete.value.producer_id, complete.value.producer_epoch) == (pid + 1, 0)
    assert (complete.value.previous_producer_id, complete.value.next_producer_id) == (pid, -1)
    assert broker.end(commit=commit, pair=(pid, 32_766)).pair == (pid + 1, 0)
    assert broker.end(commit=not commit, pair=(pid, 32_766)).error is WRONG_STATE
    assert broker.add("t-0", pair=(pid, 32_766)).error is STRANGER


def test_the_retry_is_known_after_a_restart_too():
    """TX85: by the previous id, which is in the log."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.rewrite(producer_epoch=32_766)
    broker.add("t-0")
    broker.end(commit=True)

    broker.restart()

    assert broker.end(commit=True, pair=(pid, 32_766)).pair == (pid + 1, 0)


def test_without_an_id_to_go_on_with_the_end_comes_again():
    """4.5: 14, and nothing is decided."""
    broker = Driver()
    broker.init()
    broker.rewrite(producer_epoch=32_766)
    broker.add("t-0")
    broker.ids_refused = True

    assert broker.end(commit=True).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert (broker.state, broker.live.pending) == ("Ongoing", None)
    broker.ids_refused = False
    assert broker.end(commit=True).error is NONE


@pytest.mark.parametrize("commit", [True, False])
def test_an_epoch_at_its_maximum_ends_without_overflow(commit):
    """KAFKA-20090: nobody should hold it, but whoever does is brought to an end, under markers that can be written."""
    broker = Driver()
    pid, _ = broker.init().pair
    broker.rewrite(producer_epoch=LARGEST_EPOCH)
    broker.add("t-0", pair=(pid, LARGEST_EPOCH))

    assert broker.end(commit=commit, pair=(pid, LARGEST_EPOCH)).pair == (pid + 1, 0)

    assert [(m.epoch, m.version) for m in broker.markers["t", 0]] == [(LARGEST_EPOCH, 0)]


# Levels


def test_a_level_without_kip_890_refuses_its_end_and_stays_free():
    """TX54: 35 to v5; v4 works, fencing works, InitProducerId works (upstream: locked for good)."""
    broker = Driver()
    pid, _ = broker.open()
    broker.settings(transaction_version=0)

    assert broker.end(commit=True).error is ErrorCode.UNSUPPORTED_VERSION
    assert broker.live.pending is None
    assert broker.end(commit=True, version=4).error is NONE
    assert broker.init().pair == (pid, 1)
    assert broker.add("t-0").error is ErrorCode.UNSUPPORTED_VERSION
    assert broker.add("t-0", client_version=0).error is NONE
    assert broker.init().error is BUSY
    assert broker.init().pair == (pid, 3)
    broker.restart()
    assert broker.pair == (pid, 3)


def test_a_transaction_opened_below_the_level_ends_as_it_began():
    """TX55: after the upgrade it goes on and ends by v0-4; the next may be of the new kind."""
    broker = Driver(0)
    pair = broker.open(version=3)
    broker.settings(transaction_version=2)

    assert broker.end(commit=True, version=3).error is NONE

    assert broker.pair == pair
    assert broker.add("t-0").error is NONE
    assert broker.end(commit=True).pair == (pair[0], 1)


# Writes that fail


def test_a_decision_that_cannot_be_written_is_none():
    """4.1: the transaction is open as before."""
    broker = Driver()
    pair = broker.open()
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert broker.end(commit=True).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert (broker.state, broker.pair, broker.markers) == ("Ongoing", pair, {})
    assert broker.end(commit=True).error is NONE


def test_a_decision_that_is_written_late_holds():
    """The record is in the log: the client asks again, and is answered. But no marker may come before it is durable."""
    broker = Driver()
    pid, epoch = broker.open()
    broker.fail_appends(ErrorCode.REQUEST_TIMED_OUT)

    assert broker.end(commit=True).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (broker.state, broker.markers) == ("PrepareCommit", {})

    broker.advance(1_000)

    assert broker.state == "CompleteCommit"
    assert broker.end(commit=True, pair=(pid, epoch)).pair == (pid, 1)


def test_the_history_says_who_decided_and_when():
    """D10: cause, client, how long it was open, where."""
    broker = Driver()
    broker.open("t-1")
    broker.advance(700)

    broker.end(commit=False)

    told = broker.last("transaction_decided")
    assert (told["cause"], told["client_id"], told["open_ms"]) == ("client", "c", 700)
    assert (told["committed"], told["partitions"]) == (False, ["t-1"])
    assert broker.kinds() == [
        "producer_initialized",
        "transaction_began",
        "transaction_decided",
        "transaction_completed",
    ]
