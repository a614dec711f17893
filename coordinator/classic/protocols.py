"""Which protocol a generation speaks, and which topics it reads.

Source: Kafka's ClassicGroup.selectProtocol and computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.group import Member
from protocol.records.consumer_protocol import MetadataError, subscribed_topics

CONSUMER = "consumer"


def add_votes(votes: dict[str, int], member: Member, by: int) -> None:
    """Count a member in (`by` 1) or out (-1) of the protocols that it supports."""
    # A name that a member lists twice is one protocol.
    for name in {name: None for name, _ in member.protocols}:
        count = votes.get(name, 0) + by
        if count:
            votes[name] = count
        else:
            votes.pop(name, None)


def select_protocol(members: Mapping[str, Member], votes: Mapping[str, int]) -> str | None:
    """The protocol that all support and most prefer; of equals the one that the oldest member's votes reached first.

    None when no protocol is common to all, which the check of newcomers prevents.
    """
    everybody = len(members)
    common = {name for name, count in votes.items() if count == everybody}
    ballots: dict[str, int] = {}
    for member in members.values():
        for name, _ in member.protocols:
            if name in common:
                ballots[name] = ballots.get(name, 0) + 1
                break
    return max(ballots, key=ballots.__getitem__) if ballots else None


def topics_of(
    protocol_type: str | None, protocol_name: str | None, members: Mapping[str, Member]
) -> frozenset[str] | None:
    """Every topic that a member of a `consumer` group names; None when that cannot be known."""
    if protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for metadata in {member.metadata(protocol_name) for member in members.values()}:
        try:
            topics.update(subscribed_topics(metadata))
        except MetadataError:
            return None
    return frozenset(topics)
