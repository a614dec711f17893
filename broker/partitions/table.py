"""All partitions of this node, opened and closed as the catalogue says.

A log is opened when its partition is first asked for, so that a clean start with thousands of partitions is as fast as
one with ten; `broker.log_keeper` opens the others in the background.

Source: Kafka's ReplicaManager and LogManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.logs import get_logger
from broker.partitions.flusher import Flusher
from broker.partitions.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.partitions.partition import Waiter
    from broker.partitions.settings import PartitionSettings
    from broker.runtime import Runtime
    from broker.topics_image import Topic, TopicsImage
    from protocol.errors import KafkaError
    from storage.partition_log import PartitionLog

RELOAD_AFTER_MS = 1_000
"""How long a failed log is left alone before it is loaded anew, and again when that fails too."""

log = get_logger()


class Partitions:
    """The partitions by (topic, partition).

    `open_log(topic, index, settings)` opens or creates a log (may raise a `KafkaError` or `OSError`), `settings_of`
    resolves a topic's configuration, `discard(partition)` takes a deleted partition's files out of the way.
    """

    def __init__(
        self,
        runtime: Runtime,
        open_log: Callable[[Topic, int, PartitionSettings], PartitionLog],
        settings_of: Callable[[Topic], PartitionSettings],
        discard: Callable[[Partition], None] = lambda partition: None,
    ) -> None:
        self.runtime = runtime
        self.flusher = Flusher(runtime)
        self.failures: dict[tuple[str, int], KafkaError] = {}
        """The partitions that are failed now and why: not empty means that the broker is not ready."""
        self.on_recovered: list[Callable[[Partition], None]] = []
        """Called with each partition whose log was loaded anew after a failure: state made from it is stale."""
        self._open_log = open_log
        self._settings_of = settings_of
        self._discard = discard
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._to_wake: dict[Partition, None] = {}

    def __iter__(self) -> Iterator[Partition]:
        """The partitions whose logs are open."""
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, opened if need be; None when there is no such partition.

        Raises: KafkaError when its log cannot be opened.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        known = self._topics.get(topic)
        if known is None or not 0 <= index < known.partition_count:
            return None
        return self._open(known, index)

    def unopened(self) -> Iterator[tuple[str, int]]:
        """The partitions whose logs are not open yet, in no order."""
        for topic in list(self._topics.values()):
            for index in range(topic.partition_count):
                if (topic.name, index) not in self._partitions:
                    yield topic.name, index

    # -- what the catalogue publishes ----------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str], image: TopicsImage) -> None:
        """The topics of these names are now as `image` says: created, grown, configured anew or deleted."""
        for name in names:
            before, after = self._topics.get(name), image.topic(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._topic_deleted(before)
            if after is None:
                continue
            self._topics[name] = after
            if before is not None and before.topic_id == after.topic_id:
                self._topic_changed(before, after)

    def _topic_changed(self, before: Topic, after: Topic) -> None:
        settings = self._settings_of(after) if before.configs != after.configs else None
        for index, epoch in enumerate(after.leader_epochs):
            partition = self._partitions.get((after.name, index))
            if partition is None:
                continue
            partition.leader_epoch = epoch
            if settings is not None:
                partition.configure(settings)

    def _topic_deleted(self, topic: Topic) -> None:
        del self._topics[topic.name]
        for index in range(topic.partition_count):
            partition = self._partitions.pop((topic.name, index), None)
            self.failures.pop((topic.name, index), None)
            if partition is not None:
                partition.delete()
                self._discard(partition)

    def configs_changed(self) -> None:
        """A broker setting that stands behind topic configs changed: resolve them all again."""
        resolved: dict[str, PartitionSettings] = {}
        for partition in self:
            settings = resolved.get(partition.topic)
            if settings is None:
                settings = resolved[partition.topic] = self._settings_of(self._topics[partition.topic])
            if settings != partition.settings:
                partition.configure(settings)

    def _open(self, topic: Topic, index: int) -> Partition:
        settings = self._settings_of(topic)
        opened = self._open_log(topic, index, settings)
        partition = Partition(self, topic.name, index, topic.topic_id, opened, settings, topic.leader_epochs[index])
        self._partitions[topic.name, index] = partition
        return partition

    # -- what partitions need ------------------------------------------------------------------------------

    def wake(self, partition: Partition) -> None:
        """Tell the waiters of `partition` at the end of this turn, once for all that happened in it."""
        if not self._to_wake:
            self.runtime.soon(self._wake_waiters)
        self._to_wake[partition] = None

    def _wake_waiters(self) -> None:
        changed, self._to_wake = self._to_wake, {}
        for partition in changed:
            waiters: list[Waiter] = list(partition.waiters)
            for waiter in waiters:
                waiter.partition_changed(partition)

    def flush(self, partition: Partition) -> None:
        """Fsync what `partition` holds at the end of this turn."""
        self.flusher.request(partition)

    def failed(self, partition: Partition) -> None:
        """Load the log of `partition` anew, after a while."""
        key = partition.topic, partition.index
        assert partition.error is not None
        self.failures[key] = partition.error
        log.error("partition_failed", topic=key[0], partition=key[1], error=str(partition.error))
        self._reload_later(partition)

    def _reload_later(self, partition: Partition) -> None:
        key = "reload", partition.topic, partition.index
        deadline_ms = self.runtime.now_ms() + RELOAD_AFTER_MS
        self.runtime.timers.set(key, deadline_ms, lambda: self._reload(partition))

    def _reload(self, partition: Partition) -> None:
        key = partition.topic, partition.index
        if self._partitions.get(key) is not partition:
            return
        topic = self._topics[partition.topic]
        try:
            # What was committed stays. Under `always` the rest was refused, and its pages may not be on disk although
            # the cache shows them (a failed fsync marks them clean): it is cut, so that nobody reads it.
            fresh = self._open_log(topic, partition.index, partition.settings)
            if partition.settings.log.flush_messages == 1 and fresh.log_end_offset > partition.high_watermark:
                fresh.truncate_to(partition.high_watermark)
        except Exception as error:
            log.error("partition_reload_failed", topic=key[0], partition=key[1], error=str(error))
            self._reload_later(partition)
            return
        del self.failures[key]
        partition.recovered(fresh)
        log.warning("partition_reloaded", topic=key[0], partition=key[1], log_end_offset=fresh.log_end_offset)
        for callback in self.on_recovered:
            callback(partition)
