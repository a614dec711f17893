"""The two renames of a move: the source loses its plain name, and the copy gets it.

Source: ours; Kafka renames the copy first (LogManager.replaceCurrentWithFutureLog).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from storage.directory.log_directory import suffixed_name
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.partitions.move import Key
    from storage.directory.log_directory import LogDirectory

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
