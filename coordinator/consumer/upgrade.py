"""A name that a classic group has, and a member of the new protocol that comes: the group changes its protocol.

An Empty one just ends. One with members goes on with all of them, where they are: at the generation as their epoch,
with the partitions that their leader gave them last.

Source: KIP-848; Kafka's GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup,
ConsumerGroup.fromClassicGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.draft import Draft as ClassicDraft
from coordinator.classic.protocols import CONSUMER, select_protocol
from coordinator.classic.rebalance_tracking import ended
from coordinator.consumer.answers import Refused
from coordinator.consumer.group import STABLE, ClassicProtocol, ConsumerMember, plain
from coordinator.consumer.metadata_hash import metadata_hash
from coordinator.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from coordinator.events import GroupEvent, GroupMigrated
from coordinator.group import GroupState
from coordinator.outcome import CancelTimer
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.records.consumer_protocol import MetadataError, assigned_partitions, has_user_data, subscription
from protocol.records.group_records import GroupMetadataKey

if TYPE_CHECKING:
    from coordinator.consumer.draft import Draft
    from coordinator.group import Group, Member

UPGRADES = frozenset({"bidirectional", "upgrade"})


def make_way(draft: Draft) -> None:
    """The classic group of this name ends, and this one begins with what it had. Raises: Refused."""
    classic = draft.view.group
    if classic is None:
        return
    if classic.state is not GroupState.EMPTY:
        _take_over(draft, classic)
        draft.migrated_from = "classic"
        return
    draft.write_foreign((GroupMetadataKey(draft.group_id), None))


def _take_over(draft: Draft, classic: Group) -> None:
    members = _members(draft, classic)
    group_id, epoch, topics = draft.group_id, classic.generation, draft.view.topics
    draft.write_foreign((GroupMetadataKey(group_id), None))
    for member in members:
        draft.write(member_record(group_id, member))
    rack = draft.view.consumer_settings.rack
    draft.write(epoch_record(group_id, epoch, metadata_hash(draft.group.subscribed_topics, topics, rack)))
    draft.soft["hashed_topics"] = topics
    for member in members:
        draft.write(target_record(group_id, member.member_id, plain(member.assigned)))
    # Of no known time: whoever joins now is dealt in at once.
    draft.write(target_epoch_record(group_id, epoch, 0))
    for member in members:
        draft.write(current_record(group_id, member))
        draft.restart_session(member)
    for name in ("join", "sync"):
        draft.timers.append(CancelTimer((name, group_id)))
    for member_id in classic.pending_members:
        draft.cancel_timer("heartbeat", member_id)
    answer_parked(draft, classic)
    _cut_off(draft, classic)
    now = draft.group
    draft.origin = altered(now, members=dict(now.members))
    draft.event(GroupMigrated("consumer", len(members)))


def _cut_off(draft: Draft, classic: Group) -> None:
    """The end of the rebalance that goes on: the epoch that the newcomer brings takes its place."""
    if classic.rebalance is not None:
        cut = ClassicDraft(draft.view, classic, draft.now_ms)
        ended(cut, "superseded", by=f"{classic.generation}@{draft.now_ms}")
        draft.events += [event for event in cut.outcome().events if isinstance(event, GroupEvent)]


def answer_parked(draft: Draft, classic: Group) -> None:
    """Whoever waits in the classic group must ask again."""
    for member in classic.members.values():
        if member.parked_join is not None:
            draft.reply(member.parked_join, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        if member.parked_sync is not None:
            draft.reply(member.parked_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))


def _members(draft: Draft, classic: Group) -> list[ConsumerMember]:
    settings = draft.view.consumer_settings
    if settings.migration_policy not in UPGRADES:
        raise _cannot(draft, f"group.consumer.migration.policy is {settings.migration_policy}")
    if classic.protocol_type != CONSUMER:
        raise _cannot(draft, f"its protocol type is {classic.protocol_type!r}")
    if len(classic.members) > settings.max_size:
        raise _cannot(draft, f"it has {len(classic.members)} members, and may have {settings.max_size}")
    # In its first join phase a group has selected nothing yet.
    protocol = classic.protocol_name or select_protocol(classic.members, classic.protocol_votes)
    try:
        return [_member(draft, member, protocol, classic.generation) for member in classic.members.values()]
    except MetadataError as error:
        raise _cannot(draft, f"a subscription or an assignment of it cannot be read: {error}") from error


def _member(draft: Draft, member: Member, protocol: str | None, epoch: int) -> ConsumerMember:
    said = subscription(member.metadata(protocol))
    if has_user_data(member.assignment):
        raise _cannot(draft, "its assignor is one of the clients' own, and would lose what it wrote")
    assigned: dict[bytes, dict[int, int]] = {}
    for name, partition in sorted(assigned_partitions(member.assignment)):
        topic_id = draft.view.topics.topic_id(name)
        if topic_id is not None:
            assigned.setdefault(topic_id, {})[partition] = epoch
    return ConsumerMember(
        member.member_id,
        epoch,
        epoch,
        STABLE,
        member.instance_id,
        said.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        tuple(sorted(set(said.topics))),
        assigned=assigned,
        classic=ClassicProtocol(member.session_timeout_ms, member.protocols),
    )


def _cannot(draft: Draft, why: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id!r} is a classic group, and cannot be upgraded: {why}."
    )
