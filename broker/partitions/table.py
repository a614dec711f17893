"""All partitions of this node, opened and closed as the catalogue says.

Folders are made and renamed by `broker.partitions.folders`; here are the logs in them.

After a clean stop a log is opened when its partition is first asked for, so that a start with thousands of partitions
is as fast as one with ten. After a crash it may have to be recovered, which takes time: `log_manager` does that in
worker threads, and who comes earlier is told to come again.

Source: Kafka's ReplicaManager and LogManager.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from broker.loop.logs import get_logger
from broker.partitions.checkpoints import Checkpoints
from broker.partitions.checks import Checks
from broker.partitions.disks import DirectoryOffline, Disks
from broker.partitions.errors import PartitionFailed, PartitionLoading
from broker.partitions.fetch_sessions import FetchSessions
from broker.partitions.flusher import Flusher
from broker.partitions.partition import Partition
from broker.partitions.reload import open_again
from broker.partitions.settings import partition_settings, tail_of
from broker.partitions.writer import Writer
from protocol.errors import unraised
from storage.directory.directory_check import is_full
from storage.errors import StorageError, is_explained
from storage.log.log_lookup import LookRoom
from storage.log.partition_log import PartitionLog
from storage.reading.checkpoints import OFFSET_CHECKPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.topics_image import Topic, TopicsImage
    from broker.config.topic_configs import Effective
    from broker.loop.runtime import Runtime
    from broker.partitions.partition import Unchecked
    from broker.partitions.settings import PartitionSettings
    from protocol.errors import KafkaError

RELOAD_AFTER_MS = 1_000
"""How long a failed log is left alone before it is loaded anew, and again when that fails too."""

REFUSAL_LASTS_MS = 10_000
"""How long the broker is not ready after a refused write, and the shortest time between two log lines about that."""

Key = tuple[str, int]
Opened: TypeAlias = PartitionLog | Exception

log = get_logger(__name__)


class Partitions:
    """The partitions by (topic, partition), in `directory`; or, where there are several, in `directories` by their ids.

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
        trusted_topics: Collection[str] = (),
        directories: Mapping[bytes, Path] | None = None,
        away: Mapping[Path, str] | None = None,
    ) -> None:
        self.runtime = runtime
        self._directories_by_id = dict(directories or {})
        self.directories = tuple(self._directories_by_id.values()) or (directory,)
        self.disks = Disks(runtime, self._directories_by_id, away or {})
        self.disks.on_change = self._disk_changed
        self.flusher = Flusher(runtime)
        self.writer = Writer(runtime)
        self.checks = Checks(runtime, self.writer)
        self.look_room = LookRoom()
        self.fetch_sessions = FetchSessions(fetch_session_slots)
        self.failures: dict[Key, KafkaError] = {}
        """The partitions that are failed now and why: not empty means that the broker is not ready."""
        self._adopted = False
        self.on_recovered: list[Callable[[Partition], None]] = []
        """Called with each partition whose log was loaded anew after a failure: state made from it is stale."""
        self.on_offline: list[Callable[[Partition], None]] = []
        """Called with each partition that is open and whose log directory has gone offline."""
        self.on_deleted: list[Callable[[Key], None]] = []
        """Called with each partition that is deleted, its log open or not."""
        self.checkpoints = Checkpoints(self.directories, self._directory_of, self.disks.offline)
        self.recovery_points = dict(recovery_points or {})
        self.log_starts = dict(log_starts or {})
        """What the checkpoints say of partitions that are not open."""
        self.unclean = frozenset() if clean else frozenset(self.directories)
        """The directories whose last stop was not clean: logs in them are checked for what a crash may have left."""
        self._effective = effective
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._trusted_topics = frozenset(trusted_topics)
        self._settings: dict[str, PartitionSettings] = {}
        self._topics: dict[str, Topic] = {}
        self._still_written: list[PartitionLog] = []  # logs of deleted topics, perhaps by a worker thread
        self._partitions: dict[Key, Partition] = {}
        self.loading: set[Key] = set()
        """Being opened in a worker thread."""
        self.moving: Collection[Key] = ()
        """Those that are being copied into another directory: no cleaning may take from them what the copy needs."""
        self.copies: Callable[[], Iterable[tuple[Key, Path, int, int]]] = tuple
        """Of those: (partition, directory, bytes that are there, offsets that are not)."""
        self.unmade: dict[Key, Callable[[], None]] = {}
        """What makes the folders that the disk has refused. No log is opened in a folder that is not whole."""
        self.refusal: tuple[int, str] | None = None
        """When an append was last refused by the disk (ms), and how."""
        self.refusal_count = 0
        self._to_wake: dict[Partition, None] = {}
        self.on_disk_changed: Callable[[], None] = lambda: None
        """Called when a log directory has gone offline or come back."""

    def __iter__(self) -> Iterator[Partition]:
        """The partitions whose logs are open."""
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def recovers(self) -> bool:
        """Whether there are logs to be recovered."""
        return bool(self.unclean)

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
        if (topic, index) in self.loading:
            raise PartitionLoading(topic, index)
        return self._install(known, index, self.open_log(known, index))

    def opened(self, topic: str, index: int) -> Partition | None:
        """The partition if its log is open; opens none."""
        return self._partitions.get((topic, index))

    def has(self, topic: str, index: int) -> bool:
        """Whether there is such a partition, its log open or not."""
        known = self._topics.get(topic)
        return known is not None and 0 <= index < known.partition_count

    def all(self) -> Iterator[Key]:
        """Every partition there is, its log open or not."""
        for topic in self._topics.values():
            for index in range(topic.partition_count):
                yield topic.name, index

    def compacted(self) -> Iterator[Key]:
        """The partitions whose logs are to be compacted, open or not."""
        for topic in list(self._topics.values()):
            if self.settings_of(topic).log.compact:
                for index in range(topic.partition_count):
                    yield topic.name, index

    def of_topic(self, topic: str) -> list[Partition]:
        """The topic's partitions whose logs are open."""
        known = self._topics.get(topic)
        count = known.partition_count if known is not None else 0
        found = [self._partitions.get((topic, index)) for index in range(count)]
        return [partition for partition in found if partition is not None]

    def unopened(self) -> Iterator[tuple[Topic, int]]:
        """The partitions whose logs are neither open nor being opened, and have not failed to open."""
        for topic in list(self._topics.values()):
            for index in range(topic.partition_count):
                key = topic.name, index
                if key not in self._partitions and key not in self.loading and key not in self.failures:
                    yield topic, index

    # -- opening -------------------------------------------------------------------------------------------

    def folder(self, topic: str, index: int) -> Path:
        """Where a partition's files lie. There must be such a partition. Raises: DirectoryOffline."""
        directory = self._directory(self._topics[topic], index)
        if directory is None:
            self.disks.check(None)
            raise AssertionError
        return directory / f"{topic}-{index}"

    def _directory(self, topic: Topic, index: int) -> Path | None:
        """None for one that could not be opened at the start."""
        return self._directories_by_id.get(topic.directories[index]) if self._directories_by_id else self.directories[0]

    def _directory_of(self, key: Key) -> Path | None:
        topic = self._topics.get(key[0])
        return None if topic is None or key[1] >= topic.partition_count else self._directory(topic, key[1])

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition's log directory is offline."""
        offline = self.disks.offline
        if not offline:
            return False
        directory = self._directory_of((topic, index))
        return directory is None or directory in offline

    def size_bytes(self, topic: str, index: int) -> int:
        """Bytes in the partition's segments. Opens no log: they are summed up in its folder if need be."""
        partition = self._partitions.get((topic, index))
        if partition is not None:
            return partition.log.size_bytes
        total = 0
        try:
            with os.scandir(self.folder(topic, index)) as entries:
                for entry in entries:
                    if entry.name.endswith(".log"):
                        total += entry.stat().st_size
        except FileNotFoundError:
            return 0
        return total

    def open_log(self, topic: Topic, index: int) -> Opened:
        """The log of a partition, recovered if the last stop was not clean. Any thread, but one at a time per log."""
        key = topic.name, index
        try:
            make = self.unmade.get(key)
            if make is not None:
                make()
                self.unmade.pop(key, None)
            directory = self._directory(topic, index)
            self.disks.check(directory)
            assert directory is not None
            return PartitionLog.open(
                directory / f"{topic.name}-{index}",
                self.settings_of(topic).log,
                clean=directory not in self.unclean,
                recovery_point=self.recovery_points.get(key, 0),
                log_start_offset=self.log_starts.get(key, 0),
                now_ms=self.runtime.now_ms(),
                tail=tail_of(topic.name),
            )
        except Exception as error:
            if not is_explained(error):
                log.exception("log_open_failed", topic=topic.name, partition=index)
            return unraised(error)

    def open_once_more(self, topic: str, index: int, done: Callable[[], None]) -> None:
        """Try in a worker thread to open a log that could not be opened; `done()` when that has gone well or not."""
        known = self._topics.get(topic)
        if known is not None and (topic, index) not in self._partitions and (topic, index) not in self.loading:
            self.open_in_thread([(known, index)], done)
        else:
            self.runtime.next_turn(done)

    def open_in_thread(self, work: list[tuple[Topic, int]], done: Callable[[], None]) -> None:
        """Open these logs in a worker thread; `done()` when they are there. Until then they are loading."""
        self.loading.update((topic.name, index) for topic, index in work)
        self.runtime.in_thread(
            lambda: [self.open_log(topic, index) for topic, index in work],
            lambda opened: self._opened_in_thread(work, opened, done),
            lambda error: self._opened_in_thread(work, [error] * len(work), done),
        )

    def _opened_in_thread(
        self, work: list[tuple[Topic, int]], opened: Sequence[Opened], done: Callable[[], None]
    ) -> None:
        for (topic, index), result in zip(work, opened, strict=True):
            self.loading.discard((topic.name, index))
            self.take(topic, index, result)
        done()

    def take(self, topic: Topic, index: int, opened: Opened) -> None:
        """Serve the partition from what `open_log` has returned, unless it is gone or its log is open by now."""
        current = self._topics.get(topic.name)
        if current is None or current.topic_id != topic.topic_id or (topic.name, index) in self._partitions:
            return  # deleted meanwhile, and perhaps made again: this is not the log of the new one
        with suppress(PartitionFailed):  # which `failures` keeps, and a line has said
            self._install(current, index, opened)

    def _install(self, topic: Topic, index: int, opened: Opened) -> Partition:
        key = topic.name, index
        if isinstance(opened, Exception):
            failure = PartitionFailed(topic.name, index, opened)
            if key not in self.failures:
                log.error("partition_not_opened", topic=topic.name, partition=index, error=str(opened))
            self.failures[key] = failure
            if isinstance(opened, OSError | StorageError):
                self._suspect(key)
            raise failure.afresh()
        self.failures.pop(key, None)
        settings = self.settings_of(topic)
        partition = Partition(self, topic.name, index, topic.topic_id, opened, settings, topic.leader_epochs[index])
        self._partitions[key] = partition
        for path, why in opened.recovery.damaged:
            log.error("log_damaged", file=str(path), because=why)
        flushed = self.recovery_points.get(key, 0)
        if opened.log_end_offset < flushed:
            folder = str(self.folder(topic.name, index))
            log.error("log_ends_early", folder=folder, log_end_offset=opened.log_end_offset, flushed_to=flushed)
        for cut in (*opened.recovery.cuts, *opened.recovery.removed_segments):
            log.warning(
                "log_truncated",
                file=str(cut.path),
                bytes=cut.removed_bytes,
                position=cut.position,
                because=cut.why,
                log_end_offset=opened.log_end_offset,
            )
        opened.forget_recovery()
        return partition

    def settings_of(self, topic: Topic) -> PartitionSettings:
        """What the topic's configuration means for its partitions."""
        settings = self._settings.get(topic.name)
        if settings is None:
            settings = partition_settings(
                self._effective(topic),
                producer_id_expiration_ms=self._producer_id_expiration_ms,
                trusted=topic.name in self._trusted_topics or "*" in self._trusted_topics,
            )
            self._settings[topic.name] = settings
        return settings

    # -- what the catalogue tells --------------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str], image: TopicsImage) -> None:
        """The topics of these names are now as `image` says: created, grown, configured anew or deleted.

        The folders of new partitions are there; those of deleted ones are renamed afterwards.
        """
        if not self._adopted:
            self._adopted = True
            self._drop_stale_checkpoints(image)
        for name in names:
            before, after = self._topics.get(name), image.topic(name)
            self._settings.pop(name, None)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                self._forget(before)
                before = None
            if after is None:
                continue
            self._topics[name] = after
            if before is not None:
                self._follow(after)

    def _drop_stale_checkpoints(self, image: TopicsImage) -> None:
        """Forget what a crash amid a deletion has left of topics that are gone: their names may come again."""
        stale = set()
        for name in OFFSET_CHECKPOINTS:
            for key in self.checkpoints.read(name):
                topic = image.topic(key[0])
                if topic is None or key[1] >= topic.partition_count:
                    stale.add(key)
        for key in stale:
            self.recovery_points.pop(key, None)
            self.log_starts.pop(key, None)
        if stale:
            self.checkpoints.forget(stale)

    def _follow(self, topic: Topic) -> None:
        settings = self.settings_of(topic)
        for partition in self.of_topic(topic.name):
            partition.leader_epoch = topic.leader_epochs[partition.index]
            if settings != partition.settings:
                partition.configure(settings)

    def _forget(self, topic: Topic) -> None:
        del self._topics[topic.name]
        for index in range(topic.partition_count):
            key = topic.name, index
            self.failures.pop(key, None)
            self.recovery_points.pop(key, None)
            self.log_starts.pop(key, None)
            self.unmade.pop(key, None)
            partition = self._partitions.pop(key, None)
            if partition is not None:
                if partition.is_being_written or partition.error is not None:  # of one that failed a thread may be left
                    self._still_written.append(partition.log)
                partition.delete()
            for callback in self.on_deleted:
                callback(key)

    def abandon_deleted(self) -> None:
        """On return no thread writes to the logs of deleted topics, nor will: their folders' names may be others' then.

        In a worker; may block.
        """
        logs, self._still_written = self._still_written, []
        for one in logs:
            one.abandon()

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

    def flush(self, partition: Partition) -> None:
        """Fsync what `partition` holds at the end of this turn; not while it is handed over, which has its own."""
        if partition.held is not None:
            return
        self.flusher.request(partition)

    def check_later(self, partition: Partition, batch: Unchecked) -> None:
        """Have `batch` looked into and written by worker threads, behind those that wait already."""
        self.checks.add(partition, batch)

    def refused(self, partition: Partition, error: StorageError) -> None:
        """An append met a full or failing disk: the log is as before, and the broker lives on but is not ready."""
        now_ms = self.runtime.now_ms()
        if self.refusal is None or now_ms - self.refusal[0] >= REFUSAL_LASTS_MS:
            log.error("append_refused", topic=partition.topic, partition=partition.index, error=str(error))
        self.refusal = now_ms, str(error)
        self.refusal_count += 1
        if not is_full(error):
            self.suspect(partition)

    @property
    def not_ready(self) -> str | None:
        """Why the broker should not be called ready, None when it may be."""
        for error in self.failures.values():
            return str(error)
        if self.refusal is not None and self.runtime.now_ms() - self.refusal[0] < REFUSAL_LASTS_MS:
            return self.refusal[1]
        return None

    def failed(self, partition: Partition) -> None:
        """Load the log of `partition` anew, after a while."""
        key = partition.topic, partition.index
        assert partition.error is not None
        self.failures[key] = partition.error
        log.error("partition_failed", topic=key[0], partition=key[1], error=str(partition.error))
        self._reload_later(partition)
        self._suspect(key)

    def suspect(self, partition: Partition) -> None:
        """Something was refused by the disk: have its directory looked at."""
        self._suspect((partition.topic, partition.index))

    def _suspect(self, key: Key) -> None:
        directory = self._directory_of(key)
        if directory is not None:
            self.disks.suspect(directory)

    def _disk_changed(self, directory: Path) -> None:
        """A log directory went offline, and its partitions with it; or it is back: they are loaded anew."""
        if directory in self.disks.offline:
            why = DirectoryOffline(f"log directory {directory} is offline: {self.disks.offline[directory]}")
            for partition in self:
                if partition.log.directory.parent == directory:
                    partition.fail(why)
                    for callback in self.on_offline:
                        callback(partition)
        else:
            for key in [key for key in self.failures if key not in self._partitions]:
                if self._directory_of(key) == directory:
                    del self.failures[key]  # opened when somebody asks
        self.on_disk_changed()

    def _reload_later(self, partition: Partition) -> None:
        key = "reload", partition.topic, partition.index
        deadline_ms = self.runtime.now_ms() + RELOAD_AFTER_MS
        self.runtime.timers.set(key, deadline_ms, lambda: self._reload(partition))

    def _reload(self, partition: Partition) -> None:
        key = partition.topic, partition.index
        if self._partitions.get(key) is not partition:
            return
        if self.is_offline(*key) or partition.held is not None:
            self._reload_later(partition)
            return
        folder, now_ms = self.folder(*key), self.runtime.now_ms()

        def failed(error: Exception) -> None:
            log.error("partition_reload_failed", topic=key[0], partition=key[1], error=str(error))
            if self._partitions.get(key) is partition:
                self._reload_later(partition)

        def work() -> PartitionLog:
            make = self.unmade.get(key)
            if make is not None:
                make()
                self.unmade.pop(key, None)
            return open_again(partition, folder, now_ms)

        self.runtime.in_thread(work, lambda fresh: self._reloaded(partition, fresh), failed)

    def _reloaded(self, partition: Partition, fresh: PartitionLog) -> None:
        key = partition.topic, partition.index
        if self._partitions.get(key) is not partition:
            return
        self.failures.pop(key, None)
        partition.recovered(fresh)
        log.warning("partition_reloaded", topic=key[0], partition=key[1], log_end_offset=fresh.log_end_offset)
        for callback in self.on_recovered:
            callback(partition)
