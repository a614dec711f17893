"""Everything that can happen to a consumer group besides what happens to a classic one, one value per cause.

The inputs of the classic protocol reach such a group too: members that speak it may be in it, sessions are timed by
the same input, and so are loading and giving up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.outcome import GroupInput, ReplyTo, Work

if TYPE_CHECKING:
    from coordinator.consumer.assignor import AssignmentSpec, Target
    from coordinator.consumer.reconcile import Owned
    from coordinator.consumer.records import Record
    from coordinator.view import Topics


@dataclass(slots=True)
class ConsumerHeartbeat(GroupInput):
    """ConsumerGroupHeartbeat. Answered with a `ConsumerGroupHeartbeatResponse`. None is what has not changed."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int  # -1: as before
    names: tuple[str, ...] | None
    regex: str | None
    assignor: str | None
    owned: Owned | None
    version: int
    new_member_id: str  # used when `member_id` is ""
    client_id: str
    client_host: str
    reply_to: ReplyTo
    on_behalf_of: Any = None  # whose topics a regular expression may stand for: the edge's business
    away_ms: int | None = None  # how long ago the static member that it replaces was heard of


@dataclass(slots=True)
class DescribeConsumerGroup(GroupInput):
    """One group of a ConsumerGroupDescribe. Answered with a `DescribedConsumerGroup`."""

    group_id: str
    reply_to: ReplyTo


@dataclass(slots=True)
class RebalanceTimedOut(GroupInput):
    """The timer `("rebalance", group, member)` fired: the member has not given up what it had to."""

    group_id: str
    member_id: str
    epoch: int  # of the member, when the timer was set
    last_heard_ms: int | None = None  # how long ago anything of it came
    edge: Mapping[str, Any] | None = None  # what else the edge sees of it: `broker.groups.groups`


@dataclass(slots=True)
class ClassicMemberTimedOut(GroupInput):
    """The timer `("join", group, member)` or `("sync", group, member)` of a member of the classic protocol fired."""

    group_id: str
    member_id: str
    waited_for: str  # `join` or `sync`
    last_heard_ms: int | None = None  # how long ago anything of it came
    edge: Mapping[str, Any] | None = None  # what else the edge sees of it: `broker.groups.groups`


@dataclass(slots=True)
class ResolveRegexes(Work):
    """Find the topics that regular expressions stand for. Ends in `RegexesResolved`."""

    group_id: str
    regexes: frozenset[str]
    topics: Topics
    on_behalf_of: Any  # who may not know of a topic does not get it


@dataclass(slots=True)
class RegexesResolved(GroupInput):
    """What came of `ResolveRegexes`."""

    group_id: str
    resolved: Mapping[str, frozenset[str]] | None  # None: it failed
    version: int = -1  # of the topics that were looked at


@dataclass(slots=True)
class ComputeTarget(Work):
    """Deal out the partitions of a large group. Ends in `TargetComputed`."""

    group_id: str
    epoch: int
    assignor: str
    spec: AssignmentSpec


@dataclass(slots=True)
class TargetComputed(GroupInput):
    """What came of `ComputeTarget`."""

    group_id: str
    epoch: int
    spec: AssignmentSpec
    target: Target | None  # None: the assignor failed
    records: Mapping[str, Record] | None = None  # by member id, of those whose target is another now; None: not made
