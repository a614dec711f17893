"""What can be said of a consumer group (KIP-848) at this moment; the same fields as `coordinator.why.live`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.ownership import by_topic
from coordinator.classic.rebalance_tracking import cause_record
from coordinator.consumer.group import STABLE, UNRELEASED, UNREVOKED
from coordinator.consumer.rebalance_tracking import MODE, member_facts
from coordinator.consumer.target import preferred_assignor
from protocol.records.ledger import spans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator.consumer.group import ConsumerGroup, ConsumerMember
    from coordinator.view import ConsumerSettings, Topics

MISSING_MAX = 1_000
"""Members told by name of those that a rebalance waits for; their number is told whole."""


def epoch_in_progress(group: ConsumerGroup, now_ms: int) -> dict[str, Any] | None:
    """The rebalance that goes on, and who is missing and for how long; None when there is none.

    `phase`: `assign` (no target was computed for the epoch yet), `revoke` (members must give partitions up first) or
    `sync` (members have not come to the epoch). `missing` are the members that the phase waits for, each with `for_ms`
    since it was told to give up, or since the target was computed.
    """
    rebalance = group.tracking.rebalance
    if rebalance is None:
        return None
    missing: list[dict[str, Any]] = []
    count = 0
    phase = "assign"
    if group.epoch == group.target_epoch:
        since_ms = rebalance.assigned_at_ms if rebalance.assigned_at_ms is not None else rebalance.began_at_ms
        late = [one for one in group.members.values() if one.state != STABLE or one.epoch != group.target_epoch]
        revoking = [one for one in late if one.state == UNREVOKED]
        # Who waits for others is not who is waited for.
        waited_for = revoking or [one for one in late if one.state != UNRELEASED] or late
        phase, count = "revoke" if revoking else "sync", len(waited_for)
        missing = [
            {**member_facts(one), "for_ms": max(now_ms - rebalance.revoking.get(one.member_id, since_ms), 0)}
            for one in waited_for[:MISSING_MAX]
        ]
    return {
        "group_type": "consumer",
        "rebalance_id": rebalance.rebalance_id,
        "from_generation": rebalance.from_epoch,
        "generation": group.epoch,
        "state": group.state.value,
        "state_before": rebalance.state_before,
        "phase": phase,
        "began_at_ms": rebalance.began_at_ms,
        "for_ms": max(now_ms - rebalance.began_at_ms, 0),
        "first_cause": cause_record(rebalance.first_cause),
        "further_causes": [cause_record(cause) for cause in rebalance.further_causes],
        "initial_delay": False,
        "missing": missing,
        "missing_count": count,
        "missing_member_ids": [],
    }


def live_consumer_state(group: ConsumerGroup, topics: Topics, settings: ConsumerSettings) -> dict[str, Any]:
    """State, epochs, assignor and members with what they own and shall own, as JSON values."""
    return {
        "group_id": group.group_id,
        "group_type": "consumer",
        "state": group.state.value,
        "state_at_ms": None,
        "generation": group.epoch,
        "target_epoch": group.target_epoch,
        "protocol_type": "consumer",
        "protocol": preferred_assignor(group, tuple(settings.assignors)) if settings.assignors else None,
        "mode": MODE,
        "leader": None,
        "partitions_total": sum(topics.partition_count(name) or 0 for name in group.subscribed_topics),
        "members": [_member(group, one, topics, settings) for one in group.members.values()],
    }


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics, settings: ConsumerSettings) -> dict[str, Any]:
    classic = member.classic
    return {
        **member_facts(member),
        "session_timeout_ms": settings.session_timeout_ms if classic is None else classic.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "speaks": "consumer" if classic is None else "classic",
        "epoch": member.epoch,
        "partitions": _named(member.assigned, topics),
        "to_revoke": _named(member.pending, topics),
        "target": _named(group.targets.get(member.member_id, {}), topics),
    }


def _named(partitions: Mapping[bytes, Any], topics: Topics) -> dict[str, str]:
    pairs = ((topics.topic_name(topic_id), held) for topic_id, held in partitions.items())
    named = [(name, number) for name, held in pairs if name is not None for number in held]
    return {topic: spans(found) for topic, found in by_topic(named).items()}
