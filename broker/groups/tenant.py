"""Groups as a tenant of the coordinators' runtime: their shard, their records, what only the edge knows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.silence import Edge, fill_in
from coordinator.append_errors import error_for_client
from coordinator.classic.inputs import GroupLoaded, Heartbeat, Unload
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.loading import load
from coordinator.offsets.inputs import CommitOffsets, FetchOffsets
from coordinator.shard import Shard
from protocol.errors import ErrorCode
from protocol.records.group_records import encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from broker.loop.timers import Timers
    from coordinator.events import GroupEvent
    from coordinator.load_summary import LoadSummary
    from coordinator.outcome import Input, Work
    from coordinator.shard import ConsumerSettingsOf
    from coordinator.view import GroupSettings, Topics


class GroupTenant:
    """What a leader of `__consumer_offsets` serves. `publish` gets every event of every group."""

    noun = "group"
    key_name = "group_id"

    def __init__(
        self,
        settings: GroupSettings,
        publish: Callable[[GroupEvent], None],
        consumer_settings: ConsumerSettingsOf | None = None,
        begin: Callable[[Work], None] | None = None,
        edge: Edge | None = None,
    ) -> None:
        self.pulses: frozenset[type[Input]] = frozenset({Heartbeat, CommitOffsets, ConsumerHeartbeat})
        self._settings = settings
        self._publish = publish
        self._consumer_settings = consumer_settings
        self._begin = begin
        self._edge = edge

    def new_shard(self, topics: Topics) -> Shard:
        """An empty one."""
        return Shard(self._settings, topics, self._consumer_settings)

    def load(self, shard: Shard, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
        """Fill an empty shard from its log. Raises: LoadFailed."""
        return load(shard, chunks)

    def encode_key(self, key: Any) -> bytes:
        """The bytes of a record's key. Raises: EncodeError."""
        return encode_key(key)

    def encode_value(self, value: Any) -> bytes:
        """The bytes of a record's value. Raises: EncodeError."""
        return encode_value(value)

    def loaded(self, key: str, load_ms: int, *, unclean: bool) -> Input:
        """A group was read from the log."""
        return GroupLoaded(key, load_ms, unclean)

    def unload(self, key: str) -> Input:
        """A group is given up."""
        return Unload(key)

    def timed_out(self, event: Input) -> ErrorCode:
        """What a request without records is answered that has waited for those before it for too long.

        Kafka answers a plain OffsetFetch at once, and gives one that waits this error. It is also the one that no
        client takes for "nothing is committed". Source: Kafka's GroupCoordinatorService.handleOffsetFetchException.
        """
        if type(event) is FetchOffsets:
            return ErrorCode.NOT_COORDINATOR
        return error_for_client(ErrorCode.REQUEST_TIMED_OUT)

    def fill_in(self, event: Input, armed_by: type[Input], shard: Shard, timers: Timers, now_ms: int) -> None:
        """Put what is known of silence into the input of a timer that fired."""
        fill_in(event, armed_by, shard, timers, now_ms, self._edge)

    def publish(self, event: Any) -> None:
        """Tell everybody who listens what happened."""
        self._publish(event)

    def begin(self, work: Work) -> None:
        """Begin what takes too long for the rules of a group."""
        assert self._begin is not None
        self._begin(work)
