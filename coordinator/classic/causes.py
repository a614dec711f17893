"""Why a rebalance begins: each rule that starts one names its cause here, in one vocabulary.

Source: docs/rebalance-ledger.md; KIP-800 for the clients' reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.cause import REASON_MAX_CHARS, Cause
from coordinator.classic.client_reasons import is_poll_timeout, is_removal
from coordinator.classic.protocols import CONSUMER
from coordinator.group import Member, longest_rebalance_timeout_ms
from protocol.records.consumer_protocol import (
    MetadataError,
    assigned_partitions,
    owned_partitions,
    subscribed_topics,
)

if TYPE_CHECKING:
    from coordinator.classic.draft import Draft
    from coordinator.classic.inputs import Join, Leaver
    from coordinator.view import Topics


def cause_by(
    now_ms: int, trigger: str, member: Member, reason: str | None = None, detail: Mapping[str, Any] | None = None
) -> Cause:
    """A cause that one member is."""
    client_id, client_host = member.acting
    return Cause(
        now_ms,
        trigger,
        member.member_id,
        member.instance_id,
        client_id,
        client_host,
        reason[:REASON_MAX_CHARS] if reason else None,
        detail if detail is not None else {},
    )


def joined_cause(now_ms: int, member: Member, reason: str | None) -> Cause:
    """A member id unknown so far was added."""
    return cause_by(now_ms, "member_joined", member, reason, {"static": member.instance_id is not None})


def left_cause(now_ms: int, member: Member, leaver: Leaver, client_id: str, client_host: str) -> Cause:
    """LeaveGroup: by the member, by its own poll loop giving up, or by somebody else."""
    if leaver.member_id == "" or is_removal(leaver.reason):
        who = {"by_client_id": client_id, "by_client_host": client_host}
        return cause_by(now_ms, "member_removed", member, leaver.reason, who)
    if is_poll_timeout(leaver.reason):
        return cause_by(now_ms, "poll_timeout", member, leaver.reason, {"text": leaver.reason})
    return cause_by(now_ms, "member_left", member, leaver.reason)


def changed_cause(draft: Draft, member: Member, join: Join) -> Cause | None:
    """A known member wants other topics, or offers other protocols; None when it only says other bytes about itself.

    Those differ at every generation for consumers that tell what they own, so they alone explain nothing.
    """
    if member.protocols == join.protocols:
        return None
    if draft.protocol_type == CONSUMER:
        before, after = _topics(member.protocols), _topics(join.protocols)
        if before is not None and after is not None and before != after:
            topics = {"topics_added": sorted(after - before), "topics_removed": sorted(before - after)}
            return cause_by(draft.now_ms, "subscription_changed", member, join.reason, topics)
    names_before = [name for name, _ in member.protocols]
    names = [name for name, _ in join.protocols]
    if member.joined_at_ms is None:
        # Not heard since it was read from the log, where only the chosen protocol of the member is.
        names = [name for name in names if name in names_before]
    if names_before != names:
        detail = {"protocols_changed": [names_before, names]}
        return cause_by(draft.now_ms, "subscription_changed", member, join.reason, detail)
    return None


def rejoined_cause(draft: Draft, member: Member, join: Join) -> Cause:
    """A known member came back, so the group must rebalance."""
    cause = changed_cause(draft, member, join)
    if cause is not None:
        return cause
    changed_counts, anew = _changed_partition_counts(draft), _made_anew(draft)
    if changed_counts or anew:
        topics: dict[str, Any] = {
            "topics": {topic: pair for topic, pair in changed_counts.items() if topic not in anew}
        }
        if anew:
            topics["made_anew"] = anew
        return cause_by(draft.now_ms, "partitions_changed", member, join.reason, topics)
    if _gave_up_what_it_had_to(draft, member, join):
        follows = {"follows": draft.last_rebalance_id}
        return cause_by(draft.now_ms, "cooperative_followup", member, join.reason, follows)
    if _is_resumed(draft):
        loaded = {"loaded_at_ms": draft.loaded_at_ms}
        return cause_by(draft.now_ms, "coordinator_restarted", member, join.reason, loaded)
    if draft.leader_id == member.member_id:
        return cause_by(draft.now_ms, "leader_rejoined", member, join.reason)
    return cause_by(draft.now_ms, "subscription_changed", member, join.reason, {"metadata_changed": True})


def rebalance_mode(protocol_name: str | None) -> str:
    """`eager` or `cooperative`, as the assignor's name tells; `unknown` for a stranger's."""
    name = (protocol_name or "").lower()
    if "cooperative" in name:
        return "cooperative"
    return "eager" if name in {"range", "roundrobin", "sticky", "roundrobinassigner"} else "unknown"


def _topics(protocols: tuple[tuple[str, bytes], ...]) -> set[str] | None:
    topics: set[str] = set()
    try:
        for _, metadata in protocols:
            topics.update(subscribed_topics(metadata))
    except MetadataError:
        return None
    return topics


def _changed_partition_counts(draft: Draft) -> dict[str, tuple[int, int]]:
    """Topics whose partition count is not what it was when the group was last assigned: (then, now); 0: no topic."""
    then, count_of = draft.assigned_partition_counts or {}, draft.view.topics.partition_count
    counts = {topic: (before, count_of(topic) or 0) for topic, before in then.items()}
    return {topic: pair for topic, pair in counts.items() if pair[0] != pair[1]}


def ids_of(topics: Topics, names: Iterable[str] | None) -> dict[str, bytes]:
    """The ids that these topics have now, by name; a topic that was made anew has another."""
    ids = {name: topics.topic_id(name) for name in names or ()}
    return {name: topic_id for name, topic_id in ids.items() if topic_id is not None}


def _made_anew(draft: Draft) -> list[str]:
    """Topics that were deleted and made again since the group was last assigned."""
    then = draft.assigned_topic_ids or {}
    now = ids_of(draft.view.topics, then)
    return sorted(topic for topic, topic_id in then.items() if now.get(topic, topic_id) != topic_id)


def _is_resumed(draft: Draft) -> bool:
    """Whether members come back because the coordinator stopped while it collected them.

    A loaded group is Stable at its last written generation, and members of a group that was Stable just go on; who
    joins again unchanged, within the time that a rebalance may take, was asked to before.
    """
    loaded_at_ms = draft.loaded_at_ms
    return loaded_at_ms is not None and draft.now_ms - loaded_at_ms <= longest_rebalance_timeout_ms(draft.members)


def _gave_up_what_it_had_to(draft: Draft, member: Member, join: Join) -> bool:
    """Whether this is a cooperative protocol's second round.

    Then the member owns what its assignment left it, and that is not what it came with the first time.
    """
    if draft.last_rebalance_id is None or rebalance_mode(draft.protocol_name) != "cooperative":
        return False
    metadata = next((data for name, data in join.protocols if name == draft.protocol_name), b"")
    try:
        owned = owned_partitions(metadata)
        return (
            owned is not None
            and owned == assigned_partitions(member.assignment)
            and owned != owned_partitions(member.metadata(draft.protocol_name))
        )
    except MetadataError:
        return False
