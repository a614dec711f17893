"""A member goes, for good or, if it is static, for a while.

Source: KIP-848; Kafka's GroupMetadataManager.consumerGroupLeave, consumerGroupStaticMemberGroupLeave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.answers import heard, heartbeat_error
from coordinator.consumer.causes import cause_by
from coordinator.consumer.checks import no_such_group
from coordinator.consumer.draft import Draft
from coordinator.consumer.group import LEAVE_STATIC_EPOCH, NOTHING, ConsumerMember
from coordinator.consumer.members import named_member
from coordinator.consumer.records import current_record
from coordinator.consumer.removal import remove
from coordinator.events import MemberAway
from coordinator.outcome import Reply
from coordinator.values import altered

if TYPE_CHECKING:
    from coordinator.consumer.inputs import ConsumerHeartbeat
    from coordinator.view import AnyGroupOutcome, View


def leave_by_heartbeat(view: View, request: ConsumerHeartbeat, now_ms: int) -> AnyGroupOutcome:
    """Epoch -1 or -2. Raises: Refused."""
    group = view.consumer_group
    if group is None:
        raise no_such_group(request.group_id)
    member = named_member(group, request.member_id, request.instance_id)
    reply = Reply(request.reply_to, heard(request.member_id, request.epoch))
    if request.epoch != LEAVE_STATIC_EPOCH:
        return remove(view, [cause_by(now_ms, "member_left", member, {})], now_ms, reply=reply, refusal=heartbeat_error)
    draft = Draft(view, now_ms)
    go_for_a_while(draft, member)
    draft.event(MemberAway(member.member_id, member.instance_id, member.client_id))
    draft.replies.append(reply)
    return draft.outcome(request.reply_to, heartbeat_error)


def go_for_a_while(draft: Draft, member: ConsumerMember) -> None:
    """The member keeps what it has, for whoever comes with its instance id; what it was to give up is free.

    Its timers run on: it has what is left of its session to come back.
    """
    assigned = {topic_id: dict.fromkeys(held, 0) for topic_id, held in member.assigned.items()}
    away = altered(member, epoch=LEAVE_STATIC_EPOCH, assigned=assigned, pending=NOTHING)
    draft.write(current_record(draft.group_id, away))
