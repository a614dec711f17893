"""What the ledger tells of unmodified clients that speak the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients import harness, ledger_reading
from tests.clients.harness import Worker
from tests.clients.ledger_reading import Member, members
from tests.clients.test_consumer_protocol import QUICK_CONSUMERS
from tests.support.broker_process import BrokerProcess, Kohort, eventually


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with Kohort(tmp_path_factory.mktemp("broker"), QUICK_CONSUMERS) as running:
        yield running


def member(address: str, group_id: str, client_id: str, topics: list[str], **settings: object) -> Member:
    """Cooperative as every such member is, so that what it is given is told piece by piece."""
    plain = {"session.timeout.ms": None, "heartbeat.interval.ms": None}  # the broker's affair
    return Member(address, group_id, client_id, topics, group_protocol="consumer", **plain, **settings)


def ended(quick: BrokerProcess, group_id: str, count: int) -> list[ledger_reading.Record]:
    def found() -> list[ledger_reading.Record]:
        told = ledger_reading.records(quick.address, group_id, "rebalance_ended")
        return [record for record in told if record["outcome"] != "superseded"]

    eventually(lambda: len(found()) >= count)
    return found()


def test_librdkafka_members_join_are_slow_and_leave(quick: BrokerProcess, name: str):
    """Who joined, whose revocation was waited for, what moved, who left; and `why` says it."""
    harness.create_topic(quick.address, name, 4)
    slow = member(quick.address, name, "slow", [name])
    with members(slow):
        eventually(lambda: slow.owned == [0, 1, 2, 3])
        slow.stall(100)  # nobody answers the broker's wish to have partitions back
        quickly = member(quick.address, name, "quick", [name])
        with members(quickly):
            eventually(lambda: ledger_reading.first_causes(quick.address, name)[-1] == ("member_joined", "quick"))
            slow.stall(2)
            eventually(lambda: bool(quickly.owned))
            second = ended(quick, name, 2)[1]
    left = ended(quick, name, 3)[2]

    assert (second["group_type"], second["outcome"], second["partitions_moved"]) == ("consumer", "stable", 2)
    assert (second["first_cause"]["trigger"], second["first_cause"]["client_id"]) == ("member_joined", "quick")
    waited = second["slowest_to_revoke"]
    assert waited["client_id"] == "slow"
    assert 500 < waited["after_ms"] < 20_000
    assert waited["after_ms"] <= second["stopped_ms"] <= second["duration_ms"]
    assert (left["first_cause"]["trigger"], left["first_cause"]["client_id"]) == ("member_left", "quick")

    told = ledger_reading.why(quick.address, name)
    assert told.returncode == 0, told.stderr
    assert f"group {name}: " in told.stdout
    assert "quick (127.0.0.1) joined" in told.stdout
    assert "for slow to give up what moved; 2 of 4 partitions moved" in told.stdout
    assert "epoch" in told.stdout.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("client", ["confluent", "java"])
def test_a_process_that_leaves_and_one_that_is_killed_are_told_apart(
    client: str, quick: BrokerProcess, spawn: Callable[..., Worker], name: str
):
    """By name, host and cause; who died is told with when it was heard of."""
    harness.create_topic(quick.address, name)
    options = {
        "mode": "group",
        "bootstrap": quick.address,
        "topic": name,
        "group": name,
        "assignor": "consumer",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 10_000,
        "commit_every_ms": 100,
    }
    workers = [spawn(client, **options, client_id=f"{client}-{n}") for n in "abc"]
    harness.wait_until_shared(workers)
    a, b, c = workers
    a.leave()
    harness.wait_until_shared([b, c])
    b.kill()
    harness.wait_until_shared([c])
    eventually(lambda: ledger_reading.first_causes(quick.address, name)[-1][0] == "session_expired")

    causes = ledger_reading.first_causes(quick.address, name)
    assert ("member_left", f"{client}-a") in causes
    assert causes[-1] == ("session_expired", f"{client}-b")
    eventually(lambda: len(ledger_reading.records(quick.address, name, "rebalance_ended")) == len(causes))
    died = ledger_reading.records(quick.address, name, "rebalance_ended")[-1]
    assert died["outcome"] == "stable"
    assert died["first_cause"]["client_host"] == "/127.0.0.1"
    assert died["first_cause"]["detail"]["last_heard_ms"] >= 6_000
    assert died["first_cause"]["detail"]["last_api"] == "ConsumerGroupHeartbeat"
    changes = {member["client_id"]: member["change"] for member in died["members"]}
    assert changes == {f"{client}-b": "expired", f"{client}-c": "stayed"}
    owners = {partition for member in died["members"] for partition in (member["partitions"] or {})}
    assert owners == {name}
    c.leave()
