"""What happened in a group and why, as values: log lines, metrics and the ledger are made of these (D10).

Nothing else words a reason.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.consumer.epoch_rebalance import EpochRebalance
    from coordinator.consumer.group import ConsumerGroup
    from coordinator.group import Group, Rebalance
    from coordinator.view import Topics


@value
class GroupEvent:
    """One thing that happened. `kind` is snake case and past tense; `facts` are its keys in a log line."""

    kind: str  # rebalance_began, rebalance_ended, member_joined, member_left, session_expired, ...
    group_id: str
    generation: int
    facts: dict[str, Any] = field(default_factory=dict)
    at_ms: int = 0
    # For readers that need every member and every cause; no part of a log line.
    group: Group | None = None  # as it was afterwards
    rebalance: Rebalance | None = None  # that began, or ended
    group_type: str = "classic"  # or consumer (KIP-848), whose epoch `generation` is then
    consumer_group: ConsumerGroup | None = None  # as `group`, of the other type
    epochs: EpochRebalance | None = None  # as `rebalance`
    topics: Topics | None = None  # by which a consumer group's topic ids have names

    @property
    def key(self) -> str:
        """The group id."""
        return self.group_id
