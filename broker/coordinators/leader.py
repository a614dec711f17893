"""The leader of one partition of a coordinator's topic: it loads the shard, serves it, and gives it up.

An input is handled at once, and the shard's outcome is turned into effects (`broker.coordinators.effects`).
Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from broker.coordinators.batches import LeaderState, chunks_of
from broker.coordinators.effects import Effects
from broker.coordinators.tenant import ShardT
from broker.loop.logs import get_logger
from coordinator.load_summary import LoadFailed
from protocol.errors import KafkaError, unraised

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.coordinators.batches import OutcomeBatch
    from broker.coordinators.tenant import Tenant
    from broker.loop.runtime import Runtime
    from broker.partitions import Partition
    from coordinator.outcome import Input
    from coordinator.view import Topics

log = get_logger(__name__)

_CHUNK_BYTES = 5_242_880


class Leader(Generic[ShardT]):
    """Owns a shard and its partition of the coordinator's topic. Only the event loop calls it."""

    leader_epoch = -1  # of the last load
    load_error: Exception | None = None  # why the last load went wrong
    unclean = False  # the broker had not been stopped in good order
    on_load: Callable[[Leader[ShardT]], None] | None = None  # the shard is there; nobody has been told yet
    on_load_failed: Callable[[Leader[ShardT]], None] | None = None  # nothing is served, see `load_error`

    def __init__(
        self,
        runtime: Runtime,
        tenant: Tenant[ShardT],
        index: int,
        topics: Topics,
        *,
        compression: int = 0,
        commit_timeout_ms: int = 5_000,
    ) -> None:
        self.index = index
        self.timers = runtime.timers
        self.now_ms = runtime.now_ms
        self._tenant = tenant
        self.effects: Effects[ShardT] = Effects(
            runtime,
            tenant,
            index,
            tenant.new_shard(topics),
            compression=compression,
            commit_timeout_ms=commit_timeout_ms,
            on_failure=self.fail,
            on_moved=self.load,
        )
        self.submit = self.effects.submit  # what every request calls: no step between
        self.when_settled = self.effects.when_settled

    @property
    def shard(self) -> ShardT:
        """The state and rules that are served."""
        return self.effects.shard

    @property
    def state(self) -> LeaderState:
        """Whether what the partition holds is served."""
        return self.effects.state

    @state.setter
    def state(self, state: LeaderState) -> None:
        self.effects.state = state

    def submit_each(self, make: Callable[[str], Input]) -> None:
        """An input for everything that the shard holds, such as a retention check.

        Each reads what is its own, so the records of those before it need not be applied yet.
        """
        effects = self.effects
        if not effects.serves():
            return
        effects.write_open()
        for key in self.shard.all_keys():
            if not effects.serves():
                return
            self._act(make(key), key)

    # -- taking over and giving up -------------------------------------------------------------------------

    def load(self, partition: Partition, chunk_bytes: int = _CHUNK_BYTES) -> None:
        """Make the shard from the partition's log, and serve it from now on. A load is one call: nothing runs between.

        A log that cannot be understood leaves the partition failed, with a line that says why.
        """
        effects, tenant = self.effects, self._tenant
        if effects.serves():
            self._end(LeaderState.LOADING)
        started_ms = self.now_ms()
        shard = tenant.new_shard(self.shard.topics)
        effects.partition = partition
        self.leader_epoch = partition.leader_epoch
        try:
            loaded = tenant.load(shard, lambda: chunks_of(partition, chunk_bytes))
        except (LoadFailed, KafkaError, OSError) as error:
            self.load_failed(error)
            return
        if loaded.skipped_types:
            log.warning(f"{tenant.noun}_records_skipped", partition=self.index, types=loaded.skipped_types)
        if loaded.contradictions:
            count, first = len(loaded.contradictions), loaded.contradictions[0]
            log.error(f"{tenant.noun}_records_contradicted", partition=self.index, count=count, first=first)
        effects.serve(shard)
        effects.end_offset = partition.log_end_offset
        self.state = LeaderState.ACTIVE
        self.load_error = None
        load_ms = self.now_ms() - started_ms
        if self.on_load is not None:
            self.on_load(self)
        for key in list(shard.states):
            self._act(tenant.loaded(key, load_ms, unclean=self.unclean), key)

    def load_failed(self, error: Exception) -> None:
        """Nothing is served until a load goes well."""
        self.state = LeaderState.FAILED
        if self.load_error is None:  # once for all tries
            log.error(f"{self._tenant.noun}_load_failed", partition=self.index, error=str(error))
        self.load_error = unraised(error)  # the frames of the other hold what was loaded by then
        if self.on_load_failed is not None:
            self.on_load_failed(self)

    def recovered(self, partition: Partition, chunk_bytes: int = _CHUNK_BYTES) -> None:
        """The partition's log was opened anew after a failure. If all that we know is in it, nobody need notice."""
        effects = self.effects
        if effects.serves() and not effects.in_flight and partition.log_end_offset == effects.end_offset:
            return
        self.load(partition, chunk_bytes)

    def resign(self, leader_epoch: int) -> None:
        """Give the partition up, unless what is loaded is as new as this epoch."""
        if leader_epoch <= self.leader_epoch:
            return
        self.leader_epoch = leader_epoch
        self.close()

    def close(self) -> None:
        """Write what is open, tell everybody who waits to look for the coordinator, and forget everything."""
        if self.effects.serves():
            self.effects.write_open()
            self._end(LeaderState.RESIGNED)
        self.state = LeaderState.RESIGNED

    def fail(self, batch: OutcomeBatch | None = None) -> None:
        """The log failed, with `batch` and all in flight: answer everybody. `load` goes on when it is repaired."""
        if self.effects.serves():
            self._end(LeaderState.FAILED, batch)

    def _end(self, state: LeaderState, failed: OutcomeBatch | None = None) -> None:
        self.effects.give_up(state, failed)
        for key in list(self.shard.states):
            self._act(self._tenant.unload(key), key)
        self.effects.serve(self._tenant.new_shard(self.shard.topics))

    def _act(self, event: Input, key: str) -> None:
        self.effects.act(event, key, self.shard.handle(event, self.now_ms()))
