"""Kafka's checkpoint files: small texts that are always replaced whole.

First line the version 0, second the number of entries, then one entry a line. An empty file has no entries; anything
else that is off is an error, since an offset taken wrongly from here loses data.

Source: Kafka's CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from storage.errors import CorruptFile
from storage.files import DISK, Disk, replace_file

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
LEADER_EPOCHS = "leader-epoch-checkpoint"

TopicPartition = tuple[str, int]


def format_checkpoint(lines: Iterable[str]) -> bytes:
    """The bytes of a checkpoint file with these entries."""
    entries = list(lines)
    return "".join([f"0\n{len(entries)}\n", *[f"{line}\n" for line in entries]]).encode()


def parse_checkpoint(path: Path, data: bytes) -> list[list[str]]:
    """The entries of a checkpoint file, each split at blanks. `path` is for the error's text.

    Raises: CorruptFile for another version, a wrong count, or bytes that are no text.
    """
    if not data:
        return []
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptFile(path, f"is no text: {error}") from error
    if lines[0].strip() != "0":
        raise CorruptFile(path, f"has version {lines[0]!r}, only 0 is known")
    if len(lines) < 2 or not lines[1].strip().isdigit():
        raise CorruptFile(path, "has no number of entries in its second line")
    expected, entries = int(lines[1]), lines[2:]
    if len(entries) != expected:
        raise CorruptFile(path, f"announces {expected} entries and has {len(entries)}")
    return [line.split() for line in entries]


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offset of each partition in an offset checkpoint; empty when the file is missing or empty.

    Raises: CorruptFile.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    return parse_offsets(path, data)


def parse_offsets(path: Path, data: bytes) -> dict[TopicPartition, int]:
    """As `read_offsets`, of a file's content. `path` is for the error's text."""
    offsets = {}
    for number, entry in enumerate(parse_checkpoint(path, data), start=3):
        try:
            topic, partition, offset = entry
            offsets[topic, int(partition)] = int(offset)
        except ValueError as error:
            raise CorruptFile(path, f"line {number} is not `topic partition offset`") from error
    return offsets


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], disk: Disk = DISK) -> None:
    """Replace an offset checkpoint; durable on return. Raises: StorageError, and the old file stays."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    replace_file(path, format_checkpoint(lines), disk)
