"""Keeps folders, in each log directory, and partitions as the catalogue says.

Folders are made in a worker after the metadata is durable, partitions open on the event loop when they are first asked
for, and a deleted topic's folders are renamed after nobody can reach it any more. Of the topics that coordinators are
led by, every partition is asked for as soon as there is one: the worker opens their logs too, which makes three files
in each.

Source: Kafka's BrokerMetadataPublisher.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker.catalogue.listeners import Discarding, Preparing
from broker.catalogue.topics_delta import TopicsListener
from broker.loop.logs import get_logger
from storage.directory.log_directory import read_topic_id
from storage.errors import CorruptFile, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import Topic, TopicsImage
    from broker.loop.runtime import Runtime
    from broker.partitions import Partitions
    from broker.partitions.table import Key, Opened
    from storage.directory.log_directory import LogDirectory, Scan

    _Wanted: TypeAlias = dict[Key, tuple[bytes, LogDirectory]]  # by partition: topic id, and where its folder belongs

log = get_logger(__name__)


class _Prepared(NamedTuple):
    refused: _Wanted
    """The folders that the disk has refused."""
    opened: list[tuple[Topic, int, Opened]]


class TopicFolders(TopicsListener, Preparing, Discarding):
    """The log directories and the open partitions. `served_whole`: topics whose logs are opened when they are made."""

    def __init__(
        self,
        runtime: Runtime,
        directories: Sequence[LogDirectory],
        partitions: Partitions,
        *,
        new_uuid: Callable[[], bytes],
        delete_delay_ms: int,
        some_away: bool = False,
        served_whole: Collection[str] = (),
    ) -> None:
        self._runtime = runtime
        self._served_whole = frozenset(served_whole)
        self._directories = tuple(directories)
        self._only = directories[0] if len(directories) == 1 and not some_away else None
        self._by_id = {one.directory_id: one for one in directories}
        self._partitions = partitions
        self._new_uuid = new_uuid
        self._delete_delay_ms = delete_delay_ms
        self._retired: list[Any] = []
        self._left: _Wanted = {}  # folders of deleted topics that the disk refused to rename

    def _directory_of(self, topic: Topic, partition: int) -> LogDirectory | None:
        """None when it could not be opened at the start: what lies there is left as it is."""
        if self._only is not None:
            return self._only
        return self._by_id.get(topic.directories[partition]) if len(topic.directories) > partition else None

    def adopt(self, scans: Sequence[tuple[LogDirectory, Scan]], state: ClusterState, image: TopicsImage) -> None:
        """At start: set strays aside, make what is missing, delete what was deleted. Raises: StorageError."""
        wanted = {
            (topic.name, partition): (topic.topic_id, self._directory_of(topic, partition))
            for topic in image
            for partition in range(topic.partition_count)
        }
        made = {key: (topic_id, its) for key, (topic_id, its) in wanted.items() if its is not None}
        refused: _Wanted = {}
        to_delete: list[Path] = []
        for directory, scan in scans:
            to_delete += scan.to_delete
            for (name, partition), topic_id in scan.logs.items():
                its_id, its_directory = wanted.get((name, partition), (None, None))
                if its_directory is directory and topic_id is not None and its_id == topic_id:
                    del made[name, partition]
                    continue
                if topic_id is None and directory.is_unfinished(name, partition):
                    # Killed while it was made: `create_folders` finishes it if it is wanted.
                    if its_directory is directory:
                        continue
                    kind = "delete"
                else:
                    # A topic that was deleted is finished with; anything else is kept: it may be somebody's only copy.
                    kind = "delete" if topic_id in state.removed_topic_ids else "stray"
                try:
                    target = directory.retire(name, partition, unique=self._new_uuid(), kind=kind)
                except StorageError as error:
                    self._refused_at_start(directory, error)
                    if its_directory is directory:
                        refused[name, partition] = made.pop((name, partition))
                    continue
                log.warning("folder_set_aside", topic=name, partition=partition, folder=str(target), kind=kind)
                if kind == "delete" and target is not None:
                    to_delete.append(target)
        if made:
            log.info("folders_created", count=len(made))
        for directory in self._directories:
            its = {key: one for key, one in made.items() if one[1] is directory}
            try:
                directory.create_folders({key: topic_id for key, (topic_id, _) in its.items()})
            except StorageError as error:
                self._refused_at_start(directory, error)
                refused |= its
        self._partitions.topics_changed(image.names(), image)
        self._unmade(refused)
        self.remove_later(to_delete)

    def _refused_at_start(self, directory: LogDirectory, error: StorageError) -> None:
        """Raises: the error, where all partitions lie in one directory: a start without any would be none."""
        if self._only is not None:
            raise error
        log.error("folders_not_made_or_renamed", directory=str(directory.path), error=str(error))
        self._runtime.soon(partial(self._partitions.disks.suspect, directory.path))

    def prepare(self, delta: TopicsDelta) -> _Prepared:
        """Make the folders of new partitions.

        Those whose folders the disk refuses are out of service until somebody asks for them when the folder can be
        made: records in a folder without its topic's id would be taken for somebody else's at the next start, by Kafka
        too.
        """
        new = [(topic, p) for topic in delta.created for p in range(topic.partition_count)]
        for before, after in delta.grown:
            new += [(after, p) for p in range(before.partition_count, after.partition_count)]
        wanted: _Wanted = {}
        for topic, partition in new:
            directory = self._directory_of(topic, partition)
            assert directory is not None  # new ones go where there is a directory
            wanted[topic.name, partition] = topic.topic_id, directory
        refused: _Wanted = {}
        for place in self._directories:
            its = {key: one for key, one in wanted.items() if one[1] is place}
            try:
                self._make(its)
            except (StorageError, CorruptFile) as error:
                log.error("folders_not_created", error=str(error))
                refused |= its
        opened = [
            (topic, partition, self._partitions.open_log(topic, partition))
            for topic, partition in new
            if topic.name in self._served_whole and (topic.name, partition) not in refused
        ]
        return _Prepared(refused, opened)

    def _make(self, wanted: _Wanted) -> None:
        """Make these folders, all of them in one directory."""
        for directory in {directory for _, directory in wanted.values()}:
            self._partitions.checkpoints.settle(directory.path)
        for (name, partition), (topic_id, directory) in wanted.items():
            # The folder of a topic of this name that was deleted, if the disk refused to rename it then.
            directory.retire_others(name, partition, topic_id, unique=self._new_uuid)
        for directory in {directory for _, directory in wanted.values()}:
            directory.create_folders({key: topic_id for key, (topic_id, _) in wanted.items()})

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: _Prepared) -> None:
        """The partitions are now as `image` says."""
        self._partitions.topics_changed(_names(delta), image)
        self._unmade(prepared.refused)
        for topic, partition, opened in prepared.opened:
            self._partitions.take(topic, partition, opened)

    def _unmade(self, refused: _Wanted) -> None:
        for key, one in refused.items():
            self._partitions.unmade[key] = partial(self._make, {key: one})

    def discard(self, delta: TopicsDelta) -> None:
        """Rename the folders of deleted topics, and remove them after `file.delete.delay.ms`."""
        self._partitions.abandon_deleted()
        gone = [(topic.name, partition) for topic in delta.deleted for partition in range(topic.partition_count)]
        try:
            self._partitions.checkpoints.forget(gone)
        except (StorageError, CorruptFile) as error:
            log.error("checkpoints_not_cleared", partitions=len(gone), error=str(error))
        retired = []
        for topic in delta.deleted:
            for partition in range(topic.partition_count):
                directory = self._directory_of(topic, partition)
                if directory is None:
                    continue  # found at a start when it is back
                try:
                    target = directory.retire(topic.name, partition, unique=self._new_uuid())
                except StorageError as error:
                    # Found by `settle`, or at the next start by its topic id, which the log says was removed.
                    self._left[topic.name, partition] = topic.topic_id, directory
                    log.error("folder_not_renamed", topic=topic.name, partition=partition, error=str(error))
                    continue
                if target is not None:
                    retired.append(target)
        self._retired.extend(retired)

    def settle(self) -> None:
        """Rename what `discard` could not, before the record of it goes. In a worker. Raises: StorageError."""
        for (name, partition), (topic_id, directory) in list(self._left.items()):
            try:
                if read_topic_id(directory.folder(name, partition)) == topic_id:
                    target = directory.retire(name, partition, unique=self._new_uuid())
                    if target is not None:
                        self._retired.append(target)
            except CorruptFile as error:
                raise StorageError("cannot read", error.path) from error
            del self._left[name, partition]

    def discarded(self) -> None:
        """On the event loop, after `discard`: remove the renamed folders when their time has come."""
        retired, self._retired = self._retired, []
        self.remove_later(retired)

    def remove_later(self, folders: list[Path]) -> None:
        """Remove these folders after `file.delete.delay.ms`."""
        if not folders:
            return
        deadline_ms = self._runtime.now_ms() + self._delete_delay_ms

        def remove() -> None:
            import shutil  # noqa: PLC0415  0.4 MB, of decompressors mostly, for who deletes topics; this is a worker

            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

        def due() -> None:
            self._runtime.in_thread(remove, lambda _: None, lambda _: None)

        self._runtime.timers.set(("remove", folders[0]), deadline_ms, due)


def _names(delta: TopicsDelta) -> Iterable[str]:
    """Every topic that a delta touches, once."""
    touched: list[Topic] = [*delta.created, *delta.deleted, *delta.reconfigured]
    touched += [after for _, after in (*delta.grown, *delta.moved)]
    return dict.fromkeys(topic.name for topic in touched)
