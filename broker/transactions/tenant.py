"""Transactional ids as a tenant of the coordinators' runtime: their shard, their records, what they ask to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.append_errors import error_for_client
from coordinator.transactions.inputs import TransactionLoaded, Unload
from coordinator.transactions.loading import load
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from protocol.records.transaction_records import encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.loop.timers import Timers
    from coordinator.load_summary import LoadSummary
    from coordinator.outcome import Input, Work
    from coordinator.transactions.events import TransactionEvent
    from coordinator.transactions.view import TransactionSettings
    from coordinator.view import Topics


class TransactionTenant:
    """What a leader of `__transaction_state` serves. `publish` gets every event, `begin` what the rules ask for."""

    noun = "transaction"
    key_name = "transactional_id"
    pulses: frozenset[type[Input]] = frozenset()

    def __init__(
        self,
        settings: TransactionSettings,
        publish: Callable[[TransactionEvent], None],
        begin: Callable[[Work], None],
    ) -> None:
        self.settings = settings  # of shards that are made from now on
        self._publish = publish
        self._begin = begin

    def new_shard(self, topics: Topics) -> TransactionShard:
        """An empty one."""
        return TransactionShard(self.settings, topics)

    def load(self, shard: TransactionShard, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
        """Fill an empty shard from its log. Raises: LoadFailed."""
        return load(shard, chunks)

    def encode_key(self, key: Any) -> bytes:
        """The bytes of a record's key. Raises: EncodeError."""
        return encode_key(key)

    def encode_value(self, value: Any) -> bytes:
        """The bytes of a record's value. Raises: EncodeError."""
        return encode_value(value)

    def loaded(self, key: str, load_ms: int, *, unclean: bool) -> Input:
        """A transactional id was read from the log."""
        return TransactionLoaded(key)

    def unload(self, key: str) -> Input:
        """A transactional id is given up."""
        return Unload(key)

    def timed_out(self, event: Input) -> ErrorCode:
        """What a request without records is answered that has waited for those before it for too long."""
        return error_for_client(ErrorCode.REQUEST_TIMED_OUT)

    def fill_in(
        self, event: Input, armed_by: type[Input], shard: TransactionShard, timers: Timers, now_ms: int
    ) -> None:
        """Timers of transactions know all that they need."""

    def publish(self, event: Any) -> None:
        """Tell everybody who listens what happened."""
        self._publish(event)

    def begin(self, work: Work) -> None:
        """Begin what an outcome asks the edge to do."""
        self._begin(work)
