"""Members go: their records, their timers, and one rise of the group epoch for all of them.

The target is not computed here but by the next heartbeat of anybody who is left. When only members of the classic
protocol are left, the group becomes a classic one instead.

Source: KIP-848; Kafka's GroupMetadataManager.consumerGroupFenceMembers, removeMember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.consumer.downgrade import downgrade, may_downgrade
from coordinator.consumer.draft import Draft, group_event
from coordinator.consumer.epochs import empty_epoch, update_epoch
from coordinator.consumer.records import member_tombstones
from coordinator.consumer.regexes import drop_unused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordinator.events import GroupEvent
    from coordinator.outcome import Reply
    from coordinator.view import AnyGroupOutcome, View
    from protocol.errors import ErrorCode

KINDS = {"member_left": "member_left", "session_expired": "session_expired"}


def remove(
    view: View,
    member_ids: Sequence[str],
    cause: str,
    now_ms: int,
    *,
    reply: Reply | None = None,
    refusal: Callable[[ErrorCode], Any] | None = None,
    reasons: Mapping[str, str | None] | None = None,
) -> AnyGroupOutcome:
    """Take the members out. `cause`: `member_left`, `session_expired`, `rebalance_timeout`, `join_timeout`, ..."""
    group = view.consumer_group
    assert group is not None
    reply_to = reply.to if reply is not None else None
    told: list[GroupEvent] = []
    for member_id in member_ids:
        member = group.members[member_id]
        facts = {
            "member_id": member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "trigger": cause,
            "reason": (reasons or {}).get(member_id),
        }
        told.append(group_event(KINDS.get(cause, "member_fenced"), group, facts, now_ms))
    if may_downgrade(view, group, member_ids):
        outcome = downgrade(view, member_ids, cause, now_ms, reply_to=reply_to, refusal=refusal)
    else:
        draft = Draft(view, now_ms)
        for member_id in member_ids:
            draft.write_all(member_tombstones(draft.group_id, member_id))
            draft.forget_member(member_id)
        drop_unused(draft)
        update_epoch(draft, cause)
        empty_epoch(draft)
        outcome = draft.outcome(reply_to, refusal)
    if reply is not None:
        outcome.replies = (*outcome.replies, reply)
    outcome.events = (*outcome.events, *told)
    return outcome
