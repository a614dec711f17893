"""The leader of one `__consumer_offsets` partition: it loads the shard, serves it, and gives it up.

An input is handled at once, and the shard's outcome is turned into effects (`broker.group_effects`).
Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.group_batches import GroupBatch, LeaderState, chunks_of
from broker.group_effects import GroupEffects
from broker.group_silence import silent_ms
from broker.logs import get_logger
from coordinator.classic.inputs import Loaded, Unload
from coordinator.loading import LoadFailed, load
from coordinator.offsets.inputs import ExpireOffsets, ForgetTopics
from coordinator.shard import Shard
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.partitions import Partition
    from coordinator.outcome import Input

log = get_logger()


class GroupLeader(GroupEffects):
    """Owns a `Shard` and its partition of `__consumer_offsets`. Only the event loop calls it."""

    leader_epoch = -1  # of the last load
    load_error: Exception | None = None  # why the last load went wrong
    unclean = False  # the broker had not been stopped in good order
    on_load: Callable[[GroupLeader], None] | None = None  # the shard is there; nobody has been told yet
    on_load_failed: Callable[[GroupLeader], None] | None = None  # nothing is served, see `load_error`

    def silent_ms(self, group_id: str, instance_id: str) -> int | None:
        """How long ago the member that holds an instance id was heard of; None when nobody does, or it waits now."""
        return silent_ms(self.shard.groups.get(group_id), instance_id, self._runtime.timers, self._now_ms())

    # -- the whole shard -----------------------------------------------------------------------------------

    def expire_offsets(self) -> None:
        """The retention check. Its tombstones may go into several batches."""
        self._each_group(ExpireOffsets)

    def forget_topics(self, topic_ids: dict[str, bytes]) -> None:
        """Topics were deleted (name -> the id that it had): what was committed for them goes."""
        self._each_group(lambda group_id: ForgetTopics(group_id, topic_ids))

    def _each_group(self, make: Callable[[str], Input]) -> None:
        if not self._serves():
            return
        if self._open is not None:
            self._write()
        # Each group reads its own offsets only, so the tombstones of the groups before it need not be applied yet.
        for group_id in self.shard.group_ids():
            if not self._serves():
                return
            event = make(group_id)
            self._act(event, group_id, self.shard.handle(event, self._now_ms()))

    # -- taking over and giving up -------------------------------------------------------------------------

    def load(self, partition: Partition, chunk_bytes: int = 5_242_880) -> None:
        """Make the shard from the partition's log, and serve it from now on. A load is one call: nothing runs between.

        A log that cannot be understood leaves the partition failed, with a line that says why.
        """
        if self._serves():
            self._end(LeaderState.LOADING)
        started_ms = self._now_ms()
        shard = Shard(self._settings, self.shard.topics)
        self._partition = partition
        self.leader_epoch = partition.leader_epoch
        try:
            loaded = load(shard, lambda: chunks_of(partition, chunk_bytes))
        except (LoadFailed, KafkaError, OSError) as error:
            self.load_failed(error)
            return
        if loaded.skipped_types:
            log.warning("group_records_skipped", partition=self.index, types=loaded.skipped_types)
        self.shard = shard
        self._end_offset = partition.log_end_offset
        self.state = LeaderState.ACTIVE
        self.load_error = None
        load_ms = self._now_ms() - started_ms
        if self.on_load is not None:
            self.on_load(self)
        for group_id in list(shard.groups):
            event = Loaded(group_id, load_ms, self.unclean)
            self._act(event, group_id, shard.handle(event, self._now_ms()))

    def load_failed(self, error: Exception) -> None:
        """Nothing is served until a load goes well."""
        self.state = LeaderState.FAILED
        if self.load_error is None:  # once for all tries
            log.error("group_load_failed", partition=self.index, error=str(error))
        self.load_error = error
        if self.on_load_failed is not None:
            self.on_load_failed(self)

    def recovered(self, partition: Partition, chunk_bytes: int = 5_242_880) -> None:
        """The partition's log was opened anew after a failure. If all that we know is in it, nobody need notice."""
        if self._serves() and not self._batches and partition.log_end_offset == self._end_offset:
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
        if self._serves():
            if self._open is not None:
                self._write()
            self._end(LeaderState.RESIGNED)
        self.state = LeaderState.RESIGNED

    def _fail(self, batch: GroupBatch | None = None) -> None:
        """The log failed with `batch` and all in flight: answer everybody. `load` goes on when it is repaired."""
        if batch is not None:
            self._batches.append(batch)
        if self._serves():
            self._end(LeaderState.FAILED)

    def _end(self, state: LeaderState) -> None:
        self.state = state
        batches = [*self._batches, *([self._open] if self._open is not None else [])]
        self._batches.clear()
        self._open = self._waiting = None
        for batch in batches:
            self._refused(batch, ErrorCode.KAFKA_STORAGE_ERROR)
        for group_id in list(self.shard.groups):
            event = Unload(group_id)
            self._act(event, group_id, self.shard.handle(event, self._now_ms()))
        self.shard = Shard(self._settings, self.shard.topics)
