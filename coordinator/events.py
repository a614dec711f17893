"""What happened in a group and why, as values: log lines, metrics and the ledger are made of these (D10)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One thing that happened. `kind` is snake case and past tense; `facts` are its keys in a log line."""

    kind: str  # rebalance_began, rebalance_ended, member_joined, member_left, session_expired, ...
    group_id: str
    generation: int
    facts: dict[str, Any] = field(default_factory=dict)
