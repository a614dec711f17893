"""Who owns which partitions, and what moved from one generation to the next: what the ledger says about a rebalance.

Pure functions over members. For a group that is not of consumers, or whose bytes cannot be read, there is no answer:
None, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator.classic.protocols import CONSUMER
from protocol.records.consumer_protocol import MetadataError, assigned_partitions, subscribed_topics

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerMember
    from coordinator.group import Group, Member

TopicPartition = tuple[str, int]
NOTHING: frozenset[TopicPartition] = frozenset()


class Holding(NamedTuple):
    """What one member owns."""

    instance_id: str | None
    partitions: frozenset[TopicPartition]


Holdings = Mapping[str, Holding]
"""By member id."""


Move = tuple[str, int, str | None, str | None]


def holdings(group: Group) -> Holdings | None:
    """What every member owns by its assignment; None for a group whose assignments are not to be read."""
    if group.protocol_type != CONSUMER and group.members:
        return None
    try:
        return {
            member_id: Holding(member.instance_id, assigned_partitions(member.assignment))
            for member_id, member in group.members.items()
        }
    except MetadataError:
        return None


def predecessor(
    member: Member | ConsumerMember, before: Holdings, now: Iterable[str], departed: Iterable[str]
) -> str | None:
    """The id under which the member was there before: its own, or its instance's older one."""
    if member.member_id in before:
        return member.member_id
    if member.instance_id is not None:
        for member_id, holding in before.items():
            if holding.instance_id == member.instance_id and member_id not in now and member_id not in departed:
                return member_id
    return None


def moves(before: Holdings, after: Holdings, successors: Mapping[str, str]) -> list[Move]:
    """Partitions that changed hands. `successors`: new id of each static member that came back under one."""
    had = {partition: member_id for member_id, holding in before.items() for partition in holding.partitions}
    has = {partition: member_id for member_id, holding in after.items() for partition in holding.partitions}
    return [
        (*partition, had.get(partition), has.get(partition))
        for partition in sorted(had.keys() | has.keys())
        if successors.get(had.get(partition, ""), had.get(partition)) != has.get(partition)
    ]


def imbalance(group: Group, after: Holdings) -> int | None:
    """Most minus least partitions per member, of members that subscribe to the same topics."""
    counts: dict[frozenset[str], list[int]] = {}
    topics: dict[bytes, frozenset[str]] = {}
    for member_id, member in group.members.items():
        metadata = member.metadata(group.protocol_name)
        known = topics.get(metadata)
        if known is None:
            try:
                known = topics[metadata] = frozenset(subscribed_topics(metadata))
            except MetadataError:
                return None
        counts.setdefault(known, []).append(len(after[member_id].partitions))
    return max((max(each) - min(each) for each in counts.values()), default=0)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Rising partition numbers, by topic in order."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
