"""Groups in the sentences of Apache Kafka's own log, so that what reads those lines goes on working.

Only the text format has them; one JSON object per line keeps the event's name and its facts.

Source: the messages of Kafka's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Facts = Mapping[str, Any]


def sentence(event: str, facts: Facts) -> str | None:
    """What Kafka's broker says when this happens to a group; None when it says nothing."""
    tell = _SENTENCES.get(event)
    return None if tell is None else tell(facts)


def _preparing(facts: Facts) -> str | None:
    if _is_consumer(facts):
        return None
    return (
        f"Preparing to rebalance group {facts['group_id']} in state PreparingRebalance with old generation "
        f"{facts['generation']} (reason: {_reason(facts)})."
    )


def _stabilized(facts: Facts) -> str:
    return f"Stabilized group {facts['group_id']} generation {facts['generation']} with {facts['members']} members."


def _assignment(facts: Facts) -> str:
    return (
        f"Assignment received from leader {facts['leader']} for group {facts['group_id']} for generation "
        f"{facts['generation']}. The group has {facts['members']} members, {facts['static_members']} of which are "
        "static."
    )


def _empty(facts: Facts) -> str | None:
    if facts.get("outcome") != "empty" or _is_consumer(facts):
        return None
    return f"Group {facts['group_id']} with generation {facts['generation']} is now empty."


def _failed(facts: Facts) -> str:
    return f"Member {facts['member_id']} in group {facts['group_id']} has failed, removing it from the group."


def _left(facts: Facts) -> str:
    group_id, member_id, trigger = facts["group_id"], facts["member_id"], facts.get("trigger")
    if trigger == "join_timeout":
        return f"Group {group_id} removed dynamic members who haven't joined: [{member_id}]"
    if trigger == "sync_timeout":
        return f"Group {group_id} removed members who haven't sent their sync requests: [{member_id}]"
    kind = "Dynamic member" if facts.get("instance_id") is None else "Static member"
    instance = "" if facts.get("instance_id") is None else f" with instance id {facts['instance_id']}"
    return (
        f"[GroupId {group_id}] {kind} {member_id}{instance} has left group through explicit `LeaveGroup` request; "
        f"client reason: {_client_reason(facts)}"
    )


def _pending(facts: Facts) -> str:
    return (
        f"Pending member {facts['member_id']} in group {facts['group_id']} has been removed after session timeout "
        "expiration."
    )


def _replaced(facts: Facts) -> str:
    return (
        f"Static member with groupInstanceId={facts['instance_id']} and unknown member id joins group "
        f"{facts['group_id']}. Replacing previously mapped member {facts['old_member_id']} with this groupInstanceId."
    )


def _bumped(facts: Facts) -> str:
    return f"[GroupId {facts['group_id']}] Bumped group epoch to {facts['generation']}."


def _is_consumer(facts: Facts) -> bool:
    """Of such a group Kafka tells epochs, and no rebalances."""
    return facts.get("group_type") == "consumer"


_SENTENCES: Mapping[str, Callable[[Facts], str | None]] = {
    "rebalance_began": _preparing,
    "generation_began": _stabilized,
    "assignment_received": _assignment,
    "rebalance_ended": _empty,
    "session_expired": _failed,
    "member_left": _left,
    "pending_member_expired": _pending,
    "member_replaced": _replaced,
    "group_epoch_bumped": _bumped,
}


def _client_reason(facts: Facts) -> str:
    return facts.get("reason") or "not provided"


def _reason(facts: Facts) -> str:
    """Why, as Kafka words it; a trigger of which Kafka knows nothing is named as it is."""
    member_id, state, client = facts.get("member_id"), facts.get("state_before"), _client_reason(facts)
    match facts.get("trigger"):
        case "member_joined":
            instance = facts.get("instance_id") or "null"
            return f"Adding new member {member_id} with group instance id {instance}; client reason: {client}"
        case "subscription_changed" | "cooperative_followup" | "static_replaced":
            return f"Updating metadata for member {member_id} during {state}; client reason: {client}"
        case "leader_rejoined" | "partitions_changed" | "coordinator_restarted":
            return f"Leader {member_id} re-joining group during {state}; client reason: {client}"
        case "member_left" | "member_removed" | "poll_timeout":
            return f"explicit `LeaveGroup` request for ({member_id}) members."
        case "session_expired":
            return f"removing member {member_id} on heartbeat expiration."
        case "sync_timeout":
            return f"Removing [{member_id}] on pending sync request expiration"
        case "append_failed":
            return f"Error {facts.get('error')} when storing group assignment during SyncGroup (member: {member_id})"
        case "over_capacity":
            return f"Freshly-loaded group {facts.get('group_id')} exceeds capacity"
        case other:
            return str(other)
