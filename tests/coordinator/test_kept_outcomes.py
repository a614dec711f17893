"""Every input in every situation of the tables has the outcome that is kept: answers, records, timers, events and all.

The tables themselves say that each ends well; what a change of a rule changes anywhere is seen here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator import layered
from coordinator.classic.inputs import Join, Leave, Leaver
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.consumer.records import current_record
from coordinator.layered import Layered
from coordinator.outcome import Input
from coordinator.values import altered
from coordinator.view import GroupSettings
from tests.coordinator import driver as classic_driver
from tests.coordinator.classic import test_every_state_and_input as classic
from tests.coordinator.consumer import driver as consumer_driver
from tests.coordinator.consumer import test_every_state_and_input as consumer
from tests.coordinator.consumer.test_moving import Mixed
from tests.coordinator.offsets import table as offsets_table
from tests.coordinator.offsets.driver import DAY
from tests.coordinator.outcomes import Outcomes
from tests.coordinator.transactions import driver as transactions_driver
from tests.coordinator.transactions import test_every_state_and_input as transactions
from tests.support.kept import held

KEPT = Path(__file__).parent / "kept"


def over_full() -> tuple[classic_driver.Driver, str]:
    """Larger than groups may be by now: who joins again is turned away, as a member too."""
    broker = classic_driver.Driver()
    (a, *_) = broker.stable_group("a", "b", "c", static=("b",))
    broker.core.settings = GroupSettings(max_size=2)
    broker.join(a)
    return broker, a


def of_another_process(member_id: str, generation: int) -> list[Input]:
    """What a group's table lacks: another process that acts for a member, and reasons that members give."""
    request = classic_driver.Request
    told = (classic.RANGE, 10_000, 30_000, 9, "fresh")
    reasons = (None, "", "r" * 300, "consumer poll timeout has expired.", "the consumer is being closed")
    return [
        *(
            Join("g", member_id, None, "consumer", *told, client, host, request("join"), reason)
            for client, host in (("a", "/127.0.0.1"), ("other", "/127.0.0.1"), ("a", "/10.0.0.1"))
            for reason in reasons
        ),
        *(
            Leave("g", [Leaver(member_id, None, reason)], 5, request("leave"), client, "/h")
            for reason in reasons
            for client in ("a", "other")
        ),
    ]


@pytest.mark.parametrize("small_max", [layered.SMALL_MAX, 0], ids=["small", "large"])
def test_of_the_classic_protocol(small_max: int, monkeypatch: pytest.MonkeyPatch):
    """Of large groups too, whose members a change does not copy."""
    monkeypatch.setattr(layered, "SMALL_MAX", small_max)
    monkeypatch.setattr(Layered, "__repr__", lambda mapping: repr(dict(mapping)))
    told = Outcomes(classic_driver.Request)
    for situation in (*classic.SITUATIONS, over_full):
        broker, member_id = situation()
        group = broker.group
        generation = group.generation if group else 0
        inputs = [*classic.inputs_for(member_id, generation), *of_another_process(member_id, generation)]
        told.add(situation.__name__, group, inputs, partial(broker.core.handle, now_ms=broker.now_ms))
    held(KEPT / "classic.txt", told.lines())


def of_later() -> Mixed:
    """A member in a state that only a later version knows."""
    broker = Mixed()
    broker.stable("a")
    broker.log.append([current_record("g", altered(broker.member("a"), state=9))])
    broker.reload()
    return broker


def of_regexes() -> Mixed:
    """Members that subscribe by expressions, and prefer assignors."""
    broker = Mixed()
    broker.join("a", None, regex="t.*", assignor="uniform")
    broker.join("b", None, regex="u.*", assignor="range")
    return broker


def of_what_may_change() -> list[Input]:
    """What a group's table lacks: heartbeats that say something new, each thing alone, and reasons of members."""

    def heartbeat(member: str, epoch: int, **new: Any) -> ConsumerHeartbeat:
        said: dict[str, Any] = dict.fromkeys(("instance_id", "rack_id", "names", "regex", "assignor", "owned"))
        said |= {"rebalance_timeout_ms": -1} | new
        who = said.pop("client_id", "c")
        return ConsumerHeartbeat(
            "g", member, epoch, **said, version=1, new_member_id="new", client_id=who, client_host="/h",
            reply_to=consumer_driver.Request(),
        )  # fmt: skip

    return [
        *(
            heartbeat(member, epoch, **new)
            for member in ("a", "b")
            for epoch in (1, 2, 3)
            for new in (
                {"assignor": "range"}, {"assignor": "uniform"}, {"assignor": "nobody"}, {"rack_id": "r"},
                {"names": ("u",)}, {"names": ("t", "u")}, {"names": ()}, {"regex": "u.*"}, {"regex": ""},
                {"rebalance_timeout_ms": 7_000}, {"client_id": "other"},
            )
        ),
        *(
            Leave("g", [Leaver(member, None, reason)], 5, consumer_driver.Request(), "c", "/h")
            for member in ("a", "b")
            for reason in ("", "r" * 300, "consumer poll timeout has expired.", "the consumer is being closed")
        ),
    ]  # fmt: skip


def test_of_the_consumer_protocol():
    told = Outcomes(consumer_driver.Request)
    for situation in (*consumer.SITUATIONS, of_later, of_regexes):
        broker = situation()
        group = broker.shard.consumer_groups.get("g") or broker.shard.groups.get("g")
        handle = partial(broker.shard.handle, now_ms=broker.now_ms)
        told.add(situation.__name__, group, [*consumer.inputs_for(), *of_what_may_change()], handle)
    held(KEPT / "consumer.txt", told.lines())


def of_unread_topics() -> Mixed:
    """Members, and offsets of a topic that nobody subscribes to any more; they are old."""
    broker = Mixed({"t": 4, "t2": 2})
    broker.stable("a")
    broker.commit("a", broker.member("a").epoch, {"t": {0: 5}, "t2": {0: 6, 1: 7}})
    broker.now_ms += 7 * DAY
    return broker


def of_nobody() -> Mixed:
    """Nobody but offsets, which are old."""
    broker = of_unread_topics()
    broker.leave("a")
    broker.now_ms += 7 * DAY
    return broker


def test_of_offsets():
    told = Outcomes(classic_driver.Request)
    for situation in offsets_table.SITUATIONS:
        broker = situation()
        group = broker.shard.groups.get(broker.group_id)
        inputs = offsets_table.inputs_for(broker.group_id, list(group.members) if group else [])
        told.add(situation.__name__, group, inputs, partial(broker.shard.handle, now_ms=broker.now_ms))
    for situation in (consumer.stable, consumer.away, consumer.mixed, of_unread_topics, of_nobody):
        broker = situation()
        group = broker.shard.consumer_groups["g"]
        inputs = offsets_table.inputs_for("g", list(group.members), topic="t")
        told.add(f"consumer {situation.__name__}", group, inputs, partial(broker.shard.handle, now_ms=broker.now_ms))
    held(KEPT / "offsets.txt", told.lines())


def test_of_transactions():
    told = Outcomes(transactions_driver.Request)
    for situation in transactions.SITUATIONS:
        for version in (0, 2):
            broker = situation(version)
            handle = partial(broker.shard.handle, now_ms=broker.now_ms)
            told.add(f"{situation.__name__} {version}", broker.transaction, transactions.inputs_for(broker), handle)
    held(KEPT / "transactions.txt", told.lines())
