"""The other files of a data directory, as JSON objects: indexes, producer snapshots, checkpoints, identities.

Each reader raises `BadFile` with the position of what is wrong, after what comes before it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from offline.dump.batches import BadFile
from storage.directory import meta_properties
from storage.reading.checkpoints import OFFSET_CHECKPOINTS, parse_checkpoint
from storage.reading.folder import base_offset_of
from storage.reading.indexes import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.reading.transaction_index import ENTRY_BYTES, parse_transaction_index
from storage.state.producer_snapshot import parse_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def dump_index(path: Path) -> Iterator[dict[str, Any]]:
    """`.index`: offset and position of batches."""
    base, data = base_offset_of(path), _entries(path.read_bytes(), OFFSET_ENTRY_BYTES)
    index, end = OffsetIndex.sound_part(data)
    for relative, position in zip(index.offsets, index.positions, strict=True):
        yield {"kind": "entry", "offset": base + relative, "position": position}
    if end < len(data):
        raise BadFile(end, _why(data, end, OFFSET_ENTRY_BYTES, "offset and position must rise"))


def _entries(data: bytes, entry_bytes: int) -> bytes:
    """The bytes; none of a file that Kafka has only made as large as it may become."""
    return data if len(data) <= entry_bytes or data.strip(b"\0") else b""


def dump_time_index(path: Path) -> Iterator[dict[str, Any]]:
    """`.timeindex`: the largest timestamp so far, and the offset that has it."""
    base, data = base_offset_of(path), _entries(path.read_bytes(), TIME_ENTRY_BYTES)
    index, end = TimeIndex.sound_part(data)
    for timestamp, relative in zip(index.timestamps, index.offsets, strict=True):
        yield {"kind": "entry", "timestamp": timestamp, "offset": base + relative}
    if end < len(data):
        raise BadFile(end, _why(data, end, TIME_ENTRY_BYTES, "timestamps must rise"))


def _why(data: bytes, fault: int, entry_bytes: int, rule: str) -> str:
    left = len(data) - fault
    return f"the last {left} bytes are no whole entry" if left < entry_bytes else f"this entry breaks the order: {rule}"


def dump_transaction_index(path: Path) -> Iterator[dict[str, Any]]:
    """`.txnindex`: aborted transactions."""
    data = path.read_bytes()
    for entry in parse_transaction_index(data):
        yield {"kind": "aborted", **entry._asdict()}
    left = len(data) % ENTRY_BYTES
    if left:
        raise BadFile(len(data) - left, f"the last {left} bytes are no whole entry")


def dump_snapshot(path: Path) -> Iterator[dict[str, Any]]:
    """`.snapshot`: the producers as they were before the offset of its name."""
    for entry in parse_snapshot(path, path.read_bytes()):
        newest = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "first_sequence": newest.first_sequence if newest else None,
            "last_sequence": newest.last_sequence if newest else None,
            "last_offset": newest.last_offset if newest else None,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset if entry.transaction_first_offset >= 0 else None,
        }


def dump_checkpoint(path: Path) -> Iterator[dict[str, Any]]:
    """An offset checkpoint, or `leader-epoch-checkpoint`; a position is a line here."""
    names = ("topic", "partition", "offset") if path.name in OFFSET_CHECKPOINTS else ("epoch", "start_offset")
    for number, entry in enumerate(parse_checkpoint(path, path.read_bytes()), start=3):
        if len(entry) != len(names) or not all(word.lstrip("-").isdigit() for word in entry[names[0] == "topic" :]):
            raise BadFile(number, f"this line is not `{' '.join(names)}`")
        yield {
            "kind": "entry",
            **{name: word if name == "topic" else int(word) for name, word in zip(names, entry, strict=True)},
        }


def dump_properties(path: Path) -> Iterator[dict[str, Any]]:
    """`meta.properties`: whose directory this is. `partition.metadata`: whose folder."""
    text = path.read_bytes()
    found = meta_properties.parse_properties(text.decode("iso-8859-1"))
    if path.name == meta_properties.FILE:
        meta_properties.read(path, text)
    elif "topic_id" not in found:
        raise BadFile(0, "it has no topic_id")
    yield {"kind": "properties", **found}


def dump_json(path: Path) -> Iterator[dict[str, Any]]:
    """`quorum-state`, the clean shutdown marker."""
    text = path.read_bytes()
    if not text.strip():
        return
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadFile(getattr(error, "pos", 0), "it is no JSON") from None
    yield {"kind": "json", **(value if isinstance(value, dict) else {"value": value})}
