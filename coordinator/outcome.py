"""What a rule returns: the state as it is now, and everything that must happen because of it.

Shared by every coordinator: what is kept under a key is a group here, a transactional id there. The runtime
(`broker.coordinators`) acts on an `Outcome` in this order: install `after`, arm or cancel `timers`, append `records`
(their fate comes back as the input `Appended` or `AppendFailed`), and once the records of this outcome and of all
earlier ones are committed: send `replies`, publish `events`, begin `work`.

Source: Kafka's CoordinatorResult, CoordinatorRuntime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.errors import ErrorCode

State_co = TypeVar("State_co", covariant=True)
"""What a coordinator keeps under a key."""


class ReplyTo(Protocol):
    """A handle of the edge: where an answer goes. Rules copy it, never look into it."""

    def complete(self, response: Any) -> None:
        """The answer: a response message of `protocol.messages`, complete but for its version."""


@dataclass(slots=True)
class Reply:
    """The answer to one request: the one being handled, or one that was parked."""

    to: ReplyTo
    response: Any  # a response message of `protocol.messages`, complete but for its version


@dataclass(slots=True)
class SetTimer:
    """Feed `then` to the coordinator at `deadline_ms`, unless the key is set again or cancelled before."""

    key: tuple[str, ...]  # ("heartbeat", group, member), ("join", group), ("sync", group)
    deadline_ms: int
    then: Input


@dataclass(slots=True)
class CancelTimer:
    """Forget the timer of this key, if there is one."""

    key: tuple[str, ...]


class Event(Protocol):
    """What happened, as log lines, metrics and ledgers are told. `kind` is snake case and past tense."""

    @property
    def kind(self) -> str:
        """Such as `member_joined`."""

    @property
    def key(self) -> str:
        """What it happened to: a group id, a transactional id."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The keys of a log line."""


class Input:
    """Something that happens to what is kept under `key`. Subclasses are slotted dataclasses, one per cause."""

    __slots__ = ()
    reads_appended: ClassVar[bool] = False
    """The rule looks at what only records change (committed offsets): earlier ones are appended and applied first."""

    key: str
    """What it happens to: a group id, a transactional id. Of a subclass a field, or another name for one."""


class GroupInput(Input):
    """Something that happens to one group."""

    __slots__ = ()
    group_id: str

    def __init_subclass__(cls) -> None:
        # The slot itself under its other name: a property would be a call, twice for every request.
        slots = vars(cls)
        if "group_id" in slots.get("__slots__", ()):
            type.__setattr__(cls, "key", slots["group_id"])


class Work:
    """Something that the edge must do, and whose result comes back as an input. Subclasses are slotted dataclasses.

    Begun once the records of its outcome, and of all before it, are committed; never when they are refused.
    """

    __slots__ = ()


class AppendToken:
    """What a rule needs to know again when the records of its outcome are committed or refused."""

    __slots__ = ()
    resumes: ClassVar[bool] = False  # success is an input too (`Appended`), not failure alone
    divisible: ClassVar[bool] = False  # the records may go into several batches; else all of them, or none
    undoes: ClassVar[bool] = False  # refused, what was decided under the same key since is taken back with them


@dataclass(slots=True)
class Appended(Input):
    """The records of the outcome that carried `token` are committed."""

    key: str
    token: AppendToken


@dataclass(slots=True)
class AppendFailed(Input):
    """The records of the outcome that carried `token` were refused; none of them is in the log.

    With REQUEST_TIMED_OUT they are in the log and have been replayed, but were not committed in time: the request
    has failed for its client, and what it did holds, unless its rule takes it back in memory too.
    When several outcomes are refused with one batch, the last of them is told first.
    """

    key: str
    token: AppendToken
    error: ErrorCode  # the storage error.2 maps it for clients


@dataclass(slots=True)
class Outcome(Generic[State_co]):
    """All that follows from one input."""

    after: State_co | None  # what is kept under the input's key from now on; None: nothing (any more)
    records: tuple[tuple[Any, Any | None], ...] = ()  # (key, value) of `protocol.records`; value None is a tombstone
    replies: tuple[Reply, ...] = ()  # dropped when `records` are refused
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    events: tuple[Event, ...] = ()  # what happened and why: log, metrics and ledger are made of these
    token: AppendToken | None = None  # set whenever there are records
    work: tuple[Work, ...] = ()
    producer: tuple[int, int] | None = None  # (id, epoch): the records are a batch of this producer's transaction
