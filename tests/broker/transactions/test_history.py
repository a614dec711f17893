"""Why transactions ended as they did: what the broker remembers, counts, and says over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.http.routes import respond
from broker.transactions.history import ENTRIES_KEPT, IDS_KEPT, TransactionHistory
from coordinator.transactions.events import TransactionEvent
from coordinator.why import transactions as words
from protocol.errors import ErrorCode
from tests.support.transactions_fixture import TransactionalWhole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.app import App


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TransactionalWhole]:
    whole = TransactionalWhole(tmp_path)
    whole.create("t", 2)
    yield whole
    whole.stop()


class Asked:
    """As much of an `App` as is asked for."""

    def __init__(self, whole: TransactionalWhole) -> None:
        self.broker = whole.broker


def told(whole: TransactionalWhole, path: str) -> Any:
    app: App = Asked(whole)  # type: ignore[assignment]
    answer = respond(app, "GET", path, {})
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)  # type: ignore[union-attr]
    return json.loads(body)


def history(whole: TransactionalWhole, name: str = "tx") -> list[tuple[str, list[str]]]:
    """As `kohort why --transaction` words it."""
    return [words.entry(one) for one in told(whole, f"/transactions/{name}")["history"]]


def opened(whole: TransactionalWhole, name: str = "tx") -> tuple[int, int]:
    pair = whole.pair(name)
    whole.add(name, pair, "t", 0, 1)
    whole.write(name, pair, "t", b"a")
    return pair


def test_what_the_producer_commits_leaves_nothing(broker: TransactionalWhole) -> None:
    """Thousands a second do."""
    pair = opened(broker)
    broker.end("tx", pair, commit=True)

    assert history(broker) == []
    figures = broker.broker.transaction_figures
    assert (figures.ended, figures.open, figures.ending) == ({(True, "client"): 1}, {}, {})


def test_a_transaction_that_is_open_for_too_long_is_said_to_be(broker: TransactionalWhole) -> None:
    opened(broker)
    (one,) = told(broker, "/transactions")["transactions"]
    assert (one["transactional_id"], one["state"], one["partitions"]) == ("tx", "Ongoing", ["t-0", "t-1"])
    now_ms = broker.runtime.now_ms() + 20_000
    assert words.heading(one) == "transactional id tx: Ongoing, producer 0 epoch 0, held by c (127.0.0.1)"
    assert words.now(one, now_ms) == (
        "open for 20.0 s; it is aborted in 40.0 s if nobody ends it. Readers of committed records wait at t-0, t-1."
    )

    broker.runtime.advance(61_000)
    broker.settle()

    ((sentence, below),) = history(broker)
    assert sentence.startswith("aborted: the transaction of c (127.0.0.1) was open for 60.0 s, longer than its timeout")
    assert below == ["held readers back for 60.0 s in t-0, t-1"]
    figures = broker.broker.transaction_figures
    assert (figures.ended, figures.oldest_ms) == ({(False, "timed_out"): 1}, None)


def test_who_was_shut_out_and_by_whom_is_said(broker: TransactionalWhole) -> None:
    """A second instance takes the id over, and the first one does not know."""
    old = opened(broker)
    broker.runtime.advance(5_000)
    broker.init("tx")
    broker.settle()
    for _ in range(3):
        broker.runtime.advance(1_000)
        assert broker.end("tx", old, commit=True).error_code == ErrorCode.PRODUCER_FENCED

    (sentence, below), (refused, _) = history(broker)
    assert sentence == "aborted: c (127.0.0.1) came back and took the id over while one was still open, for 5.0 s"
    assert below == ["held readers back for 5.0 s in t-0, t-1"]
    assert refused == (
        "c (127.0.0.1): EndTxn refused 3 times in 2.0 s, PRODUCER_FENCED: it came with epoch 0, the id is at 1"
    )


def test_an_abort_of_the_producer_itself_is_said(broker: TransactionalWhole) -> None:
    pair = opened(broker)
    broker.end("tx", pair, commit=False)
    ((sentence, _),) = history(broker)
    assert sentence == "aborted by c (127.0.0.1) after 0.0 s"


def test_what_was_open_at_the_start_is_said(broker: TransactionalWhole, tmp_path: Path) -> None:
    opened(broker)
    broker.stop()
    again = TransactionalWhole(tmp_path)
    try:
        again.settle()
        ((sentence, _),) = history(again)
        assert sentence.startswith("the broker started; a transaction was open since ")
        assert again.broker.transaction_figures.oldest_ms is not None
    finally:
        again.stop()


@pytest.mark.parametrize("timed_out", [True, False])
def test_what_was_aborted_before_the_start_is_said(broker: TransactionalWhole, tmp_path: Path, timed_out: bool) -> None:
    """As far as the log of transactions tells."""
    pair = opened(broker)
    broker.runtime.advance(61_000 if timed_out else 5_000)
    broker.settle()
    if not timed_out:
        broker.end("tx", pair, commit=False)
        broker.settle()
    ended_ms = broker.runtime.now_ms()
    broker.stop()
    again = TransactionalWhole(tmp_path)
    try:
        again.settle()
        ((sentence, _),) = history(again)
        (one,) = told(again, "/transactions/tx")["history"]
        assert one["at_ms"] <= ended_ms
        assert sentence == (
            "aborted before the broker started: it was open for 60.0 s, longer than its timeout of 60.0 s"
            if timed_out
            else "aborted before the broker started, after 5.0 s; by whom is not in the log"
        )
    finally:
        again.stop()


def test_a_name_that_is_not_there_is_compared_with_others(broker: TransactionalWhole) -> None:
    opened(broker, "payments-1")
    answer = told(broker, "/transactions/payment-1")
    assert (answer["error"], answer["nearest"]) == ("there is no transactional id 'payment-1'", ["payments-1"])


def event(kind: str, key: str, **facts: Any) -> TransactionEvent:
    return TransactionEvent(kind, key, {"producer_id": 1, "producer_epoch": 0, **facts}, 0)


def test_markers_that_were_refused_are_told_of_a_committed_transaction() -> None:
    """It would leave nothing, but for them."""
    history = TransactionHistory()
    decided = {"committed": True, "cause": "client", "open_ms": 5, "partitions": ["t-0", "t-1"], "partition_count": 2}
    history.on_event(event("transaction_decided", "tx", **decided))
    history.on_event(event("markers_delayed", "tx", tries=1, errors={"t-1": "NOT_LEADER_OR_FOLLOWER"}))
    history.on_event(event("marker_abandoned", "tx", partition="t-0", error="INVALID_PRODUCER_EPOCH"))
    history.on_event(event("transaction_completed", "tx", committed=True, cause="client", markers_ms=0))

    (entry,) = history.of("tx")
    assert words.entry(entry) == (
        "committed by its producer after 0.0 s",
        [
            "held readers back for 0.0 s in t-0, t-1",
            "its end waited for the marker of t-1 (NOT_LEADER_OR_FOLLOWER)",
            "t-0 refused its marker for good: the producer has a newer epoch there",
        ],
    )


def test_histories_are_bounded() -> None:
    """In their number, and each."""
    history = TransactionHistory()
    for number in range(IDS_KEPT + 5):
        history.on_event(event("transactional_id_expired", f"tx-{number}", idle_ms=1))
    for _ in range(ENTRIES_KEPT + 5):
        history.on_event(event("transactional_id_expired", "tx-100", idle_ms=1))

    assert len(history.ids()) == IDS_KEPT
    assert history.of("tx-0") == []
    assert len(history.of("tx-100")) == ENTRIES_KEPT


def test_what_was_aborted_before_the_start_takes_no_room_from_what_was_open() -> None:
    """Each id whose last transaction was aborted is found at the start, however long ago that was."""
    history = TransactionHistory()
    history.on_event(event("transaction_loaded", "open", state="Ongoing", open_ms=1))
    for number in range(IDS_KEPT + 5):
        history.on_event(event("transaction_was_aborted", f"tx-{number}", open_ms=1, timeout_ms=2, timed_out=False))
    history.on_event(event("transaction_loaded", "late", state="Ongoing", open_ms=1))

    assert len(history.ids()) == IDS_KEPT
    assert history.of("open")
    assert history.of("late")
