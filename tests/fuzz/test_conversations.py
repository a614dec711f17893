"""Whole conversations: what clients say to each other's groups, transactions and topics, in an order of Hypothesis.

Unlike single frames (`test_fuzz.py`) these get far: see `tests.fuzz.conversations`. Watched are answers (everything is
answered or the connection closes), traces, memory while each request is handled and after it, how long a turn of the
loop takes in CPU time, and that no transaction hangs in the end. `make fuzz` plays more.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from broker.handlers import groups
from broker.handlers.dispatch import HANDLERS
from broker.loop import logs
from protocol.api_keys import ApiKey
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.fuzz.conversations import BYTES, CONVERSATIONS, ELEMENTS, IN_ORDER, MB, Conversations
from tests.fuzz.watched import HELD_S

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 40
LONG_TURN_S = 0.08
"""Of CPU: a broker allows itself 0.05, on warm caches."""


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


@pytest.fixture
def conversation() -> Iterator[Conversations]:
    """One whose steps a test takes."""
    machine = Conversations()
    machine.open()
    yield machine
    machine.teardown()


def test_conversations_end_in_answers() -> None:
    """KOHORT_FUZZ_CONVERSATIONS says how many."""

    class Played(Conversations):
        seen: Counter[str] = Counter()  # noqa: RUF012

    run_state_machine_as_test(
        Played,
        settings=settings(
            max_examples=CONVERSATIONS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{CONVERSATIONS} conversations, the longest turn {Played.longest_s * 1e3:.1f} ms: {dict(Played.seen)}")
    for what in ("records", "offsets"):
        for end in ("committed", "aborted"):
            assert Played.seen[f"{what} {end}"], f"no transaction was {end} with {what} in it"


class Burning(Conversations):
    """With a handler that takes twice as long as a turn may."""

    @staticmethod
    def sync_group(broker: Any, context: Any, request: Any) -> Any:
        """As it should be, but slow."""
        until = time.thread_time() + 2 * HELD_S
        while time.thread_time() < until:
            pass
        return groups.sync_group(broker, context, request)

    handlers = {**HANDLERS, ApiKey.SYNC_GROUP: sync_group}  # noqa: RUF012


@pytest.mark.parametrize("assignments", [0, ELEMENTS[0]], ids=["read at once", "read in a thread"])
def test_what_a_handler_burns_is_seen(assignments: int) -> None:
    """Of a request that is decoded in a thread too: its handler runs in a later turn."""
    machine = Burning()
    machine.open()
    try:
        machine.all_is_well()
        machine.sync(0, "g", 0, 0, assignments, 0)
        with pytest.raises(AssertionError, match="a turn of the loop took"):
            machine.all_is_well()
    finally:
        machine.teardown()


def test_what_a_handler_keeps_is_seen(conversation: Conversations, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is at work: afterwards it is gone."""
    served = conversation.server.routes.find(ApiKey.HEARTBEAT, 3)
    assert served is not None
    real = served.handle

    def wasteful(*arguments: Any) -> Any:
        assert bytearray(b"x") * (256 * MB)
        return real(*arguments)

    monkeypatch.setattr(served, "handle", wasteful)
    with pytest.raises(AssertionError, match="bytes for"):
        conversation.beat(0, "g", 0, 0)


def test_a_transaction_that_hangs_is_seen(conversation: Conversations) -> None:
    """It has fifteen minutes, so that nobody aborts it in time."""
    told = conversation.ask(0, InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=900_000), 3)
    conversation.transactional["tx"].known.append((told.producer_id, told.producer_epoch))
    for part in ("add", "produce"):
        conversation.transact(0, "tx", part)
    with pytest.raises(AssertionError, match="a transaction hangs in orders"):
        conversation.no_transaction_hangs()
    conversation.transact(0, "tx", "end")


def test_a_transaction_in_its_order_ends_with_records_and_offsets(conversation: Conversations) -> None:
    """What the random ones are counted by."""
    before = conversation.seen.copy()
    for committed in (True, False):
        for part in IN_ORDER:
            conversation.transact(0, "tx", part, committed=committed)
    ended = {what for what, count in conversation.seen.items() if count > before[what]}
    assert {"records committed", "records aborted", "offsets committed", "offsets aborted"} <= ended
    conversation.no_transaction_hangs()


def test_large_frames_are_answered_within_what_they_may_take(conversation: Conversations) -> None:
    """Some of each kind: 20,000 elements, or megabytes of them."""
    for many, large in ((ELEMENTS[0], 0), (0, BYTES[0]), (0, BYTES[-1])):
        conversation.join(0, "g", 0, many, large)
        conversation.sync(0, "g", 1, 0, many, large)
        conversation.commit(1, "h", 0, "orders", many, large)
        conversation.produce(1, 0, 0, "orders", 1, large)
        conversation.leave(2, "h", 0, many)
        conversation.consumer_beat(2, 0, 0, "orders", False, many)
        for part in IN_ORDER:
            conversation.transact(2, "tx", part, many=many)
        conversation.all_is_well()
    assert conversation.seen["PRODUCE of a MB"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["assignments", "leavers", "protocols"])
def test_the_largest_frames_of_elements_hold_nobody(conversation: Conversations, what: str) -> None:
    """Some ten megabytes each: assignments took 0.11 s and more in one turn, those who leave 0.16 s."""
    found_s = []
    for _ in range(3):
        conversation.held_s = 0
        if what == "assignments":
            conversation.sync(0, "g", 0, 0, 700_000, 0)
        elif what == "leavers":
            conversation.leave(0, "h", 0, 850_000)
        else:
            conversation.join(0, "h", 0, 500_000, 0)
        conversation.all_is_well()
        found_s.append(conversation.held_s)
        if found_s[-1] < LONG_TURN_S:
            break
    assert min(found_s) < LONG_TURN_S, f"{found_s} s of CPU in one turn"
    assert max(conversation.seen[f"{name}_GROUP of a MB"] for name in ("SYNC", "LEAVE", "JOIN"))
