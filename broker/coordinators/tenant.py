"""What a coordinator brings to the runtime that it shares with the others: its rules, its records, its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.loop.timers import Timers
    from coordinator.load_summary import LoadSummary
    from coordinator.outcome import Event, Input, Outcome, Reply, Work
    from coordinator.view import Topics
    from protocol.errors import ErrorCode


class Shard(Protocol):
    """The state and the rules of one partition of a coordinator's topic, as the runtime sees them."""

    topics: Topics

    @property
    def states(self) -> dict[str, Any]:
        """What is kept, by key. Always the same mapping."""

    def handle(self, event: Any, now_ms: int) -> Outcome[Any]:
        """What follows from an input. Nothing is changed yet."""

    def unserved(self, event: Any, error: ErrorCode) -> Reply | None:
        """The answer to a request that cannot be served now; None when nobody waits for one."""

    def taken_back(self, event: Any, replies: Iterable[Reply], error: ErrorCode) -> list[Reply]:
        """What is answered instead of `replies`, when records that `event` was decided upon are refused."""

    def install(self, key: str, outcome: Outcome[Any]) -> None:
        """Keep what the outcome says under the key."""

    def replay(self, key: Any, value: Any | None, producer_id: int = -1, offset: int = -1) -> None:
        """Take over one record that is in the log at `offset`, in a transaction of `producer_id` unless that is -1."""

    def all_keys(self) -> list[str]:
        """Every key that has anything."""


ShardT = TypeVar("ShardT", bound=Shard)


class Tenant(Protocol[ShardT]):
    """One coordinator. It has no state of its own that the runtime would have to keep."""

    noun: str
    """In the names of log lines: `group` makes `group_records_refused`."""
    key_name: str
    """The fact of a log line that names the key: `group_id`."""
    pulses: frozenset[type[Input]]
    """Inputs between which what sends them may have been silent: their timers are renewed, see `Timers.renew`."""

    def new_shard(self, topics: Topics) -> ShardT:
        """An empty one."""

    def load(self, shard: ShardT, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
        """Fill an empty shard from its log, whole batches from start to end. Raises: LoadFailed."""

    def encode_key(self, key: Any) -> bytes:
        """The bytes of a record's key. Raises: EncodeError."""

    def encode_value(self, value: Any) -> bytes:
        """The bytes of a record's value. Raises: EncodeError."""

    def loaded(self, key: str, load_ms: int, *, unclean: bool) -> Input:
        """What happens to everything that was loaded. `unclean`: the broker had not been stopped in good order."""

    def unload(self, key: str) -> Input:
        """What happens to everything that is given up."""

    def timed_out(self, event: Input) -> ErrorCode:
        """What a request without records is answered that has waited for those before it for too long."""

    def fill_in(self, event: Input, armed_by: type[Input], shard: ShardT, timers: Timers, now_ms: int) -> None:
        """Put what only the edge knows into the input of a timer. `armed_by`: the kind of input that set it."""

    def publish(self, event: Event) -> None:
        """Tell everybody who listens what happened."""

    def begin(self, work: Work) -> None:
        """Begin what an outcome asks the edge to do."""
