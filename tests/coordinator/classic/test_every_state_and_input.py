"""Every input in every state ends in an `Outcome`, and the group moves only as the table below allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.classic.inputs import (
    GroupLoaded,
    Heartbeat,
    InitialDelayPassed,
    Join,
    JoinTimedOut,
    Leave,
    Leaver,
    SessionExpired,
    Sync,
    SyncTimedOut,
    Unload,
)
from coordinator.classic.rules import ON_APPEND_FAILED, ON_APPENDED, RULES
from coordinator.classic.tokens import AssignmentToken, EmptyGroupToken, NewGroupToken, ReplacementToken
from coordinator.group import GroupState
from coordinator.outcome import Appended, AppendFailed, GroupInput, Input, Outcome
from protocol.errors import ErrorCode
from tests.coordinator.driver import RANGE, REBALANCE, SESSION, Driver, Request

EMPTY, STABLE, DEAD = GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD
PREPARING, COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE

# One input may make several moves: a sole member's JoinGroup goes through PreparingRebalance to CompletingRebalance.
ALLOWED: dict[GroupState | None, set[GroupState | None]] = {
    None: {None, EMPTY, PREPARING},  # created, and its first member parked
    EMPTY: {EMPTY, PREPARING, DEAD, None},  # None: its first record was refused
    PREPARING: {PREPARING, COMPLETING, EMPTY, DEAD, None},
    COMPLETING: {COMPLETING, STABLE, PREPARING, EMPTY, DEAD},
    STABLE: {STABLE, PREPARING, COMPLETING, EMPTY, DEAD},
    DEAD: {DEAD},
}


def unknown() -> tuple[Driver, str]:
    return Driver(), "nobody"


def empty() -> tuple[Driver, str]:
    broker = Driver()
    return broker, broker.join().response.member_id


def initial_delay() -> tuple[Driver, str]:
    broker = Driver()
    broker.join(version=3)
    return broker, next(iter(broker.live.members))


def preparing() -> tuple[Driver, str]:
    broker = Driver()
    a, b = broker.stable_group("a", "b", static=("b",))
    broker.join(a)
    return broker, b


def completing() -> tuple[Driver, str]:
    broker = Driver()
    _, b = broker.completing_group("a", "b", static=("b",))
    return broker, b


def in_flight() -> tuple[Driver, str]:
    broker = Driver()
    a, _ = broker.completing_group("a", "b", static=("b",))
    broker.hold_appends()
    broker.sync(a, 1, {a: b"A"})
    return broker, a


def stable() -> tuple[Driver, str]:
    broker = Driver()
    _, b = broker.stable_group("a", "b", static=("b",))
    return broker, b


def alone() -> tuple[Driver, str]:
    broker = Driver()
    [a] = broker.stable_group("a")
    return broker, a


def dead() -> tuple[Driver, str]:
    broker, member_id = stable()
    broker.feed(Unload("g"))
    return broker, member_id


SITUATIONS = [unknown, empty, initial_delay, preparing, completing, in_flight, stable, alone, dead]


def inputs_for(member_id: str, generation: int) -> list[Input]:
    def join(member: str, instance: str | None, version: int, protocols: tuple[tuple[str, bytes], ...]) -> Join:
        return Join(
            "g",
            member,
            instance,
            "consumer",
            protocols,
            SESSION,
            REBALANCE,
            version,
            "fresh",
            "c",
            "/127.0.0.1",
            Request("join"),
        )

    changed = (("range", b"changed"),)
    found: list[Input] = [
        join(member, instance, version, protocols)
        for member in (member_id, "", "stranger")
        for instance in (None, "b", "other")
        for version in (3, 9)
        for protocols in (RANGE, changed, (("unknown", b""),))
    ]
    for member in (member_id, "stranger"):
        for instance in (None, "b", "other"):
            for number in (generation, generation + 1):
                found.append(Sync("g", member, instance, number, None, None, {member: b"x"}, 4, Request("sync")))
                found.append(Heartbeat("g", member, instance, number, Request("heartbeat")))
            found.append(Leave("g", [Leaver(member, instance), Leaver("", instance)], 4, Request("leave")))
        found.append(SessionExpired("g", member))
    found += [
        InitialDelayPassed("g", 3_000, 0),
        InitialDelayPassed("g", 3_000, 3_000),
        JoinTimedOut("g"),
        SyncTimedOut("g", generation),
        SyncTimedOut("g", generation + 1),
        GroupLoaded("g"),
        Unload("g"),
    ]
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_input_ends_in_an_outcome_and_an_allowed_move(situation: Callable[[], tuple[Driver, str]]):
    """2.4, 2.5: nothing else than an Outcome, the driver's invariants hold, a request is answered or parked."""
    driver, member = situation()
    generation = driver.group.generation if driver.group else 0
    for number in range(len(inputs_for(member, generation))):
        broker, member_id = situation()
        before = broker.group.state if broker.group else None
        happening = inputs_for(member_id, generation)[number]

        outcome = broker.feed(happening)

        assert isinstance(outcome, Outcome)
        now = outcome.after.state if outcome.after else None
        assert now in ALLOWED[before], f"{before} -> {now} by {happening}"
        if isinstance(happening, Join | Sync | Heartbeat | Leave):
            answered = {id(reply.to) for reply in outcome.replies}
            assert (id(happening.reply_to) in answered) != _is_parked(outcome, happening.reply_to)


def _is_parked(outcome: Outcome, request: Request) -> bool:
    members = outcome.after.members.values() if outcome.after else ()
    return any(request in (member.parked_join, member.parked_sync) for member in members)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_fate_of_a_record_may_meet_any_state(situation: Callable[[], tuple[Driver, str]]):
    """D3: whatever happened since, `Appended` and `AppendFailed` end in an outcome and an allowed move."""
    for succeeded in (True, False):
        for number in range(4):
            broker, member_id = situation()
            before = broker.group
            a_member = next(iter(before.members.values()), None) if before else None
            a_member = a_member or next(iter(stable()[0].live.members.values()))
            token = [
                NewGroupToken("g", (Request("join"),)),
                EmptyGroupToken("g"),
                AssignmentToken("g", 1, a_member, {member_id: b"x"}),
                ReplacementToken("g", a_member, "fresh", member_id, Request("join")),
            ][number]
            if succeeded and type(token) not in ON_APPENDED:
                continue
            fate = Appended("g", token) if succeeded else AppendFailed("g", token, ErrorCode.KAFKA_STORAGE_ERROR)

            outcome = broker.feed(fate)

            now = outcome.after.state if outcome.after else None
            assert now in ALLOWED[before.state if before else None]


def test_every_input_and_every_token_has_a_rule():
    """Nothing of this package can reach the shard without one."""
    assert {*Input.__subclasses__(), *GroupInput.__subclasses__()} >= set(RULES)
    from coordinator.classic import inputs, tokens

    declared = {
        value for value in vars(inputs).values() if isinstance(value, type) and value.__module__ == inputs.__name__
    }
    assert declared - {Leaver} == set(RULES) - {Appended, AppendFailed}
    kinds = {
        value for value in vars(tokens).values() if isinstance(value, type) and value.__module__ == tokens.__name__
    }
    assert kinds == set(ON_APPEND_FAILED)
    assert {kind for kind in kinds if kind.resumes} == set(ON_APPENDED)
