"""Why the epoch of a consumer group is bumped, in the ledger's vocabulary.

Source: docs/rebalance-ledger.md; KIP-848.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.cause import REASON_MAX_CHARS, Cause
from coordinator.classic.client_reasons import is_poll_timeout, is_removal
from coordinator.events import MemberReplaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordinator.classic.inputs import Join, Leave, Leaver
    from coordinator.consumer.group import ConsumerMember
    from coordinator.consumer.inputs import ConsumerHeartbeat
    from coordinator.view import Topics

TOPICS_TOLD_MAX = 20


def cause_by(
    now_ms: int, trigger: str, member: ConsumerMember, detail: Mapping[str, Any], reason: str | None = None
) -> Cause:
    """A cause that one member is."""
    return Cause(
        now_ms,
        trigger,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        reason[:REASON_MAX_CHARS] if reason else None,
        detail,
    )


def joined_cause(now_ms: int, member: ConsumerMember) -> Cause:
    """A member is new, and subscribes to something."""
    return cause_by(now_ms, "member_joined", member, {"static": member.instance_id is not None})


def subscription_cause(now_ms: int, before: ConsumerMember, after: ConsumerMember) -> Cause:
    """A member wants other topics than it did."""
    if before.names == after.names:
        return regex_cause(now_ms, before, after)
    was, wants = set(before.names), set(after.names)
    topics = {"topics_added": sorted(wants - was), "topics_removed": sorted(was - wants)}
    return cause_by(now_ms, "subscription_changed", after, topics)


def regex_cause(now_ms: int, before: ConsumerMember, after: ConsumerMember) -> Cause:
    """A member subscribes by another expression than it did."""
    return cause_by(now_ms, "regex_changed", after, {"old": before.regex or None, "new": after.regex or None})


def replaced_cause(now_ms: int, holder: ConsumerMember, after: ConsumerMember) -> Cause:
    """A static member came back under another id, and wants other topics than its predecessor."""
    detail = {
        "old_member_id": holder.member_id,
        "new_member_id": after.member_id,
        "old_client_id": holder.client_id,
        "old_client_host": holder.client_host,
    }
    return cause_by(now_ms, "static_replaced", after, detail)


def replaced_event(holder: ConsumerMember, request: ConsumerHeartbeat | Join, member_id: str) -> MemberReplaced:
    """A static member came back as `member_id`: who it was, and who it is."""
    return MemberReplaced(
        holder.instance_id,
        holder.member_id,
        member_id,
        *holder.acting,
        request.client_id,
        request.client_host,
        getattr(request, "reason", None),
        request.away_ms,
    )


def left_cause(now_ms: int, member: ConsumerMember, leaver: Leaver, request: Leave) -> Cause:
    """LeaveGroup: by the member, by its own poll loop giving up, or by somebody else."""
    if leaver.member_id == "" or is_removal(leaver.reason):
        by = {"by_client_id": request.client_id, "by_client_host": request.client_host}
        return cause_by(now_ms, "member_removed", member, by, leaver.reason)
    if is_poll_timeout(leaver.reason):
        return cause_by(now_ms, "poll_timeout", member, {"text": leaver.reason}, leaver.reason)
    return cause_by(now_ms, "member_left", member, {}, leaver.reason)


def migrated_cause(cause: Cause, old: str, new: str) -> Cause:
    """What somebody did made the group change its protocol, `classic` or `consumer`."""
    own = {f"because_{name}": cause.detail[name] for name in ("old", "new") if name in cause.detail}
    detail = {**cause.detail, **own, "old": old, "new": new, "because": cause.trigger}
    return Cause(
        cause.at_ms,
        "migrated",
        cause.member_id,
        cause.instance_id,
        cause.client_id,
        cause.client_host,
        cause.reason,
        detail,
    )


def topics_cause(now_ms: int, names: Iterable[str], before: Topics | None, now: Topics) -> Cause:
    """Topics that the group reads are not what they were; `before`: None when nobody knows any more."""
    counts: dict[str, tuple[int, int]] = {}
    anew: list[str] = []
    if before is not None:
        for name in sorted(names):
            was, has = before.partition_count(name) or 0, now.partition_count(name) or 0
            if was and has and before.topic_id(name) != now.topic_id(name):
                anew.append(name)
            elif was != has:
                counts[name] = was, has
    detail: dict[str, Any] = {"topics": dict(list(counts.items())[:TOPICS_TOLD_MAX])}
    if anew:
        detail["made_anew"] = anew[:TOPICS_TOLD_MAX]
    return Cause(now_ms, "partitions_changed", detail=detail)


def how_it_went(trigger: str) -> str:
    """What the trigger of its going makes of a member in the list of members."""
    if trigger == "member_removed":
        return "removed"
    return "left" if trigger in ("member_left", "poll_timeout") else "expired"
