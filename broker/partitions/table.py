"""All partitions of this node, opened and closed as the catalogue says.

After a clean stop a log is opened when its partition is first asked for, so that a start with thousands of partitions
is as fast as one with ten. After a crash it may have to be recovered, which takes time: `broker.log_keeper` does that
in worker threads, and who comes earlier is told to come again.

Source: Kafka's ReplicaManager and LogManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.fetch_sessions import FetchSessions
from broker.logs import get_logger
from broker.partitions.errors import PartitionFailed, PartitionLoading
from broker.partitions.flusher import Flusher
from broker.partitions.folders import DELETED, folder_of, make_folder, move_away, topic_id_in
from broker.partitions.partition import Partition
from broker.partitions.settings import partition_settings
from storage.errors import CorruptFile
from storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from broker.catalogue import TopicsDelta
    from broker.partitions.settings import PartitionSettings
    from broker.runtime import Runtime
    from broker.topic_configs import Effective
    from broker.topics_image import Topic, TopicsImage
    from protocol.errors import KafkaError

RELOAD_AFTER_MS = 1_000
"""How long a failed log is left alone before it is loaded anew, and again when that fails too."""

Key = tuple[str, int]
Opened = PartitionLog | Exception

log = get_logger()


class Partitions:
    """The partitions by (topic, partition), in `directory`. A `broker.catalogue.TopicsListener`.

    `effective` resolves a topic's configuration. `clean`: the last shutdown was. `recovery_points` and `log_starts` are
    the checkpoints of that shutdown.
    """

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        effective: Callable[[Topic], Effective],
        *,
        clean: bool = True,
        recovery_points: Mapping[Key, int] | None = None,
        log_starts: Mapping[Key, int] | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        fetch_session_slots: int = 1_000,
    ) -> None:
        self.runtime = runtime
        self.directory = directory
        self.flusher = Flusher(runtime)
        self.fetch_sessions = FetchSessions(fetch_session_slots)
        self.failures: dict[Key, KafkaError] = {}
        """The partitions that are failed now and why: not empty means that the broker is not ready."""
        self.on_recovered: list[Callable[[Partition], None]] = []
        """Called with each partition whose log was loaded anew after a failure: state made from it is stale."""
        self.recovery_points = dict(recovery_points or {})
        self.log_starts = dict(log_starts or {})
        """What the checkpoints say of partitions that are not open."""
        self.deleted_folders: list[Path] = []
        """Renamed to `-delete`; `broker.log_keeper` removes them."""
        self._clean = clean
        self._effective = effective
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._settings: dict[str, PartitionSettings] = {}
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[Key, Partition] = {}
        self._loading: set[Key] = set()
        self._to_wake: dict[Partition, None] = {}

    def __iter__(self) -> Iterator[Partition]:
        """The partitions whose logs are open."""
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def start(self, image: TopicsImage) -> None:
        """Serve the topics of `image`."""
        self._topics = {topic.name: topic for topic in image}

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, its log opened if need be; None when there is no such partition.

        Raises: PartitionLoading, PartitionFailed.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition
        known = self._topics.get(topic)
        if known is None or not 0 <= index < known.partition_count:
            return None
        if (topic, index) in self._loading:
            raise PartitionLoading(topic, index)
        return self._install(known, index, self.open_log(known, index))

    def of_topic(self, topic: str) -> list[Partition]:
        """The topic's partitions whose logs are open."""
        known = self._topics.get(topic)
        count = known.partition_count if known is not None else 0
        found = [self._partitions.get((topic, index)) for index in range(count)]
        return [partition for partition in found if partition is not None]

    def unopened(self) -> Iterator[tuple[Topic, int]]:
        """The partitions whose logs are neither open nor being opened."""
        for topic in list(self._topics.values()):
            for index in range(topic.partition_count):
                key = topic.name, index
                if key not in self._partitions and key not in self._loading:
                    yield topic, index

    # -- opening -------------------------------------------------------------------------------------------

    def open_log(self, topic: Topic, index: int) -> Opened:
        """The log of a partition, recovered if the last stop was not clean. Any thread, but one at a time per log."""
        key = topic.name, index
        try:
            folder = make_folder(self.directory, topic.name, index, topic.topic_id)
            return PartitionLog.open(
                folder,
                self.settings_of(topic).log,
                clean=self._clean,
                recovery_point=self.recovery_points.get(key, 0),
                log_start_offset=self.log_starts.get(key, 0),
                now_ms=self.runtime.now_ms(),
            )
        except Exception as error:
            return error

    def open_in_thread(self, work: list[tuple[Topic, int]], done: Callable[[], None]) -> None:
        """Open these logs in a worker thread; `done()` when they are there. Until then they are loading."""
        self._loading.update((topic.name, index) for topic, index in work)

        def finish(opened: list[Opened]) -> None:
            for (topic, index), result in zip(work, opened, strict=True):
                self._loading.discard((topic.name, index))
                if self._topics.get(topic.name) is not None and (topic.name, index) not in self._partitions:
                    try:
                        self._install(self._topics[topic.name], index, result)
                    except PartitionFailed as error:
                        log.error("partition_not_opened", topic=topic.name, partition=index, error=str(error))
            done()

        self.runtime.in_thread(
            lambda: [self.open_log(topic, index) for topic, index in work],
            finish,
            lambda error: finish([error] * len(work)),
        )

    def _install(self, topic: Topic, index: int, opened: Opened) -> Partition:
        key = topic.name, index
        if isinstance(opened, Exception):
            failure = PartitionFailed(topic.name, index, opened)
            if key not in self.failures:
                log.error("partition_not_opened", topic=topic.name, partition=index, error=str(opened))
            self.failures[key] = failure
            raise failure
        self.failures.pop(key, None)
        settings = self.settings_of(topic)
        partition = Partition(self, topic.name, index, topic.topic_id, opened, settings, topic.leader_epochs[index])
        self._partitions[key] = partition
        report = opened.recovery
        if report.truncated_bytes:
            log.warning(
                "log_truncated",
                topic=topic.name,
                partition=index,
                bytes=report.truncated_bytes,
                file=str(report.truncated_file),
                log_end_offset=opened.log_end_offset,
            )
        return partition

    def settings_of(self, topic: Topic) -> PartitionSettings:
        """What the topic's configuration means for its partitions."""
        settings = self._settings.get(topic.name)
        if settings is None:
            settings = partition_settings(
                self._effective(topic), producer_id_expiration_ms=self._producer_id_expiration_ms
            )
            self._settings[topic.name] = settings
        return settings

    # -- what the catalogue tells --------------------------------------------------------------------------

    def prepare(self, delta: TopicsDelta) -> dict[Key, Opened]:
        """Make and open the logs of new partitions. In a worker thread, while the old image is still served."""
        opened: dict[Key, Opened] = {}
        created = {topic.name for topic in delta.created}
        for topic in delta.deleted:
            if topic.name in created:
                self._settings.pop(topic.name, None)
                self._move_away(topic)  # deleted and created again in one round: the name must be free
        for topic in delta.created:
            self._settings.pop(topic.name, None)
            for index in range(topic.partition_count):
                opened[topic.name, index] = self.open_log(topic, index)
        for before, after in delta.grown:
            for index in range(before.partition_count, after.partition_count):
                opened[after.name, index] = self.open_log(after, index)
        return opened

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: dict[Key, Opened]) -> None:
        """Serve what `prepare` opened, forget what was deleted, follow changed configurations."""
        for topic in delta.deleted:
            self._forget(topic)
        changed = [*delta.created, *(after for _, after in delta.grown), *delta.reconfigured]
        for topic in changed:
            current = image.topic(topic.name)
            if current is not None:
                self._topics[topic.name] = current
        for (name, index), opened in prepared.items():
            try:
                self._install(self._topics[name], index, opened)
            except PartitionFailed:
                continue  # it is in `failures`, and opened when somebody asks for it again
        for topic in delta.reconfigured:
            self._settings.pop(topic.name, None)
            settings = self.settings_of(topic)
            for partition in self.of_topic(topic.name):
                if settings != partition.settings:
                    partition.configure(settings)

    def discard(self, delta: TopicsDelta) -> None:
        """Take the folders of what was deleted out of the way. In a worker thread."""
        for topic in delta.deleted:
            self._move_away(topic)

    def _forget(self, topic: Topic) -> None:
        known = self._topics.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id:
            del self._topics[topic.name]
        self._settings.pop(topic.name, None)
        for index in range(topic.partition_count):
            key = topic.name, index
            for facts in (self.failures, self.recovery_points, self.log_starts):
                facts.pop(key, None)  # type: ignore[attr-defined]  # three dicts by the same key
            partition = self._partitions.get(key)
            if partition is not None and partition.topic_id == topic.topic_id:
                del self._partitions[key]
                partition.delete()

    def _move_away(self, topic: Topic) -> None:
        for index in range(topic.partition_count):
            folder = folder_of(self.directory, topic.name, index)
            try:
                if topic_id_in(folder) == topic.topic_id:
                    self.deleted_folders.append(move_away(folder, DELETED))
            except (OSError, CorruptFile) as error:
                # Found again at the next start by its topic id, and removed then.
                log.error("partition_not_removed", topic=topic.name, partition=index, error=str(error))

    # -- what partitions need ------------------------------------------------------------------------------

    def wake(self, partition: Partition) -> None:
        """Tell the waiters of `partition` at the end of this turn, once for all that happened in it."""
        if not self._to_wake:
            self.runtime.soon(self._wake_waiters)
        self._to_wake[partition] = None

    def _wake_waiters(self) -> None:
        changed, self._to_wake = self._to_wake, {}
        for partition in changed:
            for waiter in list(partition.waiters):
                waiter.partition_changed(partition)

    def answer_waiters(self) -> None:
        """Let every parked fetch answer with what there is: the broker stops."""
        for partition in self:
            for waiter in list(partition.waiters):
                waiter.finish()

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
        old = partition.log
        try:
            fresh = PartitionLog.open(
                folder_of(self.directory, *key),
                partition.settings.log,
                recovery_point=old.recovery_point,
                log_start_offset=old.log_start_offset,
                now_ms=self.runtime.now_ms(),
            )
            # Under `always` what lies beyond the high watermark was refused, and its pages may not be on disk although
            # the cache shows them (a failed fsync marks them clean): it is cut, so that nobody ever reads it.
            if partition.settings.log.flush_messages == 1 and fresh.log_end_offset > partition.high_watermark:
                fresh.truncate_to(partition.high_watermark)
        except Exception as error:
            log.error("partition_reload_failed", topic=key[0], partition=key[1], error=str(error))
            self._reload_later(partition)
            return
        self.failures.pop(key, None)
        partition.recovered(fresh)
        log.warning("partition_reloaded", topic=key[0], partition=key[1], log_end_offset=fresh.log_end_offset)
        for callback in self.on_recovered:
            callback(partition)
