"""What happens in groups, as typed values, each declared once (D10): nothing else words a reason.

A log line is the `kind` and the `facts`; metrics and the ledger's records take the fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from coordinator.cause import Cause
from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.consumer.epoch_rebalance import EpochRebalance
    from coordinator.consumer.group import ConsumerGroup
    from coordinator.group import Group, Rebalance
    from coordinator.view import Topics

Changed = tuple[str, int, int | None, int | None]
"""(topic, partition, the offset before, the offset after); None: there is none."""
KINDS: dict[str, type[Happening]] = {}
"""Every kind of event by its name, which is the class's in snake case."""
_WORD_ENDS = re.compile(r"(?<!^)(?=[A-Z])")


@value
class Who:
    """A member, as the process that acts: after a static member came back, its newest."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str

    def facts(self) -> dict[str, Any]:
        """As keys of a log line, or of a record."""
        return {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
        }


class LeftBehind(NamedTuple):
    """A partition, and the last sign of who read it before, as far as that is known."""

    topic: str
    partition: int
    sign_ms: int | None


class Happening:
    """One kind of thing that happens. A cause and a `Who` are told field by field; a default is left out of `facts`."""

    __slots__ = ()
    kind: ClassVar[str]
    recorded: ClassVar[bool] = False  # a record of the ledger, of the same kind, is made of it

    def __init_subclass__(cls) -> None:
        cls.kind = _WORD_ENDS.sub("_", cls.__name__).lower()
        KINDS[cls.kind] = cls


@value
class RebalanceBegan(Happening):
    """The group leaves Stable or Empty."""

    recorded: ClassVar[bool] = True
    rebalance_id: str
    from_generation: int
    state_before: str
    members_before: int
    cause: Cause


@value
class RebalanceEnded(Happening):
    """Everybody has its assignment, or the group became empty, was superseded or removed. Spans and moments in ms."""

    recorded: ClassVar[bool] = True
    rebalance_id: str
    from_generation: int
    to_generation: int
    outcome: str  # stable, empty, removed, superseded
    began_at_ms: int
    joined_at_ms: int | None
    assigned_at_ms: int | None
    ended_at_ms: int
    duration_ms: int
    join_ms: int | None
    assign_ms: int | None
    sync_ms: int | None
    initial_delay_ms: int | None
    protocol_type: str | None
    protocol: str | None
    mode: str
    leader: str | None
    leader_changed: bool | None
    members: int
    slowest_to_join: dict[str, Any] | None
    slowest_to_sync: dict[str, Any] | None
    first_cause: Cause
    by: str | None = None  # which rebalance superseded it
    slowest_to_revoke: dict[str, Any] | None = None
    stopped_ms: int | None = None  # consumer groups; of classic ones the ledger works it out
    session_timeout_ms: int | None = None  # consumer groups


@value
class GenerationBegan(Happening):
    """Everybody who takes part is known."""

    members: int
    protocol: str | None
    leader: str | None
    join_ms: int


@value
class AssignmentReceived(Happening):
    """The leader has planned."""

    leader: str | None
    members: int
    static_members: int
    assign_ms: int | None


@value
class RebalanceStalled(Happening):
    """Only static members, and none came back: their sessions decide."""

    members: int


@value
class MemberJoined(Happening):
    """A member id unknown so far was added."""

    member: Who
    reason: str | None = None


@value
class MemberLeft(Happening):
    """It left, was taken out by an administrator, or did not come back in time, as the trigger says."""

    cause: Cause


@value
class MemberExpelled(Happening):
    """A consumer group goes on without it."""

    cause: Cause


@value
class SessionExpired(Happening):
    """Nothing was heard of it for its session timeout."""

    cause: Cause


@value
class PendingMemberExpired(Happening):
    """It was given a member id (KIP-394), and never came back with it."""

    member_id: str


@value
class MemberTurnedAway(Happening):
    """The group is full."""

    member_id: str
    client_id: str
    client_host: str


@value
class MemberAway(Happening):
    """A static member of a consumer group left for a while."""

    member_id: str
    instance_id: str | None
    client_id: str


@value
class MemberReplaced(Happening):
    """A static member came back under a new id."""

    recorded: ClassVar[bool] = True
    instance_id: str | None
    old_member_id: str
    new_member_id: str
    old_client_id: str
    old_client_host: str
    client_id: str
    client_host: str
    reason: str | None
    away_ms: int | None


@value
class MemberFenced(Happening):
    """A request was refused because another holds the instance id."""

    recorded: ClassVar[bool] = True
    api: str
    instance_id: str | None
    refused_member_id: str
    client_id: str | None
    client_host: str | None
    holder_member_id: str | None
    holder_client_id: str | None
    holder_client_host: str | None


@value
class MemberReconciled(Happening):
    """A member of a consumer group came nearer to its target."""

    member: Who
    member_epoch: int
    state: str
    partitions: int
    to_revoke: int


@value
class DepartureTraced(Happening):
    """What was seen of a member after it had gone; `broker.groups.ledger.departures` makes it."""

    recorded: ClassVar[bool] = True
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    trigger: str  # of its going
    departed_at_ms: int
    saw: str  # closed, open, returned
    after_ms: int
    how: str | None  # closed: `end of file`, `reset` or `broker`
    same_connection: bool | None  # returned


@value
class PartitionsTaken(Happening):
    """A member of a consumer group was given partitions that nobody reads."""

    rebalance_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[LeftBehind, ...]


@value
class PartitionsRead(Happening):
    """What moved is read again, or nobody came within the time; `broker.groups.ledger.unread` makes it."""

    recorded: ClassVar[bool] = True
    rebalance_id: str
    partitions: int
    still_unread: int
    unread_ms: int  # of the one that went unread longest
    topic: str  # which that is
    partition: int
    spans: tuple[tuple[str, int, int], ...]  # topic, partition, ms; the longest first


@value
class CommitRefused(Happening):
    """One commit of a stale generation, an unknown member or a fenced one."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    error: str
    request_generation: int
    topics: tuple[str, ...]


@value
class CommitsRefused(Happening):
    """Those of a second, counted; `broker.groups.ledger.refusals` makes it."""

    recorded: ClassVar[bool] = True
    member_id: str
    client_id: str
    client_host: str
    error: str
    count: int
    request_generation: int
    topics: tuple[str, ...]


@value
class JoinRefused(Happening):
    """A client may not be in the group: it offers no protocol that all members support, or the group is full."""

    member_id: str
    client_id: str
    client_host: str
    error: str
    protocols: tuple[str, ...]  # that it offers
    group_protocols: tuple[str, ...]  # that all members support


@value
class JoinsRefused(Happening):
    """Those of a second, counted; `broker.groups.ledger.refusals` makes it."""

    recorded: ClassVar[bool] = True
    member_id: str
    client_id: str
    client_host: str
    error: str
    count: int
    protocols: tuple[str, ...]
    group_protocols: tuple[str, ...]


@value
class OffsetsChanged(Happening):
    """Offsets of a group that has had members, set or removed by somebody who is no member."""

    recorded: ClassVar[bool] = True
    by: str  # client, expiry, topic_deleted, group_deleted
    client_id: str | None
    client_host: str | None
    offset_count: int
    offsets: tuple[Changed, ...]


@value
class OffsetsExpired(Happening):
    """Committed offsets became too old."""

    offset_count: int


@value
class CoordinatorLoaded(Happening):
    """A start has read a group that has members."""

    recorded: ClassVar[bool] = True
    members: int
    load_ms: int | None
    unclean: bool


@value
class GroupRemoved(Happening):
    """Deleted, or expired with its last offset."""

    recorded: ClassVar[bool] = True
    by: str
    client_id: str | None
    client_host: str | None
    members_at_last_generation: int | None
    offset_count: int


@value
class AppendFailed(Happening):
    """Records were refused by the log, and this is `lost`."""

    error: str
    lost: str


@value
class GroupMigrated(Happening):
    """The group changed its protocol."""

    to: str  # classic, consumer
    members: int


@value
class GroupEpochBumped(Happening):
    """A consumer group has a new epoch."""

    trigger: str


@value
class TargetComputed(Happening):
    """A consumer group has a new target."""

    target_epoch: int
    members: int
    members_changed: int


@value
class TargetFailed(Happening):
    """The assignor of a consumer group failed."""

    epoch: int


@value
class RegexResolved(Happening):
    """Expressions stand for other topics than before."""

    regexes: Mapping[str, Mapping[str, Any]]


@value
class GroupEvent:
    """One thing that happened in a group, which is at this generation or epoch since."""

    what: Happening
    group_id: str
    generation: int
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

    @property
    def kind(self) -> str:
        """As log lines name it."""
        return self.what.kind

    @property
    def facts(self) -> dict[str, Any]:
        """The keys of a log line."""
        told = facts_of(self.what)
        return told if self.group_type == "classic" else {"group_type": self.group_type, **told}


def facts_of(what: Happening) -> dict[str, Any]:
    """Every field by its name, but for those that are left at their default."""
    shape = _SHAPES.get(type(what))
    if shape is None:
        declared = fields(what)  # type: ignore[arg-type]  # every subclass is a dataclass
        shape = _SHAPES[type(what)] = (
            attrgetter(*(one.name for one in declared), "kind"),  # of one name alone it would give no tuple
            [(one.name, one.default) for one in declared],
        )
    read, names = shape
    told: dict[str, Any] = {}
    for (name, default), content in zip(names, read(what), strict=False):
        if isinstance(content, Cause):
            told |= cause_facts(content)
        elif isinstance(content, Who):
            told |= content.facts()
        elif content is not default:
            told[name] = content
    return told


_SHAPES: dict[type, tuple[Callable[[Any], tuple[Any, ...]], list[tuple[str, Any]]]] = {}


def cause_facts(cause: Cause) -> dict[str, Any]:
    """A cause as keys of a log line."""
    return {
        "trigger": cause.trigger,
        "member_id": cause.member_id,
        "instance_id": cause.instance_id,
        "client_id": cause.client_id,
        "client_host": cause.client_host,
        "reason": cause.reason,
        **cause.detail,
    }
