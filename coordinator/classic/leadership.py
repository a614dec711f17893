"""The coordinator takes a group over, gives it up, or cannot serve it.

Source: Kafka's GroupMetadataManager.onLoaded and onUnloaded, GroupCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cause import Cause
from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.causes import ids_of
from coordinator.classic.checks import check_group_id, check_session_timeout, check_sync_shape
from coordinator.classic.draft import Draft
from coordinator.classic.inputs import Heartbeat, Join, Leave, Sync
from coordinator.classic.leave import refused
from coordinator.classic.rebalance import prepare
from coordinator.events import CoordinatorLoaded
from coordinator.group import Group, GroupState
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse

if TYPE_CHECKING:
    from coordinator.classic.inputs import GroupLoaded, Unload
    from coordinator.view import GroupOutcome, GroupSettings, View


def loaded(view: View, event: GroupLoaded, now_ms: int) -> GroupOutcome:
    """Every member has a whole session to show up. A group larger than is allowed now must rebalance."""
    group = view.group
    if group is None or not group.members:
        return Outcome(group)
    draft = Draft(view, group, now_ms)
    for member in group.members.values():
        draft.restart_session(member.member_id, member.session_timeout_ms)
    draft.members_at_last_generation = len(group.members)
    draft.loaded_at_ms = now_ms
    # No record says how many partitions there were when these members were assigned theirs. Only this broker adds
    # any, so they are as many as now, unless it ended in the moment between.
    count_of = view.topics.partition_count
    draft.assigned_partition_counts = {topic: count_of(topic) or 0 for topic in group.subscribed_topics or ()}
    draft.assigned_topic_ids = ids_of(view.topics, group.subscribed_topics)
    draft.event(CoordinatorLoaded(len(group.members), event.load_ms, event.unclean))
    limit = view.settings.max_size
    if len(group.members) > limit and group.state is not GroupState.PREPARING_REBALANCE:
        size = {"size": len(group.members), "limit": limit}
        prepare(draft, Cause(now_ms, "over_capacity", detail=size))
    return draft.outcome()


def unload(view: View, event: Unload, now_ms: int) -> GroupOutcome:
    """Dead is final: whoever waits is told to look for the coordinator, and no timer fires any more."""
    group = view.group
    if group is None:
        return Outcome(None)
    draft = Draft(view, group, now_ms)
    for member in group.members.values():
        if member.parked_join is not None:
            draft.reply(member.parked_join, join_error(ErrorCode.NOT_COORDINATOR))
        if member.parked_sync is not None:
            draft.reply(member.parked_sync, sync_error(ErrorCode.NOT_COORDINATOR))
        draft.forget_session(member.member_id)
    for member_id in group.pending_members:
        draft.forget_session(member_id)
    draft.cancel_timer("join")
    draft.cancel_timer("sync")
    dead = Group(
        group.group_id,
        GroupState.DEAD,
        group.state,
        now_ms,
        protocol_type=group.protocol_type,
        generation=group.generation,
    )
    return Outcome(dead, replies=tuple(draft.replies), timers=tuple(draft.timers))


def unserved(request: Join | Sync | Heartbeat | Leave, error: ErrorCode, settings: GroupSettings) -> Reply:
    """The answer when no shard can take the request.

    `error`: NOT_COORDINATOR when the partition is not here, COORDINATOR_LOAD_IN_PROGRESS while it is being loaded. What
    is wrong with the request itself comes first.
    """
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    malformed = check_group_id(request.group_id)
    if isinstance(request, Join):
        malformed = malformed or check_session_timeout(request.session_timeout_ms, settings)
        answer = join_error(malformed, request.member_id) if malformed else join_error(error)
        return Reply(request.reply_to, answer)
    if isinstance(request, Sync):
        malformed = check_sync_shape(request.version, request.protocol_type, request.protocol_name) or malformed
        # The Java client takes "loading" in a SyncGroup for fatal, and only joins again after this.
        return Reply(
            request.reply_to,
            sync_error(malformed or (ErrorCode.REBALANCE_IN_PROGRESS if loading else error)),
        )
    if isinstance(request, Heartbeat):
        # Nobody is expelled by a coordinator that is still reading: sessions begin anew when it has done so.
        answer_code = malformed or (ErrorCode.NONE if loading else error)
        return Reply(request.reply_to, HeartbeatResponse(error_code=answer_code))
    return Reply(request.reply_to, refused(malformed or error))
