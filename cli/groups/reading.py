"""Groups as the cluster tells them: plain values, which the commands print and tests compare."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from cli.cluster import said, unknown
from cli.errors import Failed, UsageError
from cli.wire import text_of
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import ConsumerGroupDescription

    from cli.cluster import Cluster

# Kafka's names for the library's. Those that it does not know (Assigning, Reconciling) are UNKNOWN to it.
_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}

Tp = tuple[str, int]
"""A topic partition: topic and number."""


@dataclass(slots=True)
class Member:
    """One member; `partitions` as assigned."""

    consumer_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Tp]
    target: list[Tp] | None = None
    epoch: int | None = None  # of a consumer group (KIP-848), as the next
    upgraded: bool | None = None  # it speaks the new protocol


@dataclass(slots=True)
class Group:
    """One group. `offsets`: (committed offset, leader epoch of it or None) by partition."""

    group_id: str
    state: str
    type: str
    assignor: str
    coordinator_id: int
    coordinator: str  # host:port
    members: list[Member]
    offsets: dict[Tp, tuple[int, int | None]] = field(default_factory=dict)
    epoch: int | None = None
    target_epoch: int | None = None

    @property
    def exists(self) -> bool:
        """A group that was never there is described as Dead."""
        return self.state != "Dead"


def state_name(state: object) -> str:
    """Kafka's name of a group's state."""
    name = getattr(state, "name", "UNKNOWN")
    return _STATES.get(name, name.title())


def wanted_groups(cluster: Cluster, options: argparse.Namespace) -> list[str]:
    """The groups that the options name, each once. Raises: UsageError when it is none."""
    names = list(dict.fromkeys([*options.groups, *options.group]))
    if options.all_groups:
        if names:
            raise UsageError("--all-groups and a group's name exclude each other")
        return all_groups(cluster)
    if not names:
        raise UsageError("name a GROUP, or --all-groups")
    return names


def all_groups(cluster: Cluster) -> list[str]:
    """The ids of all groups, sorted. The library cuts an id at a zero byte, so that two may seem to be one."""
    listed = cluster.result(cluster.admin.list_consumer_groups(request_timeout=cluster.timeout_s))
    return sorted({one.group_id for one in listed.valid or ()})


def read_groups(cluster: Cluster, names: Sequence[str]) -> tuple[list[Group], dict[str, KafkaError]]:
    """The groups by name, without offsets, in the order asked for; and the errors of the others."""
    if not names:
        return [], {}
    named = [name for name in names if name]
    errors: dict[str, KafkaError] = {}
    groups: dict[str, Group] = {}
    if named:
        described, errors = cluster.results(
            cluster.admin.describe_consumer_groups(named, request_timeout=cluster.timeout_s)
        )
        groups = {name: _group(one) for name, one in described.items()}
    if len(named) < len(names):
        groups[""] = _without_a_name(cluster)
    return [groups[name] for name in names if name in groups], errors


def _without_a_name(cluster: Cluster) -> Group:
    """The group whose id is empty. ConsumerGroupDescribe refuses that id, so it is what the list of groups says of it.

    It has no members: only old clients commit under it, and nobody can join it.
    """
    listed = cluster.result(cluster.admin.list_consumer_groups(request_timeout=cluster.timeout_s)).valid or ()
    found = next((one for one in listed if not one.group_id), None)
    return Group("", "Dead" if found is None else state_name(found.state), "Classic", "", -1, "", [])


def existing_groups(cluster: Cluster, names: Sequence[str]) -> list[Group]:
    """The groups by name. Raises: Failed for one that is not there, or cannot be described."""
    if names and not cluster.ever_had_groups:
        raise never_seen(cluster, names[0])
    groups, errors = read_groups(cluster, names)
    for name, error in errors.items():
        if error.code() == ErrorCode.GROUP_ID_NOT_FOUND:
            raise unknown("group", name, all_groups(cluster))
        raise Failed(f"group {name!r}: {said(error)}")
    for group in groups:
        if not group.exists and not read_offsets(cluster, group.group_id):
            raise unknown("group", group.group_id, all_groups(cluster))
    return groups


def never_seen(cluster: Cluster, name: str) -> Failed:
    """Where no group was ever seen: there is none, or it may not be. DescribeGroups tells that, and makes nothing."""
    with suppress(UsageError):  # a log-in that our own connection does not know
        (group,) = cluster.ask(DescribeGroupsRequest(groups=[name]), 0).groups
        if group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return Failed(f"group {name!r}: {text_of(group.error_code)}")
    return unknown("group", name, ())


def _group(one: ConsumerGroupDescription) -> Group:
    members = [
        Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.host,
            _partitions_of(member.assignment.topic_partitions),
            None if member.target_assignment is None else _partitions_of(member.target_assignment.topic_partitions),
        )
        for member in one.members
    ]
    node = one.coordinator
    return Group(
        one.group_id,
        state_name(one.state),
        one.type.name.title(),
        one.partition_assignor,
        node.id if node else -1,
        f"{node.host}:{node.port}" if node else "",
        members,
    )


def _partitions_of(partitions: Iterable[TopicPartition]) -> list[Tp]:
    return sorted((one.topic, one.partition) for one in partitions)


def read_offsets(cluster: Cluster, group_id: str) -> dict[Tp, tuple[int, int | None]]:
    """What a group has committed: (offset, leader epoch) by partition, sorted. Raises: Failed."""
    if not group_id:
        raise Failed("the client library cannot ask for the offsets of the group whose id is empty")
    requested = [ConsumerGroupTopicPartitions(group_id)]
    future = cluster.admin.list_consumer_group_offsets(requested, request_timeout=cluster.timeout_s)[group_id]
    found = cluster.result(future).topic_partitions or []
    return {
        (one.topic, one.partition): (one.offset, one.leader_epoch)
        for one in sorted(found, key=lambda one: (one.topic, one.partition))
        if one.offset >= 0 and one.error is None
    }


def end_offsets(cluster: Cluster, tps: Iterable[Tp]) -> dict[Tp, int]:
    """The log end offsets; partitions that are no longer there are left out."""
    return offsets_at(cluster, dict.fromkeys(tps, OffsetSpec.latest()))


def start_offsets(cluster: Cluster, tps: Iterable[Tp]) -> dict[Tp, int]:
    """The offsets of the first records kept; partitions that are no longer there are left out."""
    return offsets_at(cluster, dict.fromkeys(tps, OffsetSpec.earliest()))


def offsets_at(cluster: Cluster, wanted: dict[Tp, Any]) -> dict[Tp, int]:
    """The offset of each partition by its `OffsetSpec`; -1 where no record is so late; without the unknown."""
    if not wanted:
        return {}
    requested = {TopicPartition(*tp): spec for tp, spec in wanted.items()}
    futures = cluster.admin.list_offsets(
        requested, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=cluster.timeout_s
    )
    done, _ = cluster.results(futures)
    return {(one.topic, one.partition): found.offset for one, found in done.items()}
