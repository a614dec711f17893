"""A static member that comes back without its member id: the instance keeps its place, under a new id.

Source: KIP-345, KIP-814; Kafka's GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import events
from coordinator.append_errors import error_for_client
from coordinator.classic.answers import join_error, joined, member_list, sync_error
from coordinator.classic.causes import cause_by
from coordinator.classic.draft import Draft
from coordinator.classic.group_record import group_record
from coordinator.classic.protocols import select_protocol, topics_of
from coordinator.classic.rebalance import rebalance_or_complete
from coordinator.classic.tokens import ReplacementToken
from coordinator.group import GroupState, Member
from coordinator.outcome import AppendFailed, Outcome, Reply
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.classic.inputs import Heartbeat, Join, Leaver, Sync
    from coordinator.view import GroupOutcome, View


def replace_static_member(draft: Draft, request: Join) -> None:
    """The group must rebalance only if it is about to, or if its selected protocol would change."""
    assert request.instance_id is not None
    old = draft.members[draft.static_members[request.instance_id]]
    leader_before = draft.leader_id
    _fence_parked(draft, old)
    new = altered(
        old,
        member_id=request.new_member_id,
        protocols=request.protocols,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(request.session_timeout_ms if request.version == 0 else request.rebalance_timeout_ms),
        parked_join=None,
        parked_sync=None,
        is_new=False,
        successor=old.acted_for_by(request.client_id, request.client_host),
    )
    draft.rename_member(old, new)
    draft.forget_session(old.member_id)
    draft.restart_session(new.member_id, old.session_timeout_ms)
    replaced = _replaced(old, new, request)
    draft.event(replaced)
    if draft.state is GroupState.STABLE and draft.protocol_name == select_protocol(draft.members, draft.protocol_votes):
        _keep_generation(draft, request, old, new, leader_before)
        return
    parked = altered(new, parked_join=request.reply_to, joined_at_ms=draft.now_ms)
    draft.update_member(new, parked)
    detail = events.facts_of(replaced)
    rebalance_or_complete(draft, cause_by(draft.now_ms, "static_replaced", parked, request.reason, detail))


def replacement_refused(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The new id was not written down, so the old one holds again.

    Unless a third process has taken the instance over and its record was written. Of one refused batch the outcomes
    are taken back from the last to the first, so that several replacements in it end at the id before them all.
    """
    token = failure.token
    assert isinstance(token, ReplacementToken)
    group, old = view.group, token.old
    error = join_error(error_for_client(failure.error))
    if group is None:
        return Outcome(None, replies=(Reply(token.reply_to, error),))
    error.generation_id = group.generation
    error.protocol_type = group.protocol_type
    error.protocol_name = group.protocol_name
    error.leader = token.leader_before or ""
    draft = Draft(view, group, now_ms)
    draft.reply(token.reply_to, error)
    draft.event(events.AppendFailed(failure.error.name, "replacement of a static member"))
    if group.static_members.get(old.instance_id or "") == token.new_member_id:
        new = group.members[token.new_member_id]
        draft.rename_member(
            new,
            altered(
                new,
                member_id=old.member_id,
                protocols=old.protocols,
                session_timeout_ms=old.session_timeout_ms,
                rebalance_timeout_ms=old.rebalance_timeout_ms,
                successor=old.successor,
            ),
        )
        if draft.state is GroupState.STABLE:
            draft.subscribed_topics = topics_of(draft.protocol_type, draft.protocol_name, draft.members)
        draft.forget_session(new.member_id)
        draft.restart_session(old.member_id, old.session_timeout_ms)
    return draft.outcome()


def fenced(
    draft: Draft,
    api: str,
    request: Join | Sync | Heartbeat | Leaver,
    *,
    client_id: str | None = None,
    client_host: str | None = None,
) -> None:
    """Say that a request was refused because another process holds the instance id.

    `client_id` and `client_host`: of a `Leaver`, which does not say them itself.
    """
    holder_id = draft.static_members.get(request.instance_id or "")
    holder = draft.members.get(holder_id or "")
    draft.event(
        events.MemberFenced(
            api,
            request.instance_id,
            request.member_id,
            getattr(request, "client_id", client_id),
            getattr(request, "client_host", client_host),
            holder_id,
            *(holder.acting if holder is not None else (None, None)),
        )
    )


def _fence_parked(draft: Draft, old: Member) -> None:
    """Two processes with one instance id: the older of them must stop."""
    if old.parked_join is not None:
        draft.reply(old.parked_join, join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    if old.parked_sync is not None:
        draft.reply(old.parked_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID))


def _keep_generation(draft: Draft, request: Join, old: Member, new: Member, leader_before: str | None) -> None:
    """No rebalance: the new id and what it says about itself are written down, then it is answered."""
    # What a restart would make of the record, which holds the new metadata.
    draft.subscribed_topics = topics_of(draft.protocol_type, draft.protocol_name, draft.members)
    draft.records.append(group_record(draft))
    draft.token = ReplacementToken(draft.group_id, old, new.member_id, leader_before, request.reply_to)
    if request.version >= 9:
        leads = draft.leader_id == new.member_id
        everybody = member_list(draft.members.values(), draft.protocol_name) if leads else []
        answer = joined(draft, new.member_id, draft.leader_id, everybody, skip_assignment=leads)
    else:
        # A leader cannot be told to skip the assignment, so it is shown its own old id and takes itself for a
        # follower.
        answer = joined(draft, new.member_id, leader_before, [])
    draft.reply(request.reply_to, answer)


def _replaced(old: Member, new: Member, request: Join) -> events.MemberReplaced:
    return events.MemberReplaced(
        old.instance_id,
        old.member_id,
        new.member_id,
        *old.acting,
        request.client_id,
        request.client_host,
        request.reason,
        request.away_ms,
    )
