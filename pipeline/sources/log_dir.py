"""What lies in a log directory: partitions, their segments, indexes and checkpoints. Only names, sizes and small files
are looked at; nothing is written, and `.lock` is never opened, so a running broker is not disturbed.

Source: Kafka's LogLoader, LogFileUtils.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline.errors import DataError, UsageError
from pipeline.paths import local_path
from pipeline.sources.file_systems import files_of
from pipeline.sources.files import LOCAL, REMOTE, Files, read_whole
from pipeline.sources.tiered import Tiered, is_tier
from protocol.types import uuid_text
from storage.directory.log_directory import METADATA_FOLDER, PARTITION_METADATA, parse_folder_name, parse_topic_id
from storage.directory.meta_properties import FILE as META_PROPERTIES
from storage.directory.meta_properties import parse_properties
from storage.errors import CorruptFile
from storage.reading.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, parse_offsets
from storage.reading.folder import SWAP, Found, replaced_by
from storage.reading.walk import Walk

GROUPS_TOPIC = "__consumer_offsets"
METADATA_TOPIC = METADATA_FOLDER.rpartition("-")[0]
_SEGMENT = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(\.swap)?")


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a log. `next_offset` is the base of the segment behind it, None for the last."""

    base_offset: int
    path: str
    size_bytes: int
    next_offset: int | None = None
    modified_ms: int = 0
    files: Files = LOCAL

    @property
    def is_last(self) -> bool:
        """The active segment, whose end may still be growing."""
        return self.next_offset is None

    def beside(self, suffix: str) -> str:
        """The path of another of the segment's files: `.index`, `.timeindex`, `.txnindex`, `.snapshot`."""
        folder, _, name = self.path.rpartition("/")
        found = f"{folder}/{name.partition('.')[0]}{suffix}"
        # A replacement may be half way through being renamed.
        swapped = name.endswith(SWAP) and is_there(self.files, found + SWAP)
        return found + SWAP if swapped else found


@dataclass(frozen=True, slots=True)
class Partition:
    """One `<topic>-<partition>` folder. The three offsets are None where no checkpoint speaks of it."""

    topic: str
    number: int
    directory: str
    segments: tuple[Segment, ...]
    topic_id: str | None = None
    first_dirty_offset: int | None = None
    high_watermark: int | None = None
    checkpointed_start: int | None = None
    files: Files = LOCAL

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may see."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.checkpointed_start or 0)

    @property
    def size_bytes(self) -> int:
        """Of all `.log` files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.number


def scan(
    paths: str | Iterable[str],
    settings: Mapping[str, str] | None = None,
    wants: Callable[[str, int], bool] = lambda _topic, _number: True,
) -> list[Partition]:
    """Every wanted partition in the given directories (a comma list, or several), sorted by topic and number.

    A path is a log directory or a single `<topic>-<partition>` directory, of this machine or of what `pyarrow.fs`
    reaches, with its `settings`. The same partition may come up several times.
    Raises: UsageError when a path is none or holds no partition; DataError for an unreadable directory or checkpoint.
    """
    given = paths.split(",") if isinstance(paths, str) else list(paths)
    names = [path.strip() for path in given if path.strip()]
    if not names:
        raise UsageError("no path given")
    found: list[Partition] = []
    for name in names:
        files = files_of(name, settings or {})
        place = local_path(name) if files is LOCAL else name.rstrip("/")
        if place is None:
            raise UsageError(
                f"{name} is neither a local path nor one of {', '.join(REMOTE)}. Copy or mount the directory, or read "
                "the live broker with format kohort-kafka or Spark's kafka connector"
            )
        found += _scan_one(files, place, wants)
    return sorted(found, key=lambda partition: (partition.topic, partition.number, partition.directory))


def _scan_one(files: Files, path: str, wants: Callable[[str, int], bool]) -> list[Partition]:
    try:
        entries = files.entries(path)
        if not isinstance(files, Tiered) and is_tier(files, path.rstrip("/"), entries):
            return _scan_one(Tiered(files, path.rstrip("/")), path.rstrip("/"), wants)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except NotADirectoryError:
        raise UsageError(
            f"{path} is a file; give the log directory, or one <topic>-<partition> directory in it"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    whole = str(Path(path).resolve()) if files is LOCAL else path
    above, _, own_name = whole.rpartition("/")
    own = parse_folder_name(own_name)
    parsed = [(entry.name, parse_folder_name(entry.name)) for entry in entries if entry.is_folder]
    folders = [(name, folder) for name, folder in parsed if folder is not None and not folder.kind]
    try:
        if not folders and own is not None and any(_SEGMENT.fullmatch(entry.name) for entry in entries):
            found = [partition_in(path, own.topic, own.partition, files)] if wants(own.topic, own.partition) else []
            return _with_checkpoints(found, above)
        partitions = [
            partition_in(f"{path.rstrip('/')}/{name}", folder.topic, folder.partition, files)
            for name, folder in folders
            if wants(folder.topic, folder.partition)
        ]
    except OSError as error:
        raise DataError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    if not folders:
        names = [entry.name for entry in entries]
        some = f"only {', '.join(names[:5])}" if names else "it is empty"
        raise UsageError(f"{path} is no log directory: no <topic>-<partition> folder in it, {some}")
    return _with_checkpoints(partitions, path)


def partition_in(directory: str, topic: str, number: int, files: Files = LOCAL) -> Partition:
    """The segments in a partition's folder, complete replacements taken for what they replace. May raise OSError."""
    there = {entry.name: entry for entry in files.entries(directory) if not entry.is_folder}
    found = Found()
    for entry in there.values():
        found.note(Path(), entry.name, lambda size=entry.size_bytes: size)  # type: ignore[misc]
    logs = found.logs(Path(), partial(_replaced_by, files, directory))
    bases = list(logs)
    segments = []
    for base_offset, next_offset in zip(bases, [*bases[1:], None], strict=False):
        entry = there[logs[base_offset].name]
        place = f"{directory}/{entry.name}"
        segments.append(Segment(base_offset, place, entry.size_bytes, next_offset, entry.modified_ms, files))
    return Partition(topic, number, directory, tuple(segments), _topic_id(files, directory), files=files)


def _replaced_by(files: Files, directory: str, swap: Path) -> range:
    with files.open(f"{directory}/{swap.name}") as file:
        return replaced_by(swap, Walk(file.pread, file.size_bytes))


def _topic_id(files: Files, directory: str) -> str | None:
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        data = read_whole(files, path)
        return None if data is None else uuid_text(parse_topic_id(Path(path), data))
    except (CorruptFile, OSError):
        return None  # only names in rare records depend on it


def _with_checkpoints(partitions: list[Partition], log_directory: str) -> list[Partition]:
    if not partitions:
        return []
    cleaner, watermark, start = (
        _checkpoint(partitions[0].files, f"{log_directory}/{name}") for name in (CLEANER, HIGH_WATERMARK, LOG_START)
    )
    return [
        replace(
            partition,
            first_dirty_offset=cleaner.get(partition.key),
            high_watermark=watermark.get(partition.key),
            checkpointed_start=start.get(partition.key),
        )
        for partition in partitions
    ]


def _checkpoint(files: Files, path: str) -> dict[tuple[str, int], int]:
    try:
        data = read_whole(files, path)
        return {} if data is None else parse_offsets(Path(path), data)
    except CorruptFile as error:
        raise DataError(str(error)) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def is_there(files: Files, path: str) -> bool:
    """Whether there is such a file. May raise OSError."""
    try:
        with files.open(path):
            return True
    except FileNotFoundError:
        return False


def clusters_of(partitions: Iterable[Partition]) -> frozenset[str]:
    """The clusters in whose directories these lie; empty where one of them does not say. Raises: DataError."""
    folders = {(one.files, one.directory.rpartition("/")[0] or ".") for one in partitions}
    try:
        whole = [read_whole(files, f"{place}/{META_PROPERTIES}") for files, place in folders]
    except OSError as error:
        unread = " or ".join(sorted(f"{place}/{META_PROPERTIES}" for _, place in folders))
        raise DataError(f"{unread} cannot be read: {error.strerror}") from error
    found = {parse_properties((data or b"").decode("utf-8", "replace")).get("cluster.id", "") for data in whole}
    return frozenset() if "" in found else frozenset(found)


def again(partition_directory: str, topic: str, number: int, files: Files = LOCAL) -> Partition:
    """A partition's folder listed anew, checkpoints included. Raises: DataError when it is gone."""
    try:
        found = partition_in(partition_directory, topic, number, files)
        return _with_checkpoints([found], partition_directory.rpartition("/")[0])[0]
    except OSError as error:
        raise DataError(f"{partition_directory} cannot be read any more: {error.strerror}") from error
