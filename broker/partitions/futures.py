"""What a start makes of `-future` folders: copies of partitions that were on their way into another directory.

The folder with the plain name counts. Where there is none, the broker stopped while it renamed the one and not yet the
other: the copy that lies where the metadata log says is the partition.

Source: ours; Kafka loads both and goes on (LogManager.loadLog, ReplicaManager.maybeAddLogDirFetchers).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.partitions.move import Move
from storage.directory.log_directory import parse_folder_name, read_topic_id
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from broker.catalogue.topics_image import TopicsImage
    from broker.partitions.move_folders import Key
    from storage.directory.log_directory import LogDirectory, Scan

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Futures:
    """What was found: moves to go on with, and folders that are of no use, renamed to `-delete`."""

    moves: list[Move] = field(default_factory=list)
    useless: list[Path] = field(default_factory=list)


def adopt_futures(
    scans: Sequence[tuple[LogDirectory, Scan]],
    image: TopicsImage,
    removed_topic_ids: Collection[bytes],
    *,
    new_uuid: Callable[[], bytes],
) -> Futures:
    """Finish what a crash has left between two renames, in `scans` too, and find what is to go on.

    Folders of topics that nobody knows are left as they are. Raises: StorageError, CorruptFile.
    """
    found = Futures()
    plain: dict[Key, LogDirectory] = {}  # where those lie that are of the topics that there are
    for directory, scan in scans:
        for key, topic_id in scan.logs.items():
            topic = image.topic(key[0])
            if topic is not None and topic_id == topic.topic_id:
                plain[key] = directory
    resumed: set[Key] = set()
    for directory, scan in scans:
        for folder in scan.set_aside:
            parsed = parse_folder_name(folder.name)
            if parsed is None or parsed.kind != "future":
                continue
            key = parsed.topic, parsed.partition
            topic, topic_id = image.topic(parsed.topic), read_topic_id(folder)
            known = topic is not None and topic_id == topic.topic_id and parsed.partition < topic.partition_count
            its_directory = plain.get(key)
            if not known:
                unfinished = topic_id is None and all(one.name.endswith(".tmp") for one in folder.iterdir())
                if unfinished or topic_id in removed_topic_ids:
                    found.useless.append(directory.retire_future(folder, *key, unique=new_uuid()))
            elif its_directory is None:
                assert topic is not None
                if topic.directories[parsed.partition] == directory.directory_id:
                    directory.retire_others(*key, topic.topic_id, unique=new_uuid)
                    _finish(directory, folder, key)
                    scan.logs[key] = topic_id
                    plain[key] = directory
            elif its_directory is not directory and key not in resumed:
                assert topic_id is not None
                resumed.add(key)
                log.info("partition_move_resumed", topic=key[0], partition=key[1], to=str(directory.path))
                found.moves.append(Move(key, topic_id, directory, folder))
            else:
                found.useless.append(directory.retire_future(folder, *key, unique=new_uuid()))
    return found


def _finish(directory: LogDirectory, folder: Path, key: Key) -> None:
    try:
        directory.rename_future(folder, *key)
    except OSError as error:
        raise StorageError("cannot rename", folder, error) from error
    directory.sync()
    log.warning("partition_move_finished", topic=key[0], partition=key[1], to=str(directory.path))
