"""What the records of a group say is wrong with it: each rule a pure function, none of which knows of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.why import rules_members, rules_offsets, rules_rebalances
from coordinator.why.window import Finding, Window

RULES: Mapping[str, Callable[[Window], Finding | None]] = {
    "repeat_offender": rules_rebalances.repeat_offender,
    "slow_joiner": rules_rebalances.slow_joiner,
    "storm": rules_rebalances.storm,
    "tight_heartbeat": rules_rebalances.tight_heartbeat,
    "poll_timeout": rules_rebalances.poll_timeout,
    "deploy_churn": rules_rebalances.deploy_churn,
    "duplicate_instance": rules_members.duplicate_instance,
    "refused_joins": rules_members.refused_joins,
    "commit_per_record": rules_offsets.commit_per_record,
    "refused_commits": rules_offsets.refused_commits,
    "offsets_expiring": rules_offsets.offsets_expiring,
    "offsets_moved": rules_offsets.offsets_moved,
    "eager_stop": rules_rebalances.eager_stop,
    "idle_members": rules_rebalances.idle_members,
    "imbalance": rules_rebalances.imbalance,
}
"""The rules, in the order in which findings are told: what hurts, then what could be better."""

LIVE_RULES = frozenset({"tight_heartbeat", "commit_per_record", "offsets_expiring"})
"""Those that look at the group as it is now, which only its broker knows."""


def findings(
    records: Sequence[Mapping[str, Any]], live: Mapping[str, Any] | None = None, *, now_ms: int
) -> list[Finding]:
    """Every finding about one group.

    `records` are its ledger's, the oldest first; `live` is what the broker's `Ledger.live` says, as far as it is known.
    """
    window = Window(records, live or {}, now_ms)
    found = [rule(window) for rule in RULES.values()]
    return [one for one in found if one is not None]
