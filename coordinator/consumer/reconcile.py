"""One member on its way from what it owns to what it shall own.

A member first gives up what is not its own any more, at the epoch that it has; then it goes to the epoch of the target,
and takes what is free. Nobody is told of a partition that becomes free: its next owner finds it at its own heartbeat.

Source: KIP-848, KIP-1251; Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator.consumer.group import NOTHING, STABLE, UNRELEASED, UNREVOKED, ConsumerMember, EpochPartitions
from coordinator.values import altered

if TYPE_CHECKING:
    from collections.abc import Collection

    from coordinator.consumer.assignor import Partitions

Owned = Mapping[bytes, frozenset[int]]
"""What a member says it owns: topic id -> partitions."""


class UnknownState(Exception):
    """The member is in a state of a later version, and has not given everything up: it must begin anew."""


class Surroundings(NamedTuple):
    """What a member's way depends on besides itself."""

    target_epoch: int
    target: Partitions
    owner_of: Callable[[tuple[bytes, int]], str | None]  # (topic id, partition) -> member id
    subscribed: Collection[bytes]  # ids of the topics that the member subscribes to and that exist
    changed: bool  # the request changed what it subscribes to
    owned: Owned | None  # None: the request does not say


def reconcile(member: ConsumerMember, at: Surroundings) -> ConsumerMember:
    """The member, one step further; the same value when there is nothing to do. Raises: UnknownState."""
    if member.state == STABLE:
        if member.epoch != at.target_epoch:
            return _compute(member, at)
        return _trim(member, at) if at.changed else member
    if member.state == UNREVOKED:
        if _still_owns(at.owned, member.pending):
            return _trim(member, at) if at.changed else member
        return _compute(member, at)
    if member.state != UNRELEASED and (at.owned is None or any(at.owned.values())):
        raise UnknownState
    return _compute(member, at)


def _still_owns(owned: Owned | None, partitions: EpochPartitions) -> bool:
    """Whether the member may still read one of them. Who does not say what it owns may own everything."""
    if owned is None:
        return True
    return any(not owned[topic_id].isdisjoint(held) for topic_id, held in partitions.items() if topic_id in owned)


def _compute(member: ConsumerMember, at: Surroundings) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, list[int]] = {}
    waiting = False
    assigned, target, subscribed, me = member.assigned, at.target, at.subscribed, member.member_id
    for topic_id in {**assigned, **target}:
        wanted = target.get(topic_id, ()) if topic_id in subscribed else ()
        held = assigned.get(topic_id, NOTHING)
        keep = {partition: held[partition] for partition in wanted if partition in held}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(held):
            revoked[topic_id] = {partition: epoch for partition, epoch in held.items() if partition not in keep}
        for partition in wanted:
            if partition in keep:
                continue
            owner = at.owner_of((topic_id, partition))
            # What it has not given up yet itself is its own again at once.
            if owner is None or owner == me:
                added.setdefault(topic_id, []).append(partition)
            else:
                waiting = True
    if revoked and _still_owns(at.owned, revoked):
        return altered(member, previous_epoch=member.epoch, state=UNREVOKED, assigned=kept, pending=revoked)
    for topic_id, partitions in added.items():
        now = kept.setdefault(topic_id, {})
        for partition in partitions:
            now[partition] = at.target_epoch
    return altered(
        member,
        epoch=at.target_epoch,
        previous_epoch=member.epoch,
        state=UNRELEASED if waiting else STABLE,
        assigned=kept,
        pending=NOTHING,
    )


def _trim(member: ConsumerMember, at: Surroundings) -> ConsumerMember:
    """Take away what it does not subscribe to any more. The target has not moved yet, and so its epoch stays."""
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in at.subscribed}
    if len(kept) == len(member.assigned):
        return member
    pending = {topic_id: dict(held) for topic_id, held in member.pending.items()}
    for topic_id, held in member.assigned.items():
        if topic_id not in kept:
            pending.setdefault(topic_id, {}).update(held)
    if _still_owns(at.owned, pending):
        return altered(member, previous_epoch=member.epoch, state=UNREVOKED, assigned=kept, pending=pending)
    return altered(member, previous_epoch=member.epoch, assigned=kept, pending=NOTHING)
