"""Groups of the consumer protocol whose members live while Kohort and Apache Kafka take turns.

Needs Java, Maven and Go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedConsumerGroup
from tests.clients import harness
from tests.reference import graduation as g
from tests.support.broker_process import BrokerProcess, Kohort, eventually, free_port, need
from tests.support.wire import Wire

pytestmark = pytest.mark.slow

TOPIC = GROUP = "orders"
QUICK = {"group.consumer.min.heartbeat.interval.ms": 500, "group.consumer.heartbeat.interval.ms": 500}
OLDER, NEWEST = "4.3.1", "4.4.0"


@pytest.fixture
def tidy() -> Iterator[Callable[[Any], Any]]:
    """tidy(broker) -> broker, which is killed after the test if it still runs."""
    need("java", "mvn", "go")
    yield from g.ending([])


def described(address: str) -> DescribedConsumerGroup | None:
    """The group, once all of its members are where they are to be."""
    with Wire(address) as wire:
        (group,) = wire.call(
            ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False), 1
        ).groups
    settled = group.error_code == ErrorCode.NONE and group.group_state == "Stable"
    return group if settled and all(one.member_epoch == group.group_epoch for one in group.members) else None


def heard(address: str, workers: list[harness.Worker]) -> DescribedConsumerGroup | None:
    """The same, once these, who are all of them, know it too: what a member was sent is its own before it has it."""
    group = described(address)
    by_member = group and sorted(owned(one) for one in group.members)
    return group if by_member == sorted(sorted(worker.owned()) for worker in workers) else None


def places(group: DescribedConsumerGroup) -> dict[str, Any]:
    """All that must be the same on the other broker."""
    members = {one.member_id: (one.member_epoch, one.member_type, owned(one)) for one in group.members}
    return {"epochs": (group.group_epoch, group.assignment_epoch), "members": members}


def owned(member: Any) -> list[int]:
    return sorted(number for topic in member.assignment.topic_partitions for number in topic.partitions)


def moves(worker: harness.Worker) -> int:
    """How often it was given partitions, or lost some."""
    return len(worker.seen("assigned")) + len(worker.seen("revoked"))


def test_members_go_on_at_their_epochs_while_the_broker_becomes_another(tmp_path: Path, tidy: Any, spawn: Any) -> None:
    """Kohort, Kafka 4.3.1, Kohort, Kafka 4.4.0, Kohort on one directory and address: nobody notices.

    On each side a member comes or goes, so that the other side goes on from epochs that it has not made. Java,
    librdkafka and franz-go read on, and no record is missed, or read again behind its committed position.
    """
    port = free_port()
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.settings |= QUICK
    older, newest = (
        tidy(g.kafka_on(tmp_path / f"kafka-{version}", kohort.data, port, version=version, settings=QUICK))
        for version in (OLDER, NEWEST)
    )
    kohort.start()
    harness.create_topic(kohort.address, TOPIC)
    options = {
        "mode": "group",
        "bootstrap": kohort.address,
        "topic": TOPIC,
        "group": GROUP,
        "assignor": "consumer",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 60_000,
        "commit_every_ms": 200,
    }
    workers = [spawn(client, **options) for client in ("java", "confluent", "franz")]
    writer = harness.Writer(kohort.address, TOPIC, per_second=100)
    harness.wait_until_shared(workers)

    def become(old: BrokerProcess, new: BrokerProcess, present: list[harness.Worker], *, killed: bool = False) -> None:
        before = places(eventually(lambda: heard(old.address, present)))
        moved = [moves(worker) for worker in present]
        old.kill() if killed else old.stop()
        if isinstance(old, Kohort):
            new.settings |= g.graduated(old, "--to", OLDER if new is older else NEWEST)
        new.start()
        committed = [len(worker.seen("committed")) for worker in present]
        eventually(
            lambda: all(len(one.seen("committed")) > count + 3 for one, count in zip(present, committed, strict=True)),
            deadline_s=120,
            what="every member commits on",
        )
        assert places(eventually(lambda: described(new.address))) == before
        assert [moves(worker) for worker in present] == moved

    become(kohort, older, workers)
    late = spawn("confluent", **options)
    everybody = [*workers, late]
    harness.wait_until_shared(everybody)
    become(older, kohort, everybody, killed=True)
    late.leave()
    harness.wait_until_shared(workers)
    become(kohort, newest, workers)
    become(newest, kohort, workers)

    written = writer.stop()
    assert not writer.errors
    harness.wait_until_read(everybody, written)
    for worker in workers:
        worker.leave()
    harness.check_reads(everybody, written)
    kohort.close()
