"""What the ledger tells of the phases of a rebalance when real clients are slow, frozen or new."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.testing import Broker
from tests.clients import harness
from tests.clients.harness import Worker
from tests.clients.ledger_reading import Member, first_causes, members, records, why
from tests.clients.test_groups import in_group
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort, eventually

pytestmark = pytest.mark.usefixtures("only_kohort")


def test_rl01_rl22_rl25_the_first_member_of_a_group_waits_for_the_setting(name: str):
    """RL01: one cause, one generation, everything moved to it. RL22: the JoinGroup that it was only given an id for is
    no cause. RL25: what it waited for was the initial delay, and `why` says so."""
    with Broker({"group.initial.rebalance.delay.ms": 3_000}, {name: 3}) as broker:
        address = broker.bootstrap_servers
        broker.clock.freeze()
        with members(Member(address, name, "a", [name])) as (a,):
            eventually(lambda: name in broker.groups and broker.group(name).members, deadline_s=60)
            broker.clock.shift("3s")
            broker.clock.unfreeze()
            eventually(lambda: len(a.owned) == 3, deadline_s=60)
            eventually(lambda: records(address, name, "rebalance_ended"), deadline_s=60)
            began = records(address, name, "rebalance_began")
            (ended,) = records(address, name, "rebalance_ended")
            said = why(address, name).stdout
    assert [(r["cause"]["trigger"], r["cause"]["client_id"]) for r in began] == [("member_joined", "a")]
    assert (ended["from_generation"], ended["to_generation"], ended["outcome"]) == (0, 1, "stable")
    assert ended["further_causes"] == []
    assert [(m["client_id"], m["change"], m["gained"]) for m in ended["members"]] == [("a", "joined", {name: "0-2"})]
    assert ended["partitions_moved"] == ended["partitions_total"] == 3
    assert 2_990 <= ended["initial_delay_ms"] <= ended["join_ms"]
    assert ended["slowest_to_join"] is None
    assert "for more members, as group.initial.rebalance.delay.ms says" in said
    assert "to rejoin" not in said


def test_rl04_rl05_one_leaves_and_one_is_frozen_while_they_are_waited_for(
    broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """RL04: who leaves meanwhile is a further cause. RL05: who does not come back in time is another, and is not named
    as the slowest."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, "range", session_timeout_ms=24_000, rebalance_timeout_ms=8_000)
    a, b = (spawn("aiokafka", **options, client_id=client_id) for client_id in ("a", "b"))
    harness.wait_until_shared([a, b], deadline_s=60)
    os.kill(b.process.pid, signal.SIGSTOP)
    try:
        c = spawn("aiokafka", **options, client_id="c")
        eventually(lambda: first_causes(broker.address, name)[-1] == ("member_joined", "c"), deadline_s=60)
        a.leave(60)
        harness.wait_until_shared([c], deadline_s=60)
        ended = next(
            record
            for record in records(broker.address, name, "rebalance_ended")
            if record["first_cause"]["client_id"] == "c" and record["outcome"] == "stable"
        )
    finally:
        os.kill(b.process.pid, signal.SIGCONT)
    assert ended["first_cause"]["trigger"] == "member_joined"
    further = [(cause["trigger"], cause["client_id"]) for cause in ended["further_causes"]]
    assert further == [("member_left", "a"), ("join_timeout", "b")]
    assert ended["further_causes"][1]["detail"]["rebalance_timeout_ms"] == 8_000
    assert {m["client_id"]: m["change"] for m in ended["members"]} == {"a": "left", "b": "expired", "c": "joined"}
    assert (ended["slowest_to_join"] or {}).get("client_id") != "b"
    assert ended["join_ms"] >= 7_990


@pytest.mark.slow
@pytest.mark.long
def test_rl06_a_leader_that_plans_for_longer_than_it_may(broker: BrokerProcess, name: str):
    """RL06: it joined and never asked for its assignment: sync_timeout, and the rebalance before is superseded."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    harness.create_topic(broker.address, name, 3)
    let_go = threading.Event()

    class Stuck(RangePartitionAssignor):
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if len(members) > 1:
                let_go.wait(120)
            return super().assign(cluster, members)

    async def lead() -> None:
        consumer = AIOKafkaConsumer(
            name,
            bootstrap_servers=broker.address,
            group_id=name,
            client_id="leader",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=3_000,
            partition_assignment_strategy=[Stuck],
        )
        await consumer.start()
        while not let_go.is_set():
            await consumer.getmany(timeout_ms=100)
        await consumer.stop()

    leading = threading.Thread(target=asyncio.run, args=(lead(),), daemon=True)
    leading.start()
    try:
        eventually(lambda: records(broker.address, name, "rebalance_ended"), deadline_s=60)
        with members(Member(broker.address, name, "b", [name], partition_assignment_strategy="range")) as (b,):
            eventually(lambda: ("sync_timeout", "leader") in first_causes(broker.address, name), deadline_s=120)
            eventually(lambda: len(b.owned) == 3, deadline_s=60)
            ended = records(broker.address, name, "rebalance_ended")
    finally:
        let_go.set()
        leading.join(60)
    superseded = next(record for record in ended if record["first_cause"]["client_id"] == "b")
    after = next(record for record in ended if record["first_cause"]["trigger"] == "sync_timeout")
    assert (superseded["outcome"], superseded["by"]) == ("superseded", after["rebalance_id"])
    assert after["first_cause"]["detail"]["waited_ms"] >= 2_990
    assert after["outcome"] == "stable"
    changes = {m["client_id"]: m["change"] for m in after["members"]}
    assert changes["b"] in ("stayed", "joined")


def test_rl24_a_ledger_that_was_off_for_a_while_does_not_say_what_moved(tmp_path: Path, name: str):
    """RL24: null, not wrong; the rebalance after that is told whole again."""
    with Kohort(tmp_path, {**QUICK_GROUPS}) as broker:
        harness.create_topic(broker.address, name, 4)
        with members(Member(broker.address, name, "a", [name])) as (a,):
            eventually(lambda: len(a.owned) == 4, deadline_s=60)
            broker.settings["kohort.ledger.enable"] = "false"
            broker.restart()
            with members(Member(broker.address, name, "b", [name])) as (b,):
                eventually(lambda: len(a.owned) == len(b.owned) == 2, deadline_s=60)
                broker.settings["kohort.ledger.enable"] = "true"
                broker.restart()
                with members(Member(broker.address, name, "c", [name])) as (c,):
                    eventually(lambda: sorted([*a.owned, *b.owned, *c.owned]) == [0, 1, 2, 3], deadline_s=60)
                    eventually(lambda: ("member_joined", "c") in ended_causes(broker, name), deadline_s=60)
                eventually(lambda: ("member_left", "c") in ended_causes(broker, name), deadline_s=60)
                by_cause = ended_causes(broker, name)
    assert ("member_joined", "b") not in by_cause
    unknown, known = by_cause["member_joined", "c"], by_cause["member_left", "c"]
    assert (unknown["partitions_total"], unknown["partitions_moved"], unknown["moves"]) == (4, None, [])
    assert [m["gained"] for m in unknown["members"]] == [None] * len(unknown["members"])
    assert known["partitions_moved"] == len(known["moves"]) > 0


def ended_causes(broker: BrokerProcess, name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What ended well, by trigger and client id of its first cause."""
    return {
        (record["first_cause"]["trigger"], record["first_cause"]["client_id"]): record
        for record in records(broker.address, name, "rebalance_ended")
        if record["outcome"] == "stable"
    }
