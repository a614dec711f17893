"""The rebalance ledger, written about real, unmodified clients and read by one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from coordinator.why.replay import replay
from kohort.testing import Broker
from tests.clients import harness
from tests.clients.harness import Worker
from tests.clients.ledger_reading import Member, first_causes, members, records, why
from tests.clients.test_groups import SESSION_MS, in_group
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually

pytestmark = pytest.mark.usefixtures("only_kohort")

QUICK = {("confluent", "cooperative-sticky"), ("java", "range")}
PAIRS = [
    pytest.param(client, assignor, marks=() if (client, assignor) in QUICK else pytest.mark.slow)
    for client, assignor in [*sorted(QUICK), ("aiokafka", "roundrobin"), ("kafka_python", "sticky")]
]


def stable(broker: BrokerProcess, name: str) -> list[dict[str, Any]]:
    return [r for r in records(broker.address, name, "rebalance_ended") if r["outcome"] in ("stable", "empty")]


def owners_agree(broker: BrokerProcess, name: str, workers: list[Worker]) -> int:
    """What the ledger says of each generation is what the members were told; how many were compared."""
    told = {generation.number: generation for generation in replay(records(broker.address, name))}
    names = {
        member["member_id"]: member["client_id"]
        for record in records(broker.address, name, "rebalance_ended")
        for member in record["members"]
    }
    by_client = {
        (number, names[member_id]): {partition for _, partition in owned or ()}
        for number, generation in told.items()
        for member_id, owned in generation.members.items()
    }
    compared = 0
    for worker in workers:
        for event, owned in harness.assignments(worker):
            key = event["generation"], worker.name
            if key in by_client:
                assert by_client[key] == owned, (key, by_client[key], owned)
                compared += 1
    return compared


@pytest.mark.parametrize(("client", "assignor"), PAIRS)
def test_rl02_rl03_rl13_who_came_left_and_died_and_who_owned_what(
    client: str, assignor: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """RL02, RL03, and RL13 where the assignor is cooperative: causes, owners and order are the members' own."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, assignor)
    a = spawn(client, **options, client_id=f"{client}-a")
    harness.wait_until_shared([a])  # so that it has something to give up when the others come
    b = spawn(client, **options, client_id=f"{client}-b")
    harness.wait_until_shared([a, b])  # so that one keeps all while the other gets what was given up
    c = spawn(client, **options, client_id=f"{client}-c")
    workers = [a, b, c]
    harness.wait_until_shared(workers)
    a.leave()
    harness.wait_until_shared([b, c])
    b.kill()
    harness.wait_until_shared([c])
    eventually(lambda: stable(broker, name)[-1]["members"][0]["client_id"] == f"{client}-c", deadline_s=60)

    began = [record["cause"] for record in records(broker.address, name, "rebalance_began")]
    causes = {cause["client_id"]: cause for cause in began if cause["trigger"] in ("member_left", "session_expired")}
    assert causes[f"{client}-a"]["trigger"] == "member_left"
    if client == "java":
        assert causes[f"{client}-a"]["reason"] == "the consumer is being closed"
    died = causes[f"{client}-b"]
    assert died["trigger"] == "session_expired"
    assert died["detail"]["last_heard_ms"] >= SESSION_MS
    assert died["client_host"] == "/127.0.0.1"
    ended = stable(broker, name)
    left = next(r for r in ended if {m["client_id"]: m["change"] for m in r["members"]}.get(f"{client}-a") == "left")
    lost = next(member["lost"] for member in left["members"] if member["change"] == "left")
    assert lost
    assert owners_agree(broker, name, workers) >= 3
    if assignor == "cooperative-sticky":
        follow = [r for r in records(broker.address, name, "rebalance_ended")
                  if r["first_cause"]["trigger"] == "cooperative_followup"]  # fmt: skip
        assert follow, first_causes(broker.address, name)
        ids = {record["rebalance_id"] for record in ended}
        assert follow[-1]["first_cause"]["detail"]["follows"] in ids
        kept = [m for r in ended for m in r["members"] if m["change"] == "stayed" and m["gained"] == {} == m["lost"]]
        assert kept


def test_rl11_rl12_a_static_member_that_restarts_and_one_that_is_there_twice(
    broker: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """RL11: no rebalance, one member_replaced with away_ms. RL12: member_fenced names both."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, "range", session_timeout_ms=20_000, rebalance_timeout_ms=30_000)
    first = spawn("confluent", **options, instance_id="i1", client_id="one")
    eventually(first.owned, deadline_s=60)
    first.kill()
    again = spawn("confluent", **options, instance_id="i1", client_id="two")
    eventually(again.owned, deadline_s=60)
    writer = harness.Writer(broker.address, name)
    second = spawn("confluent", **options, instance_id="i1", client_id="three")
    eventually(second.owned, deadline_s=60)
    eventually(lambda: again.seen("fatal") or again.seen("commit_failed"), deadline_s=60, what="fenced")
    writer.stop()

    assert len(stable(broker, name)) == 1
    replaced = records(broker.address, name, "member_replaced")
    assert [(r["old_client_id"], r["client_id"]) for r in replaced] == [("one", "two"), ("two", "three")]
    assert 0 <= replaced[0]["away_ms"] < 20_000
    fenced = records(broker.address, name, "member_fenced")
    assert {(record["client_id"], record["holder_client_id"], record["holder_member_id"]) for record in fenced} == {
        ("two", "three", replaced[-1]["new_member_id"])
    }
    assert {(record["client_host"], record["holder_client_host"]) for record in fenced} == {("/127.0.0.1",) * 2}


def test_rl07_rl09_rl10_rl15_what_members_and_administrators_change(broker: BrokerProcess, name: str):
    """RL07: a slow member is named with its time. RL09: a subscription grows. RL10: a topic grows. RL15: offsets are
    reset while nobody is in the group. And `kohort why` tells of all of them."""
    other = f"{name}-other"
    harness.create_topic(broker.address, name, 3)
    harness.create_topic(broker.address, other, 3)
    admin = AdminClient({"bootstrap.servers": broker.address})
    with members(
        Member(broker.address, name, "a", [name]),
        Member(broker.address, name, "b", [name]),
    ) as (a, b):
        eventually(lambda: len(a.owned) + len(b.owned) == 3 and a.owned and b.owned, deadline_s=60)

        stalled_until_ms = b.stall(3)
        a.subscribe([name, other])  # RL09, and RL07: b answers when it polls again
        eventually(
            lambda: any(r["first_cause"]["trigger"] == "subscription_changed" for r in stable(broker, name)),
            deadline_s=60,
        )
        ended = next(r for r in stable(broker, name) if r["first_cause"]["trigger"] == "subscription_changed")
        assert ended["first_cause"]["detail"] == {"topics_added": [other], "topics_removed": []}
        assert ended["slowest_to_join"]["client_id"] == "b"
        rejoined_at_ms = ended["began_at_ms"] + ended["slowest_to_join"]["after_ms"]
        assert stalled_until_ms - 1 <= rejoined_at_ms <= ended["joined_at_ms"]
        assert ended["slowest_to_join"]["after_ms"] <= ended["join_ms"]

        admin.create_partitions([NewPartitions(name, 6)])[name].result(120)  # RL10
        eventually(
            lambda: any(r["first_cause"]["trigger"] == "partitions_changed" for r in stable(broker, name)),
            deadline_s=60,
        )
        grown = [c for c in first_causes(broker.address, name) if c[0] == "partitions_changed"]
        assert len(grown) == 1
        told = next(r for r in stable(broker, name) if r["first_cause"]["trigger"] == "partitions_changed")
        assert told["first_cause"]["detail"] == {"topics": {name: [3, 6]}}
        committed = b.owned[0]

        def is_committed() -> bool:
            b.commit(TopicPartition(name, committed, 7))
            asked = ConsumerGroupTopicPartitions(name, [TopicPartition(name, committed)])
            (found,) = admin.list_consumer_group_offsets([asked])[name].result(120).topic_partitions
            return bool(found.offset == 7)

        eventually(is_committed, every_s=0.2)
    reset = ConsumerGroupTopicPartitions(name, [TopicPartition(name, committed, 2)])  # RL15
    admin.alter_consumer_group_offsets([reset])[name].result(120)
    changed = eventually(lambda: records(broker.address, name, "offsets_changed"))
    assert changed[0]["offsets"] == [{"topic": name, "partition": committed, "from": 7, "to": 2}]
    assert (changed[0]["by"], changed[0]["client_host"]) == ("client", "/127.0.0.1")

    answer = why(broker.address, name)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"group {name}: Empty, generation ")
    for said in (
        f'a (127.0.0.1) subscribed to "{other}"',
        "for b to rejoin",
        f"{name} has 6 partitions instead of 3",
        f"set the offsets of 1 partition: {name}-{committed} 7 -> 2",
        "nobody was left",
        "findings",
    ):
        assert said in answer.stdout, answer.stdout
    told = json.loads(why(broker.address, name, "--json", "--trigger", "partitions_changed").stdout)
    assert {(r.get("first_cause") or r["cause"])["trigger"] for r in told["records"]} == {"partitions_changed"}
    assert "owns" in why(broker.address, name, "--verbose", "--last", "3").stdout


def test_why_says_what_is_wrong_with_the_question(broker: BrokerProcess, name: str):
    """Ledger 5: exit code 1 for a group that nobody knows, with the nearest names; 2 for words that make no sense."""
    harness.create_topic(broker.address, name, 3)
    with members(Member(broker.address, f"{name}-payments", "a", [name])):
        eventually(lambda: first_causes(broker.address, f"{name}-payments"))
        unknown = why(broker.address, f"{name}-paymentz")
        assert (unknown.returncode, unknown.stdout) == (1, "")
        assert f"did you mean '{name}-payments'?" in unknown.stderr
    for words in (["--last", "0", "g"], ["--since", "yesterday", "g"], ["--trigger", "moon", "g"]):
        answer = why(broker.address, *words)
        assert answer.returncode == 2, answer
        assert len(answer.stderr.splitlines()) <= 2
    assert why("127.0.0.1:1", "g").returncode == 1


def test_without_a_ledger_the_generations_tell_what_they_can(name: str):
    """Ledger 5: it says that there is none, and infers."""
    with Broker({**QUICK_GROUPS, "kohort.ledger.enable": False}, {name: 3}) as off:
        address = off.bootstrap_servers
        with members(Member(address, name, "a", [name]), Member(address, name, "b", [name])) as (a, b):
            eventually(lambda: a.owned and b.owned and len(a.owned) + len(b.owned) == 3, deadline_s=60)
            b.close()
            eventually(lambda: len(a.owned) == 3, deadline_s=60)
            answer = why(address, name)
        assert answer.returncode == 0, answer.stderr
        assert "there is no rebalance ledger" in answer.stdout
        assert "b (127.0.0.1) is gone" in answer.stdout
        assert "joined" in answer.stdout


def test_rl16_a_broker_that_is_killed_in_the_middle(name: str):
    """RL16: SIGKILL in PreparingRebalance; after the restart the open rebalance is interrupted, then it goes on."""
    with Broker(QUICK_GROUPS, {name: 3}) as broker:
        address = broker.bootstrap_servers
        with members(Member(address, name, "a", [name]), Member(address, name, "b", [name])) as (a, b):
            eventually(lambda: a.owned and b.owned and len(a.owned) + len(b.owned) == 3, deadline_s=60)
            b.stall(100)
            late = Member(address, name, "late", [name])
            with members(late):
                eventually(lambda: first_causes(address, name)[-1] == ("member_joined", "late"))
                broker.kill()
                broker.start()
                b.stall(0)
                eventually(lambda: late.owned and a.owned and b.owned, deadline_s=60)
            kinds = [(r["kind"], r.get("outcome")) for r in records(address, name) if r["kind"] != "partitions_read"]
            loaded = records(address, name, "coordinator_loaded")
    at = kinds.index(("rebalance_ended", "interrupted"))
    assert kinds[at - 1] == ("rebalance_began", None)
    assert kinds[at + 1] == ("coordinator_loaded", None)
    assert loaded[0]["unclean"] is True
    assert ("rebalance_ended", "stable") in kinds[at + 2 :]


# What each client is told as when it does not poll for too long; librdkafka, aiokafka and kafka-python leave without
# giving a reason, and kafkajs, which has no poll interval, sends no heartbeat while its event loop stands still.
STALLED = {
    "aiokafka": "member_left",
    "confluent": "member_left",
    "kafka_python": "member_left",
    "java": "poll_timeout",
    "kafkajs": "session_expired",
}


@pytest.mark.slow
@pytest.mark.parametrize("client", STALLED)
def test_rl23_a_client_that_does_not_poll(client: str, broker: BrokerProcess, spawn: Callable[..., Worker], name: str):
    """RL23: `poll_timeout` where the client says so, else what its LeaveGroup looks like."""
    harness.create_topic(broker.address, name)
    options = in_group(broker, name, "range", rebalance_timeout_ms=4_000, stall_ms=9_000)
    a = spawn(client, **options, client_id=f"{client}-a")
    eventually(a.owned, deadline_s=60)
    a.stall()
    eventually(
        lambda: (STALLED[client], f"{client}-a") in first_causes(broker.address, name),
        deadline_s=60,
        what=f"{STALLED[client]} among {first_causes(broker.address, name)}",
    )


@pytest.mark.slow
def test_rl08_a_leader_that_plans_for_two_seconds(broker: BrokerProcess, name: str):
    """RL08: assign_ms is the planning, join_ms is not."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    at_ms: dict[str, float] = {}

    class Slow(RangePartitionAssignor):
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            at_ms["planning"] = time.time() * 1_000
            planned = super().assign(cluster, members)
            time.sleep(2)  # the planning itself, not a wait
            at_ms["planned"] = time.time() * 1_000
            return planned

    class Assigned(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        def __init__(self) -> None:
            self.event = asyncio.Event()

        def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing to do."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            at_ms["assigned"] = time.time() * 1_000
            self.event.set()

    harness.create_topic(broker.address, name, 3)

    async def share() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address, group_id=name, partition_assignment_strategy=[Slow]
        )
        assigned = Assigned()
        consumer.subscribe([name], listener=assigned)
        await consumer.start()
        try:
            async with asyncio.timeout(60):
                await assigned.event.wait()
        finally:
            await consumer.stop()

    asyncio.run(share())
    ended = next(r for r in stable(broker, name) if r["outcome"] == "stable")
    # By the clock of both sides, which is one: what is told lies around the planning, and only that.
    assert ended["joined_at_ms"] <= at_ms["planning"] + 1
    assert at_ms["planned"] - 1 <= ended["assigned_at_ms"] <= at_ms["assigned"] + 1
    assert ended["assign_ms"] == ended["assigned_at_ms"] - ended["joined_at_ms"] >= 1_990
    assert ended["join_ms"] == ended["joined_at_ms"] - ended["began_at_ms"]


@pytest.mark.slow
@pytest.mark.long
def test_rl17_fifty_members_churn_for_a_minute(broker: BrokerProcess, name: str):
    """RL17: the replayed ledger is what the members were told: owners, in order."""
    import random

    rng = random.Random(17)
    harness.create_topic(broker.address, name, 12)

    def come(number: int) -> Member:
        return Member(broker.address, name, f"m-{number}", [name], session_timeout_ms=10_000, heartbeat_interval_ms=500)

    alive = [come(number) for number in range(50)]
    gone: list[Member] = []
    number, end = 50, time.monotonic() + 60
    try:
        while time.monotonic() < end:
            time.sleep(rng.uniform(1.0, 4.0))  # the churn itself, not a wait
            if rng.random() < 0.5:
                member = alive.pop(rng.randrange(len(alive)))
                member.close()
                gone.append(member)
            else:
                alive.append(come(number))
                number += 1
        eventually(lambda: sum(len(member.owned) for member in alive) == 12, deadline_s=60)
        eventually(lambda: _last_owners(broker, name) == {m.client_id: m.owned for m in alive}, deadline_s=60)
    finally:
        for member in alive:
            member.close()
    told = list(replay(records(broker.address, name)))
    numbers = [generation.number for generation in told]
    assert numbers == sorted(numbers)
    names = {
        m["member_id"]: m["client_id"] for r in records(broker.address, name, "rebalance_ended") for m in r["members"]
    }
    for member in [*alive, *gone]:
        sequence = [
            sorted(partition for _, partition in owned or ())
            for generation in told
            for member_id, owned in generation.members.items()
            if names[member_id] == member.client_id
        ]
        rest = iter(sequence)
        missing = [given for given in member.assignments if given not in rest]
        # A superseded generation is told to those that had synced, and not in the ledger.
        superseded = [r for r in records(broker.address, name, "rebalance_ended") if r["outcome"] == "superseded"]
        assert len(missing) <= len(superseded), (member.client_id, member.assignments, sequence)
    assert len(told) > 5


def _last_owners(broker: BrokerProcess, name: str) -> dict[str, list[int]]:
    last = stable(broker, name)[-1]
    from protocol.records.ledger import numbers

    return {
        member["client_id"]: numbers(member["partitions"].get(name, ""))
        for member in last["members"]
        if member["change"] in ("joined", "stayed", "replaced")
    }
