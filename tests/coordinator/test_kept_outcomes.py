"""Every input in every situation of the tables has the outcome that is kept: answers, records, timers, events and all.

The tables themselves say that each ends well; what a change of a rule changes anywhere is seen here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from coordinator.consumer.records import current_record
from coordinator.values import altered
from tests.coordinator import driver as classic_driver
from tests.coordinator import offsets_table
from tests.coordinator.classic import test_every_state_and_input as classic
from tests.coordinator.consumer import driver as consumer_driver
from tests.coordinator.consumer import test_every_state_and_input as consumer
from tests.coordinator.consumer.test_moving import Mixed
from tests.coordinator.outcomes import Outcomes
from tests.coordinator.transactions import driver as transactions_driver
from tests.coordinator.transactions import test_every_state_and_input as transactions
from tests.support.kept import held

KEPT = Path(__file__).parent / "kept"


def test_of_the_classic_protocol():
    told = Outcomes(classic_driver.Request)
    for situation in classic.SITUATIONS:
        broker, member_id = situation()
        group = broker.group
        inputs = classic.inputs_for(member_id, group.generation if group else 0)
        told.add(situation.__name__, group, inputs, partial(broker.core.handle, now_ms=broker.now_ms))
    held(KEPT / "classic.txt", told.lines())


def of_later() -> Mixed:
    """A member in a state that only a later version knows."""
    broker = Mixed()
    broker.stable("a")
    broker.log.append([current_record("g", altered(broker.member("a"), state=9))])
    broker.reload()
    return broker


def test_of_the_consumer_protocol():
    told = Outcomes(consumer_driver.Request)
    for situation in (*consumer.SITUATIONS, of_later):
        broker = situation()
        group = broker.shard.consumer_groups.get("g") or broker.shard.groups.get("g")
        handle = partial(broker.shard.handle, now_ms=broker.now_ms)
        told.add(situation.__name__, group, consumer.inputs_for(), handle)
    held(KEPT / "consumer.txt", told.lines())


def test_of_offsets():
    told = Outcomes(classic_driver.Request)
    for situation in offsets_table.SITUATIONS:
        broker = situation()
        group = broker.shard.groups.get(broker.group_id)
        inputs = offsets_table.inputs_for(broker.group_id, list(group.members) if group else [])
        told.add(situation.__name__, group, inputs, partial(broker.shard.handle, now_ms=broker.now_ms))
    for situation in (consumer.stable, consumer.away, consumer.mixed):
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
