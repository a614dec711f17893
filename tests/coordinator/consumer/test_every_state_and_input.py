"""Every input in every situation ends in an `Outcome`, and the group moves only as the table below allows.

The driver holds the rest after each: what is in memory is what both ways of loading make of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.classic import inputs as classic
from coordinator.consumer import inputs, rules
from coordinator.offsets import inputs as offset_inputs
from coordinator.outcome import AppendFailed, GroupInput
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import Request, tid
from tests.coordinator.consumer.test_moving import Mixed, said

EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
NEW = {ASSIGNING, RECONCILING, STABLE}

ALLOWED: dict[str | None, set[str | None]] = {
    None: {None, "classic", *NEW},
    "classic": {"classic", None, EMPTY, *NEW},
    EMPTY: {EMPTY, None, "classic", *NEW},
    ASSIGNING: {EMPTY, "classic", *NEW},
    RECONCILING: {EMPTY, "classic", *NEW},
    STABLE: {EMPTY, "classic", *NEW},
}


def nobody() -> Mixed:
    return Mixed()


def empty() -> Mixed:
    broker = Mixed()
    broker.stable("a")
    broker.leave("a")
    return broker


def stable() -> Mixed:
    broker = Mixed()
    broker.stable("a", "b")
    return broker


def revoking() -> Mixed:
    broker = Mixed()
    broker.stable("a")
    broker.join("b")
    broker.beat("a", owned={"t": [0, 1, 2, 3]})
    return broker


def assigning() -> Mixed:
    broker = Mixed(interval_ms=1_000)
    broker.join("a")
    broker.join("b")
    return broker


def away() -> Mixed:
    broker = Mixed()
    broker.stable("a", instance_id="i")
    broker.leave("a", "i", epoch=-2)
    return broker


def mixed() -> Mixed:
    broker = Mixed()
    broker.classic_group("b")
    broker.join("a")
    return broker


def all_classic() -> Mixed:
    broker = Mixed(migration_policy="upgrade")
    broker.classic_group("b")
    broker.join("a")
    broker.leave("a")
    return broker


def classic_stable() -> Mixed:
    broker = Mixed()
    broker.classic_group("a", "b")
    return broker


def classic_joining() -> Mixed:
    broker = Mixed()
    broker.classic_join(new_id="b")
    return broker


SITUATIONS = [nobody, empty, stable, revoking, assigning, away, mixed, all_classic, classic_stable, classic_joining]


def state_of(broker: Mixed) -> str | None:
    if "g" in broker.shard.consumer_groups:
        return broker.state
    return "classic" if "g" in broker.shard.groups else None


def inputs_for() -> list[GroupInput]:
    def heartbeat(member: str, epoch: int, instance: str | None, owned: Any, **more: Any) -> GroupInput:
        names, regex = more.get("names", ("t",)), more.get("regex")
        return inputs.ConsumerHeartbeat(
            "g", member, epoch, instance, None, 30_000, names, regex, None, owned, 1, "new", "c", "/h", Request()
        )

    found: list[GroupInput] = [
        heartbeat(member, epoch, instance, owned)
        for member in ("a", "b", "x")
        for epoch in (-2, -1, 0, 1, 2, 3, 9)
        for instance in (None, "i", "j")
        for owned in (None, {}, {tid("t"): frozenset({0, 1})})
    ]
    found += [heartbeat("x", 0, None, {}, names=None, regex=regex) for regex in ("t.*", "(", "")]
    for member in ("a", "b", "x", ""):
        for instance in (None, "i"):
            for version in (3, 5):
                found.append(
                    classic.Join(
                        "g",
                        member,
                        instance,
                        "consumer",
                        (("range", said()),),
                        10_000,
                        30_000,
                        version,
                        "new",
                        "c",
                        "/h",
                        Request(),
                    )
                )
            for number in (1, 2, 3):
                found.append(classic.Sync("g", member, instance, number, None, None, {}, 4, Request()))
                found.append(classic.Heartbeat("g", member, instance, number, Request()))
            found.append(classic.Leave("g", [classic.Leaver(member, instance)], 5, Request()))
        found.append(classic.SessionExpired("g", member))
        found += [inputs.RebalanceTimedOut("g", member, epoch) for epoch in (1, 2, 3)]
        found += [inputs.ClassicMemberTimedOut("g", member, what) for what in ("join", "sync")]
    found += [
        classic.JoinTimedOut("g"),
        classic.SyncTimedOut("g", 1),
        classic.GroupLoaded("g"),
        inputs.RegexesResolved("g", {"t.*": frozenset({"t"})}, 1),
        inputs.RegexesResolved("g", None),
        inputs.DescribeConsumerGroup("g", Request()),
        offset_inputs.DescribeGroup("g", 6, Request()),
        offset_inputs.DeleteGroup("g", Request()),
        offset_inputs.ExpireOffsets("g"),
        offset_inputs.ForgetTopics("g", {"t": tid("t")}),
    ]
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_input_ends_in_an_outcome_and_an_allowed_move(situation: Callable[[], Mixed]):
    """11: written or refused, whoever asked is answered or waits in a classic group."""
    for number in range(len(inputs_for())):
        for error in (None, ErrorCode.KAFKA_STORAGE_ERROR):
            broker = situation()
            broker.checks = number % 7 == 0  # loading the log after each of thousands takes long
            before = state_of(broker)
            happening = inputs_for()[number]
            if error is not None:
                broker.fail_appends(error)

            outcome = broker.feed(happening)

            assert state_of(broker) in ALLOWED[before], f"{before} -> {state_of(broker)} by {happening}"
            reply_to = getattr(happening, "reply_to", None)
            if reply_to is not None and reply_to.response is None:
                waiting = broker.shard.groups["g"].members.values()
                assert any(reply_to in (member.parked_join, member.parked_sync) for member in waiting), happening
            if error is not None and outcome.records:
                assert (state_of(broker) == before) or before in (None, "classic"), happening


def test_every_input_and_every_token_has_a_rule():
    """Nothing of this package can reach the shard without one."""
    declared = {
        value
        for value in vars(inputs).values()
        if isinstance(value, type) and issubclass(value, GroupInput) and value is not GroupInput
    }
    assert declared == set(rules.RULES)
    of_classic = {
        value
        for value in vars(classic).values()
        if isinstance(value, type) and issubclass(value, GroupInput) and value is not GroupInput
    }
    assert of_classic <= set(rules.RULES_OF_CONSUMER_GROUPS)
    assert AppendFailed not in rules.RULES
