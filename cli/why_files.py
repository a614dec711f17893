"""`kohort why GROUP --from DIR`: a group's history out of the files of a data directory, Apache Kafka's or Kohort's.

Nothing runs and nothing is asked: the records of `__consumer_offsets`, and the ledger's where there is one.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cli.cluster import OFFSETS_TOPIC
from cli.errors import Failed
from cli.why_reading import Told
from coordinator.routing import partition_for
from coordinator.why.gaps import with_gaps
from coordinator.why.inferred import generations
from protocol.errors import ProtocolError
from protocol.records.batch_reader import iterate_records
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import LEDGER_TOPIC, decode_whole
from storage.directory.log_directory import PARTITION_METADATA, parse_folder_name, parse_topic_id
from storage.errors import CorruptFile
from storage.reading.folder import logs_in
from storage.reading.walk import Verdict, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTITIONS = 50
"""Of `__consumer_offsets`, unless somebody set `offsets.topic.num.partitions`."""

Entry = tuple[bytes | None, bytes | None, int]


def read(directory: str, group_id: str) -> Told:
    """All that the files tell. Raises: Failed when they are none of such, or nothing in them is of the group."""
    root = Path(directory)
    if not root.is_dir():
        raise Failed(f"{directory}: no such directory")
    told = Told(group_id, inferred=True, files=directory)
    folders = _folders(root, OFFSETS_TOPIC, group_id)
    ledgers = _folders(root, LEDGER_TOPIC, group_id)
    if not folders and not ledgers:
        raise Failed(f"{directory}: there is no folder of {OFFSETS_TOPIC} here")
    names = _topic_names(root)
    inferred = [one for folder in folders for one in generations(group_id, _entries(folder), names=names)]
    written, cluster_id = [], _cluster_id(root)
    for folder in ledgers:
        for key, value, _ in _entries(folder):
            if key == group_id.encode():
                try:
                    written.append(decode_whole(value, cluster_id))
                except UnparsableRecord:
                    continue  # a client may write into the topic as well
    told.inferred = not written
    told.records = with_gaps(written, inferred) if written else inferred
    if not told.records:
        raise Failed(f"{directory}: no record is of group {group_id!r}, or only offsets are")
    return told


def _cluster_id(root: Path) -> str | None:
    """As the directory says it; a single folder does not."""
    with suppress(OSError):
        for line in (root / "meta.properties").read_text(errors="replace").splitlines():
            if line.startswith("cluster.id="):
                return line.partition("=")[2].strip()
    return None


def _topic_names(root: Path) -> dict[bytes, str]:
    """Topics by id, as the folders beside those of the groups say."""
    above = root.parent if re.fullmatch(rf"{re.escape(OFFSETS_TOPIC)}-\d+", root.name) else root
    found = {}
    for path in above.glob(f"*/{PARTITION_METADATA}"):
        with suppress(OSError, CorruptFile):
            folder = parse_folder_name(path.parent.name)
            if folder is not None:
                found[parse_topic_id(path, path.read_bytes())] = folder.topic
    return found


def _folders(root: Path, topic: str, group_id: str) -> list[Path]:
    """The partition of the group; all that are there, where their number does not say which that is."""
    if re.fullmatch(rf"{re.escape(topic)}-\d+", root.name):
        return [root]
    found = {int(path.name.rpartition("-")[2]): path for path in root.glob(f"{topic}-*") if path.name[-1].isdecimal()}
    own = found.get(partition_for(group_id, _PARTITIONS))
    if own is not None and len(found) == _PARTITIONS:
        return [own]
    return [found[number] for number in sorted(found)]


def _entries(folder: Path) -> Iterator[Entry]:
    """Key, value and time of every record, in order; a file that is torn or corrupt is named, and read so far."""
    for path in logs_in(folder):
        try:
            walk = Walk.of_file(path)
            for _, _, batch in walk.batches():
                for record in iterate_records(batch):
                    yield record.key, record.value, record.timestamp
        except (OSError, ProtocolError) as error:
            print(f"kohort: {path}: {error}", file=sys.stderr)
            continue
        if walk.verdict is not Verdict.WHOLE:
            print(
                f"kohort: {path}: position {walk.position}: {walk.why or 'the rest is no whole batch'}", file=sys.stderr
            )
