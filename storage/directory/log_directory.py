"""The log directory: its lock, its clean-shutdown marker, and which folder in it is whose.

Always true: while a `LogDirectory` is open no other process, Kohort or Kafka, has the lock.

Source: Kafka's LogManager, FileLock, CleanShutdownFileHandler, PartitionMetadataFile.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.types import ZERO_UUID, uuid_from_text, uuid_text
from storage.directory import meta_properties
from storage.errors import CorruptFile, DirectoryRefused, DirectoryUnusable, StorageError
from storage.files import DISK, Disk, make_directory, replace_file, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage.directory.meta_properties import MetaProperties

LOCK = ".lock"
CLEAN_MARKER = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
METADATA_FOLDER = "__cluster_metadata-0"
_NOT_LOGS = {METADATA_FOLDER, "remote-log-index-cache"}
_MAX_NAME_BYTES = 255
_SUFFIXED = re.compile(r"(?P<topic>\S+)-(?P<partition>\S+)\.(?P<id>\S+)-(?P<kind>delete|stray|future)")


@dataclass(frozen=True, slots=True)
class FolderName:
    """What the name of a partition's folder says; `kind` is "", "delete", "stray" or "future"."""

    topic: str
    partition: int
    kind: str = ""


def parse_folder_name(name: str) -> FolderName | None:
    """The parts of a folder's name; None when it is no partition's. Source: Kafka's LocalLog."""
    if name.endswith(("-delete", "-stray", "-future")):
        match = _SUFFIXED.fullmatch(name)
        if match is None or not match["partition"].isdigit():
            return None
        return FolderName(match["topic"], int(match["partition"]), match["kind"])
    topic, _, partition = name.rpartition("-")
    if not topic or not partition.isdigit():
        return None
    return FolderName(topic, int(partition))


def suffixed_name(topic: str, partition: int, unique: bytes, kind: str) -> str:
    """`<topic>-<partition>.<32 hex>-<kind>`, the topic cut so that the whole has at most 255 characters."""
    tail = f"-{partition}.{unique.hex()}-{kind}"
    return topic[: _MAX_NAME_BYTES - len(tail)] + tail


@dataclass(slots=True)
class Scan:
    """The folders of a log directory at start."""

    logs: dict[tuple[str, int], bytes | None] = field(default_factory=dict)  # topic id; None without partition.metadata
    to_delete: list[Path] = field(default_factory=list)  # `-delete` folders of a run before
    set_aside: list[Path] = field(default_factory=list)  # `-stray` and `-future` folders: never touched


class LogDirectory:
    """One directory of `log.dirs`, locked for this process."""

    def __init__(self, path: Path, lock_fd: int, disk: Disk = DISK) -> None:
        self.path = path
        self.directory_id = b""  # once its identity is known
        self._lock_fd = lock_fd
        self._disk = disk

    @classmethod
    def open(cls, path: Path, disk: Disk = DISK) -> LogDirectory:
        """Create the directory if need be, for its owner alone, and lock it; the lock file says which process has it.

        Raises: DirectoryRefused with a sentence for the operator: in use, not a directory, not ours to write.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Record locks, as the JVM uses them; a process loses one when it closes any descriptor of the file, so
            # this is the only place that opens it.
            fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except (FileExistsError, NotADirectoryError) as error:
            raise DirectoryUnusable(f"the data directory {path} is not a directory") from error
        except PermissionError as error:
            raise DirectoryUnusable(
                f"the data directory {path} cannot be used: {error.strerror}; {_owners(path)}"
            ) from error
        except OSError as error:
            raise DirectoryUnusable(f"the data directory {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryRefused(
                    f"the data directory {path} is in use by another process, Kohort or Apache Kafka: stop that first, "
                    "or choose another log.dirs"
                ) from error
            raise DirectoryUnusable(f"the data directory {path} cannot be locked: {error.strerror}") from error
        with contextlib.suppress(OSError):  # a full disk: it is only for people, and for no reason not to start
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        return cls(path, fd, disk)

    def close(self) -> None:
        """Give up the lock; the file is removed, as Kafka does on a clean exit, if the disk lets it."""
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink()
            with contextlib.suppress(OSError):  # it is closed all the same
                os.close(fd)

    def identity(self, *, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None = None) -> MetaProperties:
        """The directory's `meta.properties`, made when it is new. Raises: CorruptFile, StorageError."""
        return meta_properties.load_or_create(
            self.path, node_id=node_id, new_uuid=new_uuid, cluster_id=cluster_id, disk=self._disk
        )

    def take_clean_marker(self) -> int | None:
        """The broker epoch of the last clean stop, -1 when it is not said; None after a crash.

        The marker is gone, durably, when this returns: whatever happens next is no clean stop.
        """
        path = self.path / CLEAN_MARKER
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError("cannot read", path, error) from error
        try:
            epoch = int(json.loads(data)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            epoch = -1
        try:
            self._disk.unlink(path)
            sync_directory(self.path, self._disk)
        except OSError as error:
            raise StorageError("cannot remove", path, error) from error
        return epoch

    def write_clean_marker(self, broker_epoch: int) -> None:
        """Say that everything is flushed and closed. The last write of a clean stop. Raises: StorageError."""
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        replace_file(self.path / CLEAN_MARKER, text.encode(), self._disk)

    def scan(self) -> Scan:
        """The folders that are there.

        Raises: DirectoryRefused for a folder that is no partition's, which would stop Kafka too, and CorruptFile for a
        `partition.metadata` that cannot be read.
        """
        scan = Scan()
        with os.scandir(self.path) as entries:
            folders = [entry.name for entry in entries if entry.is_dir()]
        for name in folders:
            if name in _NOT_LOGS:
                continue
            parsed = parse_folder_name(name)
            if parsed is None:
                raise DirectoryRefused(
                    f"{self.path / name} is not a partition's folder, and nothing else may lie in a data directory: "
                    "move it away"
                )
            if parsed.kind == "delete":
                scan.to_delete.append(self.path / name)
            elif parsed.kind:
                scan.set_aside.append(self.path / name)
            else:
                scan.logs[parsed.topic, parsed.partition] = read_topic_id(self.path / name)
        return scan

    def folder(self, topic: str, partition: int) -> Path:
        """Where a partition's files are."""
        return self.path / f"{topic}-{partition}"

    def create_folders(self, topics: Mapping[tuple[str, int], bytes]) -> None:
        """Make the folders of partitions with their `partition.metadata`, durably; one that is there is left.

        `topics` maps (topic, partition) to the topic id. Raises: StorageError.
        """
        for (topic, partition), topic_id in topics.items():
            folder = self.folder(topic, partition)
            try:
                make_directory(folder, self._disk)
            except OSError as error:
                raise StorageError("cannot create", folder, error) from error
            if not (folder / PARTITION_METADATA).exists():
                text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
                replace_file(folder / PARTITION_METADATA, text.encode(), self._disk)
        if topics:
            self.sync()

    def create_future(self, topic: str, partition: int, topic_id: bytes, *, unique: bytes) -> Path:
        """Make the folder of a partition that is to lie here, durably. Raises: StorageError."""
        folder = self.path / suffixed_name(topic, partition, unique, "future")
        try:
            make_directory(folder, self._disk)
        except OSError as error:
            raise StorageError("cannot create", folder, error) from error
        text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
        replace_file(folder / PARTITION_METADATA, text.encode(), self._disk)
        self.sync()
        return folder

    def rename_future(self, folder: Path, topic: str, partition: int) -> Path:
        """Give a `-future` folder its partition's name, for `sync` to make durable. May raise `OSError`."""
        self._disk.rename(folder, self.folder(topic, partition))
        return self.folder(topic, partition)

    def retire_future(self, folder: Path, topic: str, partition: int, *, unique: bytes) -> Path:
        """Rename a `-future` folder to `-delete`. Raises: StorageError."""
        target = self.path / suffixed_name(topic, partition, unique, "delete")
        try:
            self._disk.rename(folder, target)
        except OSError as error:
            raise StorageError("cannot rename", folder, error) from error
        self.sync()
        return target

    def is_unfinished(self, topic: str, partition: int) -> bool:
        """Whether a partition's folder holds nothing, or only what `create_folders` was about to finish."""
        return all(path.name.endswith(".tmp") for path in self.folder(topic, partition).iterdir())

    def retire_others(self, topic: str, partition: int, topic_id: bytes, *, unique: Callable[[], bytes]) -> None:
        """Rename to `-delete` what has a partition's name and another topic's id. Raises: StorageError, CorruptFile."""
        if read_topic_id(self.folder(topic, partition)) not in (None, topic_id):
            self.retire(topic, partition, unique=unique())

    def retire(self, topic: str, partition: int, *, unique: bytes, kind: str = "delete") -> Path | None:
        """Rename a partition's folder to `-delete` or `-stray`; None when there is none. Raises: StorageError."""
        folder = self.folder(topic, partition)
        target = self.path / suffixed_name(topic, partition, unique, kind)
        try:
            self._disk.rename(folder, target)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError("cannot rename", folder, error) from error
        self.sync()
        return target

    def give_back(self, retired: Path, topic: str, partition: int) -> None:
        """Undo `retire`. May raise `OSError`."""
        self._disk.rename(retired, self.folder(topic, partition))

    def sync(self) -> None:
        """Make the names in it durable. Raises: StorageError."""
        try:
            sync_directory(self.path, self._disk)
        except OSError as error:
            raise StorageError("cannot flush", self.path, error) from error


def _owners(path: Path) -> str:
    """Whose the directory is, or the nearest one above it that can be seen, and who is asking."""
    ask = f"this process runs as uid {os.geteuid()}: chown it, or choose another log.dirs"
    for place in (path / LOCK, path, *path.parents):
        try:
            return f"{place} belongs to uid {place.stat().st_uid}, {ask}"
        except OSError:
            continue
    return ask


def read_topic_id(folder: Path) -> bytes | None:
    """The topic id in a folder's `partition.metadata`, None when there is no such file. Raises: CorruptFile."""
    path = folder / PARTITION_METADATA
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptFile(path, str(error)) from error
    return parse_topic_id(path, data)


def parse_topic_id(path: Path, data: bytes) -> bytes:
    """As `read_topic_id`, of a file's content. `path` is for the error's text."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFile(path, str(error)) from error
    values = dict(re.split(r":\s+", line, maxsplit=1) for line in lines if re.search(r":\s+", line))
    try:
        if int(values["version"]) < 0:
            raise CorruptFile(path, f"version {values['version']} is not known")
        topic_id = uuid_from_text(values["topic_id"].strip())
    except (KeyError, ValueError) as error:
        raise CorruptFile(path, f"it is not what Kafka writes ({error})") from error
    if topic_id == ZERO_UUID:
        raise CorruptFile(path, "the topic id is zero")
    return topic_id
