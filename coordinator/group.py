"""A classic consumer group as a value: who is in, which generation, what is selected.

Always true:
- the generation never falls, and rises whenever a rebalance ends, even with nobody left;
- a group with members has a leader, and that leader is one of them;
- `members`, `static_members` and `pending_members` are never changed in place: a changed group has new ones.

Source: Kafka's ClassicGroup, ClassicGroupMember, ClassicGroupState.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator.outcome import ReplyTo


class GroupState(Enum):
    """The states of a classic group; the value is the name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str  # as Java prints it: /127.0.0.1
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in the member's order of preference
    assignment: bytes = b""
    parked_join: ReplyTo | None = None
    parked_sync: ReplyTo | None = None
    is_new: bool = False  # joined, and not yet answered


@dataclass(frozen=True, slots=True)
class Group:
    """A classic group. `group-coordinator` 2.3 lists the same fields."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int | None = None  # when it entered `state`; None when a loaded record had none
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation: int = 0
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    static_members: Mapping[str, str] = field(default_factory=dict)  # instance id -> member id
    pending_members: frozenset[str] = frozenset()  # ids given out by MEMBER_ID_REQUIRED, not yet joined
    pending_sync: frozenset[str] = frozenset()  # members of this generation whose SyncGroup has not come
    protocol_votes: Mapping[str, int] = field(default_factory=dict)  # name -> members that support it
    parked_join_count: int = 0
    subscribed_topics: frozenset[str] | None = None  # None: unknown, or not a `consumer` group
    new_member_added: bool = False  # during the initial delay: somebody else came, so wait once more
