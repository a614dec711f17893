"""A log directory that is lost while two brokers run: what they tell members of a group whose partition lay there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.routing import partition_for
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.reference import graduation as g
from tests.support.broker_process import Kafka, eventually, free_port, need
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess


@pytest.fixture
def tidy() -> Iterator[Callable[[Any], Any]]:
    need("java", "mvn")
    yield from g.ending([])


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=1_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def commit(group: str, generation: int, member_id: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
            )
        ],
    )


def member_of(address: str, group: str) -> str | None:
    """The one member of a group in its first generation; None while the coordinator is loading."""
    with Wire(address) as wire:
        joined = wire.call(join(group), 2)
        if joined.error_code:
            return None
        plan = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
        synced = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=plan
        )
        assert wire.call(synced, 1).error_code == 0
    return str(joined.member_id)


def coordinator(address: str, group: str) -> int:
    with Wire(address) as wire:
        [found] = wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
        return int(found.error_code)


def told(address: str, group: str, member: str) -> dict[str, Any]:
    """The error codes of all that may be asked of a group, by its member and by anybody."""
    with Wire(address) as wire:
        [described] = wire.call(DescribeGroupsRequest(groups=[group]), 5).groups
        [fetched] = wire.call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8
        ).groups
        [deleted] = wire.call(DeleteGroupsRequest(groups_names=[group]), 2).results
        consumer = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        listed = wire.call(ListGroupsRequest(), 5)
        topics = [MetadataRequestTopic(name="__consumer_offsets")]
        metadata = wire.call(MetadataRequest(topics=topics), 9).topics[0]
        [lies] = [one for one in metadata.partitions if one.partition_index == partition_for(group, 50)]
        return {
            "heartbeat": wire.call(HeartbeatRequest(group_id=group, generation_id=1, member_id=member), 3).error_code,
            "known joins": wire.call(join(group, member), 5).error_code,
            "new joins": wire.call(join(group), 5).error_code,
            "syncs": wire.call(SyncGroupRequest(group_id=group, generation_id=1, member_id=member), 3).error_code,
            "commits": [
                [one.error_code for one in wire.call(request, 8).topics[0].partitions]
                for request in (commit(group, 1, member), commit(group, -1, ""))
            ],
            "leaves": wire.call(
                LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)]), 4
            ).error_code,
            "consumer": wire.call(consumer, 1).error_code,
            "fetched": (fetched.error_code, fetched.topics),
            "described": described.error_code,
            "deleted": deleted.error_code,
            "listed": (listed.error_code, group in {one.group_id for one in listed.groups}),
            "metadata": (metadata.error_code, lies.error_code, lies.leader_id, lies.offline_replicas),
            "coordinator": coordinator(address, group),
        }


def group_in(path: Path) -> str | None:
    """A group whose partition of the offsets lies in this directory."""
    names = [f"group{number}" for number in range(60)]
    return next((name for name in names if (path / f"__consumer_offsets-{partition_for(name, 50)}").exists()), None)


def lose(broker: BrokerProcess, path: Path) -> dict[str, Any]:
    """Have one of its directories lost, and ask for a group there."""
    broker.start()
    g.create(broker.address, "orders", 1)
    eventually(lambda: coordinator(broker.address, "group0") == 0, deadline_s=60)
    lost = eventually(lambda: group_in(path), deadline_s=60)
    member = eventually(lambda: member_of(broker.address, lost), deadline_s=60)
    path.rename(path.with_name("unplugged"))
    path.touch()
    eventually(lambda: coordinator(broker.address, lost) != 0, deadline_s=60)
    # Kafka's coordinator is told a moment after its controller.
    eventually(lambda: told(broker.address, lost, member)["heartbeat"] == 16, deadline_s=60)
    found = told(broker.address, lost, member)
    broker.stop()
    return found


@pytest.mark.slow
def test_a_group_whose_directory_is_lost_is_answered_as_by_kafka(tmp_path: Path, tidy: Any) -> None:
    """Nothing is served of it, what needs no record neither."""
    both = {}
    for name in ("kohort", "kafka"):
        places = tmp_path / name / "one", tmp_path / name / "two"
        log_dirs = ",".join(map(str, places))
        if name == "kohort":
            broker = g.kohort_on(tmp_path / name, free_port())
            broker.settings["log.dirs"] = log_dirs
        else:
            # It notices at its next checkpoint that a folder is gone, whose files it still has open.
            settings = {"log.dirs": log_dirs, "log.flush.offset.checkpoint.interval.ms": 500}
            broker = Kafka(
                tmp_path / name,
                {**settings, "group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 50},
                port=free_port(),
                environment={"KAFKA_VERSION": "4.4.0", **g.HEAP},
            )
        both[name] = lose(tidy(broker), places[1])
    assert both["kohort"] == both["kafka"]
    assert both["kohort"]["heartbeat"] == 16
    assert both["kohort"]["coordinator"] == 15
