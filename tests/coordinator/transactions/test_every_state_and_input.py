"""Every input in every state ends in an `Outcome` and an allowed move, and every request is answered in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.outcome import Appended, AppendFailed, Input
from coordinator.transactions import inputs
from coordinator.transactions.rules import RULES, unserved
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import TID, Driver, Request

WEEK = 7 * 24 * 60 * 60_000


def unknown(version: int) -> Driver:
    return Driver(version)


def empty(version: int) -> Driver:
    broker = Driver(version)
    broker.init()
    return broker


def ongoing(version: int) -> Driver:
    broker = empty(version)
    broker.add("t-0", client_version=2 if version else 0)
    return broker


def last_epoch(version: int) -> Driver:
    broker = empty(version)
    broker.rewrite(producer_epoch=32_766)
    broker.add("t-0", client_version=2 if version else 0)
    return broker


def prepared(version: int, *, commit: bool = True) -> Driver:
    broker = ongoing(version)
    broker.hold_markers()
    broker.end(commit=commit, version=5 if version else 3)
    return broker


def prepared_abort(version: int) -> Driver:
    return prepared(version, commit=False)


def completed(version: int) -> Driver:
    broker = prepared(version)
    broker.release_markers()
    return broker


def aborted(version: int) -> Driver:
    broker = prepared_abort(version)
    broker.release_markers()
    return broker


def old_end(version: int) -> Driver:
    broker = ongoing(version)
    broker.end(commit=True, version=3)
    return broker


def coming(version: int) -> Driver:
    broker = Driver(version)
    broker.hold_appends()
    broker.init()
    return broker


def adding(version: int) -> Driver:
    broker = empty(version)
    broker.hold_appends()
    broker.add("t-0", client_version=2 if version else 0)
    return broker


def deciding(version: int) -> Driver:
    broker = ongoing(version)
    broker.hold_appends()
    broker.end(commit=True, version=5 if version else 3)
    return broker


def completing(version: int) -> Driver:
    broker = prepared(version)
    broker.hold_appends()
    broker.release_markers()
    return broker


def dying(version: int) -> Driver:
    broker = empty(version)
    broker.now_ms += WEEK
    broker.hold_appends()
    broker.feed(inputs.ExpireTransactionalId(TID))
    return broker


SITUATIONS = [
    unknown,
    empty,
    ongoing,
    last_epoch,
    prepared,
    prepared_abort,
    completed,
    aborted,
    old_end,
    coming,
    adding,
    deciding,
    completing,
    dying,
]


def inputs_for(broker: Driver) -> list[Input]:
    """All kinds, right and wrong, in the name of the producer that is, that was, and of nobody."""
    pid, epoch = broker.pair if broker.transaction else (1000, 0)
    pairs = [(pid, epoch), (pid, epoch - 1), (pid, epoch + 1), (pid + 7, epoch), (-1, -1), (pid, -1), (pid, 32_766)]
    places = [frozenset(), frozenset({("t", 0)}), frozenset({("t", 0), ("gone", 3)})]
    found: list[Input] = []
    for pair in pairs:
        for version in (0, 3, 5, 6):
            found.append(inputs.InitProducerId(TID, 60_000, *pair, version, Request("init")))
        for version in (0, 3, 5):
            for commit in (True, False):
                found.append(inputs.EndTransaction(TID, *pair, commit, version, Request("end")))
        for which in places:
            for client_version in (0, 2):
                found.append(inputs.AddPartitions(TID, *pair, which, client_version, Request("add")))
            found.append(inputs.VerifyPartitions(TID, *pair, which, Request("verify")))
        for error in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            found.append(inputs.MarkersWritten(TID, *pair, {("t", 0): error, ("gone", 3): error}))
        found.append(inputs.MarkersWritten(TID, *pair, {}))
    start_ms = broker.transaction.start_ms if broker.transaction else -1
    found += [inputs.TransactionTimedOut(TID, start_ms), inputs.TransactionTimedOut(TID, 5)]
    found += [
        inputs.RetryMarkers(TID),
        inputs.ExpireTransactionalId(TID),
        inputs.TransactionLoaded(TID),
        inputs.Unload(TID),
    ]
    found.append(inputs.DescribeTransaction(TID, Request("describe")))
    for token in (inputs.Completed(), inputs.Expired(), inputs.Decided(None)):
        if broker.transaction is None or broker.transaction.pending is None:
            found += [Appended(TID, token), AppendFailed(TID, token, ErrorCode.NOT_ENOUGH_REPLICAS)]
    return found


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_input_ends_in_an_outcome_and_an_allowed_move(situation: Callable[[int], Driver], version: int):
    """4: the driver's invariants hold, and whoever asks is answered, at the latest when the log goes on."""
    for number in range(len(inputs_for(situation(version)))):
        broker = situation(version)
        event = inputs_for(broker)[number]

        broker.feed(event)
        if isinstance(event, inputs.Unload):
            broker.restart()  # whoever leads the partition next
        broker.all_is_well()
        broker.advance(100_000)

        request = getattr(event, "reply_to", None)
        assert request is None or request.response is not None, f"{event} was never answered"


def test_every_kind_of_input_has_a_rule():
    """And the table above has every kind."""
    kinds = {kind for kind in vars(inputs).values() if isinstance(kind, type) and issubclass(kind, Input)}

    assert kinds - {inputs.TransactionInput, Input} | {Appended, AppendFailed} == set(RULES)
    assert {type(event) for situation in SITUATIONS for event in inputs_for(situation(2))} == set(RULES)


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_a_partition_that_is_not_served_says_so_to_everybody_who_asks(error: ErrorCode):
    """TX88: 14 while it loads, 16 when it is not here; nobody else is answered."""
    for event in inputs_for(empty(2)):
        reply = unserved(event, error)
        if hasattr(event, "reply_to"):
            assert reply is not None
            reply.to.answer(reply.response)
            assert event.reply_to.response == {} or event.reply_to.error is error
        else:
            assert reply is None
