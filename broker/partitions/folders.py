"""The folder of a partition: its name, the topic id in it, and how it goes.

Source: Kafka's LocalLog (names), PartitionMetadataFile; data-directory 1.3 and 1.4.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

from protocol.types import uuid_from_text, uuid_text
from storage.errors import CorruptFile
from storage.files import replace_file, sync_directory

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "partition.metadata"
DELETED = "-delete"
STRAY = "-stray"
_LONGEST_NAME = 255


def folder_of(directory: Path, topic: str, index: int) -> Path:
    """Where the partition's files lie."""
    return directory / f"{topic}-{index}"


def topic_id_in(folder: Path) -> bytes | None:
    """The topic id in a folder's `partition.metadata`, None when there is none. Raises: CorruptFile."""
    path = folder / METADATA
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return None
    facts = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return uuid_from_text(facts["topic_id"].strip())
    except (KeyError, ValueError) as error:
        raise CorruptFile(path, f"holds no topic id: {error}") from error


def make_folder(directory: Path, topic: str, index: int, topic_id: bytes) -> Path:
    """The partition's folder with its `partition.metadata`, made if it is not there.

    One of that name which belongs to another topic, or to none, is set aside as a stray first: nothing is deleted.
    """
    folder = folder_of(directory, topic, index)
    if folder.is_dir():
        found = topic_id_in(folder)
        if found == topic_id:
            return folder
        if found is not None or any(folder.iterdir()):
            move_away(folder, STRAY)
    folder.mkdir(exist_ok=True)
    replace_file(folder / METADATA, f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode())
    sync_directory(directory)
    return folder


def move_away(folder: Path, suffix: str) -> Path:
    """Rename a folder to `<name>.<32 hex><suffix>`, durably; the name is cut where it would get too long."""
    ending = f".{token_hex(16)}{suffix}"
    # Cut in front of the last dash: what stays must still be `<something>-<partition>`.
    topic, _, index = folder.name.rpartition("-")
    kept = topic[: _LONGEST_NAME - len(ending) - len(index) - 1]
    moved = folder.with_name(f"{kept}-{index}{ending}")
    folder.rename(moved)
    sync_directory(folder.parent)
    return moved
