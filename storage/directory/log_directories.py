"""The folders of `log.dirs` together, one a disk, and the one that the metadata log lies in.

Always true: no folder is there twice, all belong to one cluster and one node, each has an id of its own, and the
metadata log lies in one of them only.

Source: Kafka's LogManager, KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from protocol.types import uuid_text
from storage.directory import meta_properties
from storage.directory.log_directory import METADATA_FOLDER, LogDirectory, parse_folder_name
from storage.errors import CorruptFile, DirectoryRefused, DirectoryUnusable, StorageError
from storage.files import DISK, Disk
from storage.reading.checkpoints import read_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from storage.directory.log_directory import Scan
    from storage.directory.meta_properties import MetaProperties

Key = tuple[str, int]


class LogDirectories:
    """`logs` hold the partitions, in the order of `log.dirs`; `metadata` is one of them or a folder of its own."""

    def __init__(self, logs: Sequence[LogDirectory], metadata: LogDirectory, disk: Disk = DISK) -> None:
        self.logs = tuple(logs)
        self.metadata = metadata
        self.away: dict[Path, str] = {}
        """The directories that cannot be used, and why: what lies there is offline until a start finds it again."""
        self._disk = disk
        self._unwritten: list[tuple[LogDirectory, MetaProperties]] = []

    @classmethod
    def open(
        cls,
        log_dirs: Sequence[str],
        metadata_log_dir: str | None = None,
        disk: Disk = DISK,
        *,
        all_of_them: bool = False,
    ) -> LogDirectories:
        """Lock them all; what is not there is made. One that cannot be used is `away`, unless it has the metadata log.

        Raises: DirectoryRefused, and then none is locked; also for one that is away when `all_of_them` are wanted.
        """
        paths = absolute_paths(log_dirs)
        metadata_path = metadata_directory(log_dirs, metadata_log_dir)
        every = list(dict.fromkeys((*paths, metadata_path)))
        check_distinct(every)  # first: a lock that is taken twice is lost when one of the two is given up
        opened: list[LogDirectory] = []
        try:
            away = {}
            for path in every:
                try:
                    opened.append(LogDirectory.open(path, disk))
                except DirectoryUnusable as error:
                    if all_of_them or path == metadata_path:
                        raise
                    away[path] = str(error)
            check_distinct([one.path for one in opened])
            if not any(path not in away for path in paths):
                raise DirectoryRefused(f"none of log.dirs can be used: {'; '.join(away.values())}")
        except BaseException:
            for one in opened:
                one.close()
            raise
        by_path = {one.path: one for one in opened}
        made = cls([by_path[path] for path in paths if path in by_path], by_path[metadata_path], disk)
        made.away = away
        return made

    def give_up(self, directory: LogDirectory, error: Exception) -> None:
        """The disk fails: go on without. Raises: the error, when the metadata log or the last of `logs` is there."""
        if directory is self.metadata or len(self.logs) == 1:
            raise error
        self.logs = tuple(one for one in self.logs if one is not directory)
        self._unwritten = [(one, meta) for one, meta in self._unwritten if one is not directory]
        self.away[directory.path] = str(error)
        directory.close()

    def __iter__(self) -> Iterator[LogDirectory]:
        """All of them, the metadata log's too."""
        return iter(dict.fromkeys((*self.logs, self.metadata)))

    def close(self) -> None:
        """Give up every lock."""
        for one in self:
            one.close()

    def identify(self, *, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None = None) -> MetaProperties:
        """Learn every folder's identity; return that of the metadata log's, which is made when all of them are new.

        A new folder beside others gets its identity by `write_identities`, when the metadata log has told that nothing
        is missing from it: it may be the place where a disk should have been mounted.
        Raises: CorruptFile, DirectoryRefused, StorageError.
        """
        known = [one for one in self if (one.path / meta_properties.FILE).exists()]
        if known and self.metadata not in known:
            raise DirectoryRefused(
                f"{self.metadata.path}: it has no {meta_properties.FILE}, and {known[0].path} has one; the metadata "
                "log lies in metadata.log.dir, which is the first of log.dirs when it is not set"
            )
        for one in self:
            if one is not self.metadata and (one.path / METADATA_FOLDER).exists():
                raise DirectoryRefused(
                    f"{one.path / METADATA_FOLDER}: a metadata log lies here, and metadata.log.dir is "
                    f"{self.metadata.path}; without metadata.log.dir it is the first of log.dirs"
                )
        identity = self.metadata.identity(node_id=node_id, new_uuid=new_uuid, cluster_id=cluster_id)
        ids: dict[bytes, Path] = {}
        for one in list(self):
            try:
                meta, written = meta_properties.plan(
                    one.path, node_id=node_id, new_uuid=new_uuid, cluster_id=identity.cluster_id
                )
            except StorageError as error:
                self.give_up(one, error)
                continue
            file = one.path / meta_properties.FILE
            if meta.cluster_id != identity.cluster_id:
                raise CorruptFile(
                    file,
                    f"the directory belongs to cluster {meta.cluster_id}, and {self.metadata.path} to "
                    f"{identity.cluster_id}",
                )
            if meta.directory_id in ids:
                text = uuid_text(meta.directory_id)
                raise CorruptFile(file, f"directory.id {text} is that of {ids[meta.directory_id]} too")
            ids[meta.directory_id] = one.path
            one.directory_id = meta.directory_id
            if not written:
                self._unwritten.append((one, meta))
        return identity

    @property
    def new(self) -> frozenset[LogDirectory]:
        """Those without an identity of their own yet, and without a partition: somebody may have moved one there."""
        return frozenset(
            one for one, _ in self._unwritten if not any(parse_folder_name(each.name) for each in one.path.iterdir())
        )

    def write_identities(self) -> None:
        """Write what `identify` has left; a directory that refuses is given up. Raises: as `give_up`."""
        for one, meta in list(self._unwritten):
            try:
                meta_properties.write(one.path, meta, self._disk)
            except StorageError as error:
                self.give_up(one, error)
        self._unwritten.clear()

    def scans(self) -> list[tuple[LogDirectory, Scan]]:
        """The folders in each. Raises: as `LogDirectory.scan`, CorruptFile when the metadata log of them is away."""
        found = []
        for one in self.logs:
            try:
                found.append((one, one.scan()))
            except OSError as error:
                self.give_up(one, error)
        metadata = self.metadata.path / METADATA_FOLDER
        if any(scan.logs for _, scan in found) and not metadata.exists():
            why = "it is not there, and there are folders of partitions"
            raise CorruptFile(metadata, f"{why}: restore it from a copy, name its metadata.log.dir, or move them away")
        return found

    def offsets_in(self, scans: Sequence[tuple[LogDirectory, Scan]], name: str) -> list[tuple[Scan, dict[Key, int]]]:
        """What the checkpoint file of this name says in each that can be read. Raises: CorruptFile, OSError."""
        found = []
        for directory, scan in scans:
            if directory not in self.logs:
                continue
            try:
                found.append((scan, read_offsets(directory.path / name)))
            except OSError as error:
                self.give_up(directory, error)
        return found


def offsets_of(
    found: Sequence[tuple[Scan, Mapping[Key, int]]], topic_id: Callable[[Key], bytes | None]
) -> dict[Key, int]:
    """What `LogDirectories.offsets_in` has found: of a partition, the file where its folder is.

    `topic_id` is that of the partition's topic now: what is said of a folder that an older topic of this name has left,
    in a directory that was away when that was deleted, would throw away the records of the new one.
    """
    offsets: dict[Key, int] = {}
    for scan, content in found:
        for key, offset in content.items():
            if key in scan.logs:
                if scan.logs[key] in (None, topic_id(key)):
                    offsets[key] = offset
            elif not any(key in other.logs for other, _ in found):
                offsets[key] = offset
    return offsets


def absolute_paths(log_dirs: Sequence[str]) -> list[Path]:
    """The folders that `log.dirs` names. Raises: DirectoryRefused for one that is there twice, or none."""
    paths = [Path(one).absolute() for one in log_dirs if one]
    if not paths:
        raise DirectoryRefused("log.dirs names no directory")
    if len(set(paths)) != len(paths):
        raise DirectoryRefused(f"log.dirs={','.join(log_dirs)}: it names a directory twice")
    return paths


def metadata_directory(log_dirs: Sequence[str], metadata_log_dir: str | None) -> Path:
    """Where the metadata log lies. Source: Kafka's AbstractKafkaConfig.metadataLogDir."""
    return Path(metadata_log_dir).absolute() if metadata_log_dir else absolute_paths(log_dirs)[0]


def check_distinct(paths: Sequence[Path]) -> None:
    """Raises: DirectoryRefused when two of these are the same folder by another name, or one lies in another."""
    real: dict[Path, Path] = {}
    nodes: dict[tuple[int, int], Path] = {}  # a folder that is mounted at two places has two paths
    for path in paths:
        place = path.resolve()
        twin = real.get(place)
        if place.exists():
            status = place.stat()
            twin = nodes.setdefault((status.st_dev, status.st_ino), path) if twin is None else twin
        if twin is not None and twin is not path:
            raise DirectoryRefused(f"log.dirs: {twin} and {path} are the same directory")
        real[place] = path
    for place, path in real.items():
        for above in place.parents:
            if above in real:
                raise DirectoryRefused(f"log.dirs: {path} lies in {real[above]}, where only partitions may lie")
