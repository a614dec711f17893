"""The folder of a move's copy: made, marked with how far it is on the disk, and renamed at the end.

Two renames end a move: the source loses its plain name, and the copy gets it.

Source: ours; Kafka renames the copy first (LogManager.replaceCurrentWithFutureLog), and has how far a copy is on the
disk in its recovery point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from storage.directory.log_directory import suffixed_name
from storage.errors import CorruptFile, StorageError
from storage.files import DISK, replace_file
from storage.reading.checkpoints import format_checkpoint, parse_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.directory.log_directory import LogDirectory
    from storage.files import Disk
    from storage.log.partition_log import PartitionLog
    from storage.state.flush import FlushTicket

Key = tuple[str, int]
FLUSHED = "copied-offset-checkpoint"

log = get_logger(__name__)


def retire(directory: LogDirectory, key: Key, unique: bytes) -> Path | Exception:
    """Rename the source to `-delete`, durably; why not, where it has its plain name still, or again."""
    try:
        target = directory.retire(*key, unique=unique)
    except StorageError as error:
        target = directory.path / suffixed_name(*key, unique, "delete")
        if not target.exists():
            return error
        try:
            directory.give_back(target, *key)
        except OSError:
            # The name is gone, though perhaps not durably: then a start finds the partition twice, and refuses.
            log.error("folder_not_flushed", topic=key[0], partition=key[1], error=str(error))
            return target
        return error
    return target if target is not None else StorageError("is not there:", directory.folder(*key))


def take_name_later(to: LogDirectory, folder: Path, key: Key) -> None:
    """Give the copy its plain name, durably, if it has not got it yet. May raise `OSError`. Raises: StorageError."""
    if folder.exists():
        to.rename_future(folder, *key)
        to.sync()


def make(to: LogDirectory, key: Key, topic_id: bytes, new_uuid: Callable[[], bytes]) -> Path:
    """The folder of a copy, made where nothing is in the way of its plain name. Raises: StorageError, CorruptFile."""
    # The folder of a topic of this name that was deleted, if the disk refused to rename it then.
    to.retire_others(*key, topic_id, unique=new_uuid)
    if to.folder(*key).exists():
        raise StorageError("is in the way:", to.folder(*key))
    return to.create_future(*key, topic_id, unique=new_uuid())


def flushed_offset(folder: Path) -> int | None:
    """Everything that a copy has below this offset was on the disk once; None when that is not said.

    What lies above may have a hole: a power loss keeps a later segment, and of the one before it nothing.
    Raises: CorruptFile. May raise `OSError`.
    """
    path = folder / FLUSHED
    try:
        entries = parse_checkpoint(path, path.read_bytes())
    except FileNotFoundError:
        return None
    if len(entries) != 1 or len(entries[0]) != 1 or not entries[0][0].isdigit():
        raise CorruptFile(path, "is not one offset")
    return int(entries[0][0])


def note_flushed(folder: Path, offset: int, disk: Disk = DISK) -> None:
    """Say so, durably. Raises: StorageError."""
    replace_file(folder / FLUSHED, format_checkpoint([str(offset)]), disk)


def flush_all(copy: PartitionLog, ticket: FlushTicket) -> None:
    """A copy that is to become the partition: nobody will ask how far it is. Raises: StorageError. May raise `OSError`.

    In a thread. After a crash before it has its name there is nothing to go on with, and it is begun anew.
    """
    path = copy.directory / FLUSHED
    if path.exists():
        copy.state.disk.unlink(path)
    ticket.sync()
