"""A classic consumer group as a value: who is in, which generation, what is selected.

Always true:
- the generation never falls, and rises whenever a rebalance ends, even with nobody left;
- a group with members has a leader, and that leader is one of them;
- `members`, `static_members` and `pending_members` are never changed in place: a changed group has new ones;
- `parked_join_count` and `protocol_votes` are what counting over `members` gives;
- so is `pending_sync_count`, of those without `synced_at_ms`, in CompletingRebalance, and in Stable while there is a
  `rebalance`; it is 0 else;
- a parked join exists only in PreparingRebalance, a parked sync only in CompletingRebalance;
- `pending_members` and `members` share no id; `static_members` names members only.

Source: Kafka's ClassicGroup, ClassicGroupMember, ClassicGroupState.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from coordinator.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator.cause import Cause
    from coordinator.outcome import ReplyTo


class GroupState(Enum):
    """The states of a classic group; the value is the name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@value
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
    joined_at_ms: int | None = None  # when its JoinGroup of the latest rebalance came
    synced_at_ms: int | None = None  # when its SyncGroup of this generation came
    # (client id, host) of the process that acts under its instance id now, when that is not the one that first joined:
    # for the ledger. Whoever asks Kafka's way is told the first one's.
    successor: tuple[str, str] | None = None

    @property
    def acting(self) -> tuple[str, str]:
        """(client id, host) of the process that acts for this member."""
        return (self.client_id, self.client_host) if self.successor is None else self.successor

    def acted_for_by(self, client_id: str, client_host: str) -> tuple[str, str] | None:
        """What `successor` is when a process says so about itself."""
        return None if (client_id, client_host) == (self.client_id, self.client_host) else (client_id, client_host)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member says about itself for this protocol; empty when it does not know the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


@value
class Rebalance:
    """A rebalance from its first cause until the last member has its assignment. Never persisted."""

    from_generation: int
    began_at_ms: int
    state_before: GroupState
    first_cause: Cause
    members_before: Mapping[str, Member]
    leader_before: str | None
    initial: bool = False  # the group was Empty: the join phase is the initial delay
    further_causes: tuple[Cause, ...] = ()
    further_causes_cut: int = 0  # more than `FURTHER_CAUSES_MAX` came
    departed: tuple[tuple[Member, str], ...] = ()  # (member, `left`, `expired` or `removed`)
    joined_at_ms: int | None = None  # the join phase was over
    assigned_at_ms: int | None = None  # the leader's assignment came
    told: Mapping[str, int] = field(default_factory=dict)  # member id -> when a heartbeat's answer asked it to rejoin

    @property
    def rebalance_id(self) -> str:
        """Unique within the group."""
        return f"{self.from_generation}@{self.began_at_ms}"


def longest_rebalance_timeout_ms(members: Mapping[str, Member]) -> int:
    """Never negative, whatever a client asked for; 0 without members."""
    return max(0, max((member.rebalance_timeout_ms for member in members.values()), default=0))


@value
class Group:
    """A classic group. `group-coordinator` 2.3 lists the same fields; there, who must sync is a set."""

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
    # A set of ids, as a dict: a dict of a thousand is copied in a fifth of the time of a frozenset.
    pending_members: Mapping[str, None] = field(default_factory=dict)  # given by MEMBER_ID_REQUIRED, not yet joined
    pending_sync_count: int = 0  # of this generation, SyncGroup has not come
    protocol_votes: Mapping[str, int] = field(default_factory=dict)  # name -> members that support it
    parked_join_count: int = 0
    subscribed_topics: frozenset[str] | None = None  # None: unknown, or not a `consumer` group
    new_member_added: bool = False  # during the initial delay: somebody else came, so wait once more
    assignment_in_flight: bool = False  # the leader's assignment is on its way to the log
    rebalance: Rebalance | None = None  # the one that goes on, or the one whose last members have not synced
    last_rebalance_id: str | None = None  # the last one that ended `stable`
    assigned_partition_counts: Mapping[str, int] | None = None  # of the subscribed topics, when last assigned
    members_at_last_generation: int | None = None  # that had any; None when a loaded record had none
    loaded_at_ms: int | None = None  # it was loaded with members, and has not rebalanced since
    assigned_topic_ids: Mapping[str, bytes] | None = None  # of the subscribed topics, when last assigned

    def pending_sync(self) -> list[Member]:
        """The members whose SyncGroup of this generation has not come. Source: Kafka's pendingSyncMembers."""
        if not self.pending_sync_count:
            return []
        return [member for member in self.members.values() if member.synced_at_ms is None]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks the others to wait for it; 0 without members."""
        return longest_rebalance_timeout_ms(self.members)

    @property
    def is_simple(self) -> bool:
        """Whether it exists only to hold offsets: it never had a member."""
        return self.protocol_type is None and self.state is GroupState.EMPTY and not self.pending_members
