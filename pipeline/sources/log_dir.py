"""What lies in a log directory: partitions, their segments, indexes and checkpoints. Only names, sizes and small files
are looked at; nothing is written, and `.lock` is never opened, so a running broker is not disturbed.

Source: Kafka's LogLoader, LogFileUtils.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.errors import DataError, UsageError
from pipeline.paths import local_path
from protocol.types import uuid_text
from storage.directory.log_directory import METADATA_FOLDER, parse_folder_name, read_topic_id
from storage.errors import CorruptFile
from storage.reading.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, read_offsets
from storage.reading.folder import SWAP, replaced_by, scan_folder, segment_path

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

    @property
    def is_last(self) -> bool:
        """The active segment, whose end may still be growing."""
        return self.next_offset is None

    def beside(self, suffix: str) -> Path:
        """The path of another of the segment's files: `.index`, `.timeindex`, `.txnindex`, `.snapshot`."""
        log = Path(self.path)
        name = log.name
        swapped = name.endswith(".swap")
        found = log.with_name(name.partition(".")[0] + suffix + (".swap" if swapped else ""))
        # A replacement may be half way through being renamed.
        return found if not swapped or found.exists() else found.with_suffix("")


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


def scan(paths: str | Iterable[str]) -> list[Partition]:
    """Every partition in the given directories (a comma list, or several), sorted by topic and number.

    A path is a log directory or a single `<topic>-<partition>` directory. The same partition may come up several times.
    Raises: UsageError when a path is none or holds no partition; DataError for an unreadable directory or checkpoint.
    """
    given = paths.split(",") if isinstance(paths, str) else list(paths)
    found: list[Partition] = []
    for name in [path.strip() for path in given if path.strip()]:
        place = local_path(name)
        if place is None:
            raise UsageError(
                f"{name} is no local path: Python workers have no Hadoop file system. Copy or mount the directory, "
                "or read the live broker with format kohort-kafka or Spark's kafka connector"
            )
        found += _scan_one(Path(place))
    if not found:
        raise UsageError("no path given")
    return sorted(found, key=lambda partition: (partition.topic, partition.number, partition.directory))


def _scan_one(path: Path) -> list[Partition]:
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    if not path.is_dir():
        raise UsageError(f"{path} is a file; give the log directory, or one <topic>-<partition> directory in it")
    own = parse_folder_name(path.resolve().name)
    try:
        names = sorted(entry.name for entry in os.scandir(path))
        folders = [(name, parse_folder_name(name)) for name in names if (path / name).is_dir()]
        partitions = [
            partition_in(path / name, folder.topic, folder.partition)
            for name, folder in folders
            if folder is not None and not folder.kind
        ]
        if not partitions and own is not None and any(_SEGMENT.fullmatch(name) for name in names):
            return [_with_checkpoints(partition_in(path, own.topic, own.partition), path.resolve().parent)]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if not partitions:
        some = f"only {', '.join(names[:5])}" if names else "it is empty"
        raise UsageError(f"{path} is no log directory: no <topic>-<partition> folder in it, {some}")
    return [_with_checkpoints(partition, path) for partition in partitions]


def partition_in(directory: Path, topic: str, number: int) -> Partition:
    """The segments in a partition's folder, complete replacements taken for what they replace. May raise OSError."""
    found = scan_folder(directory)
    logs = {base_offset: segment_path(directory, base_offset, ".log") for base_offset in found.sizes[".log"]}
    for swap in sorted(found.swaps_that_count()):
        if swap.name.endswith(".log" + SWAP):
            covered, _ = replaced_by(swap)
            logs = {base_offset: path for base_offset, path in logs.items() if base_offset not in covered}
            logs[covered.start] = swap
    listed = []
    for base_offset in sorted(logs):
        try:
            status = logs[base_offset].stat()
        except FileNotFoundError:
            continue  # removed since it was listed: retention, or the cleaner
        listed.append(
            Segment(base_offset, str(logs[base_offset]), status.st_size, None, status.st_mtime_ns // 1_000_000)
        )
    ends = [segment.base_offset for segment in listed[1:]]
    segments = [replace(segment, next_offset=end) for segment, end in zip(listed, [*ends, None], strict=False)]
    try:
        topic_id = read_topic_id(directory)
    except CorruptFile:
        topic_id = None  # only names in rare records depend on it
    return Partition(topic, number, str(directory), tuple(segments), uuid_text(topic_id) if topic_id else None)


def _with_checkpoints(partition: Partition, log_directory: Path) -> Partition:
    try:
        cleaner, watermark, start = (
            read_offsets(log_directory / name).get(partition.key) for name in (CLEANER, HIGH_WATERMARK, LOG_START)
        )
    except (CorruptFile, OSError) as error:
        raise DataError(str(error)) from error
    return replace(partition, first_dirty_offset=cleaner, high_watermark=watermark, checkpointed_start=start)


def again(partition_directory: str, topic: str, number: int) -> Partition:
    """A partition's folder listed anew, checkpoints included. Raises: DataError when it is gone."""
    path = Path(partition_directory)
    try:
        return _with_checkpoints(partition_in(path, topic, number), path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be read any more: {error.strerror}") from error
