"""Members go: their records, their timers, and one rise of the group epoch for all of them.

The target is not computed here but by the next heartbeat of anybody who is left. When only members of the classic
protocol are left, the group becomes a classic one instead.

Source: KIP-848; Kafka's GroupMetadataManager.consumerGroupFenceMembers, removeMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.consumer.causes import how_it_went
from coordinator.consumer.downgrade import downgrade, may_downgrade
from coordinator.consumer.draft import Draft, group_event
from coordinator.consumer.epochs import empty_epoch, update_epoch
from coordinator.consumer.records import member_tombstones
from coordinator.consumer.regexes import drop_unused
from coordinator.events import MemberExpelled, MemberLeft, SessionExpired

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator.cause import Cause
    from coordinator.outcome import Reply
    from coordinator.view import AnyGroupOutcome, View
    from protocol.errors import ErrorCode

_KINDS = {"member_left": MemberLeft, "session_expired": SessionExpired}


def remove(
    view: View,
    causes: Sequence[Cause],
    now_ms: int,
    *,
    reply: Reply | None = None,
    refusal: Callable[[ErrorCode], Any] | None = None,
) -> AnyGroupOutcome:
    """Take the members out that the causes name, each of them once."""
    group = view.consumer_group
    assert group is not None
    reply_to = reply.to if reply is not None else None
    departed = [(group.members[cause.member_id or ""], how_it_went(cause.trigger)) for cause in causes]
    member_ids = [member.member_id for member, _ in departed]
    told = [group_event(_KINDS.get(cause.trigger, MemberExpelled)(cause), group, now_ms) for cause in causes]
    if may_downgrade(view, group, member_ids):
        outcome = downgrade(view, member_ids, causes[0], now_ms, reply_to=reply_to, refusal=refusal)
    else:
        draft = Draft(view, now_ms)
        draft.departed = departed
        for member_id in member_ids:
            draft.write_all(member_tombstones(draft.group_id, member_id))
            draft.forget_member(member_id)
        drop_unused(draft)
        update_epoch(draft, causes)
        empty_epoch(draft)
        outcome = draft.outcome(reply_to, refusal)
    if reply is not None:
        outcome.replies = (*outcome.replies, reply)
    outcome.events = (*told, *outcome.events)
    return outcome
