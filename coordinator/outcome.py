"""What a rule returns: the group as it is now, and everything that must happen because of it.

The partition leader acts on an `Outcome` in this order: install `group`, append `records` (their fate comes back as the
input `Appended` or `AppendFailed`), arm or cancel `timers`, send `replies` once the records of this outcome and of all
earlier ones are committed, publish `events`.

Source: Kafka's CoordinatorResult, CoordinatorRuntime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from coordinator.events import GroupEvent
    from coordinator.group import Group
    from protocol.errors import ErrorCode

ReplyTo = Any
"""An opaque handle of the edge: where an answer goes. Rules copy it, never look into it."""


@dataclass(slots=True)
class Reply:
    """The answer to one request: the one being handled, or one that was parked."""

    to: ReplyTo
    response: Any  # a response message of `protocol.messages`, complete but for its version


@dataclass(slots=True)
class SetTimer:
    """Feed `then` to the group at `deadline_ms`, unless the key is set again or cancelled before."""

    key: tuple[str, ...]  # ("heartbeat", group, member), ("join", group), ("sync", group)
    deadline_ms: int
    then: Input


@dataclass(slots=True)
class CancelTimer:
    """Forget the timer of this key, if there is one."""

    key: tuple[str, ...]


class Input:
    """Something that happens to one group. Subclasses are slotted dataclasses, one per cause."""

    __slots__ = ()
    group_id: str
    reads_offsets: ClassVar[bool] = False  # the rule looks at committed offsets: earlier records are applied first


class AppendToken:
    """What a rule needs to know again when the records of its outcome are committed or refused."""

    __slots__ = ()
    resumes: ClassVar[bool] = False  # success is an input too (`Appended`), not failure alone
    divisible: ClassVar[bool] = False  # the records may go into several batches; else all of them, or none


@dataclass(slots=True)
class Appended(Input):
    """The records of the outcome that carried `token` are committed."""

    group_id: str
    token: AppendToken


@dataclass(slots=True)
class AppendFailed(Input):
    """The records of the outcome that carried `token` were refused; none of them is in the log.

    With REQUEST_TIMED_OUT they are in the log and have been replayed, but were not committed in time: the request
    has failed for its client, and what it did holds, unless its rule takes it back in memory too.
    When several outcomes are refused with one batch, the last of them is told first.
    """

    group_id: str
    token: AppendToken
    error: ErrorCode  # the storage error.2 maps it for clients


@dataclass(slots=True)
class Outcome:
    """All that follows from one input."""

    group: Group | None  # None: there is no such group (any more)
    records: tuple[tuple[Any, Any | None], ...] = ()  # (key, value) of `group_records`; value None is a tombstone
    replies: tuple[Reply, ...] = ()  # dropped when `records` are refused
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    events: tuple[GroupEvent, ...] = ()  # what happened and why: log, metrics and ledger are made of these
    token: AppendToken | None = None  # set whenever there are records
