"""Everything that can happen to a classic group, one value per cause.

The edge builds requests and `Unload`; timers carry the others (`SetTimer.then`), and the edge fills in what only it
knows (`last_heard_ms`) before it feeds them.

A connection that goes away is no input: its member stays until it leaves or falls silent, what it had parked stays
parked (a parked member counts as alive), and the edge ignores an answer to a connection that is closed.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.outcome import GroupInput, ReplyTo


@dataclass(slots=True)
class Join(GroupInput):
    """JoinGroup."""

    group_id: str
    member_id: str  # "": the member has no id yet
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in order of preference
    session_timeout_ms: int
    rebalance_timeout_ms: int  # ignored in version 0, which has none: the session timeout counts
    version: int
    new_member_id: str  # `fresh_member_id(...)`, used when `member_id` is ""
    client_id: str
    client_host: str
    reply_to: ReplyTo
    reason: str | None = None
    away_ms: int | None = None  # how long ago the static member that it replaces was heard of


@dataclass(slots=True)
class Sync(GroupInput):
    """SyncGroup."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]  # by member id; only the leader's counts
    version: int
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class Heartbeat(GroupInput):
    """A member says that it lives; the answer tells it to join again while a rebalance is on."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class Leaver:
    """One member of a LeaveGroup."""

    member_id: str  # "": an administrator removes a static member by its instance id
    instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class Leave(GroupInput):
    """LeaveGroup; versions 0 to 2 name one member."""

    group_id: str
    members: Sequence[Leaver]
    version: int
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class SessionExpired(GroupInput):
    """The timer `("heartbeat", group, member)` fired: a session, a pending id's or a new member's time is over."""

    group_id: str
    member_id: str
    last_heard_ms: int | None = None  # how long ago anything of it came
    last_api: str | None = None
    edge: Mapping[str, Any] | None = None  # what else the edge sees of it: `broker.groups.groups`


@dataclass(slots=True)
class InitialDelayPassed(GroupInput):
    """The timer `("join", group)` of a group that was Empty fired."""

    group_id: str
    delay_ms: int  # that has just passed
    remaining_ms: int  # by which it may still be extended


@dataclass(slots=True)
class JoinTimedOut(GroupInput):
    """The timer `("join", group)` fired: who has not joined again by now is out."""

    group_id: str
    last_heard_ms: Mapping[str, int] | None = None  # by member id, of those that have not joined: how long ago
    edge: Mapping[str, Mapping[str, Any]] | None = None  # by member id, what else the edge sees of them


@dataclass(slots=True)
class SyncTimedOut(GroupInput):
    """The timer `("sync", group)` fired: who has not asked for its assignment by now is out."""

    group_id: str
    generation: int  # for which it was set


@dataclass(slots=True)
class GroupLoaded(GroupInput):
    """The group was read from the log and is served from now on. Feed it once for every loaded group."""

    group_id: str
    load_ms: int | None = None  # how long its partition took
    unclean: bool = False  # the broker had not been stopped in good order


@dataclass(slots=True)
class Unload(GroupInput):
    """This broker gives the group's partition up: everybody who waits must look for the coordinator again."""

    group_id: str


def fresh_member_id(instance_id: str | None, client_id: str, random_uuid: str) -> str:
    """A new member's id. `random_uuid`: a version 4 UUID in lower case with its hyphens.

    Clients rely on the form: franz-go tells by the prefix that the leader is itself.
    """
    return f"{client_id if instance_id is None else instance_id}-{random_uuid}"


def short_member_id(fresh: str) -> str:
    """The random part of a fresh member id, in 22 characters: what Kafka calls a new member of a consumer group."""
    try:
        return urlsafe_b64encode(bytes.fromhex(fresh[-36:].replace("-", ""))).decode().rstrip("=")
    except ValueError:
        return fresh
