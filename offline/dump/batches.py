"""The batches and records of a `.log` file, or of a metadata snapshot, one after the other from the file.

Only a batch at a time is in memory. A file that is open for writing may end within a batch; that is said, as a torn end
is, since nobody can know from here which it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offline.dump.values import Undecodable, control_record, decoder_of, headers_of
from protocol.errors import KafkaError
from protocol.records.batch import BatchHeader, Compression, iterate_records
from storage.reading.walk import Verdict, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CODECS = frozenset(Compression)


class BadFile(Exception):
    """A file breaks its format at a position (bytes, or a line for texts); what was before it has been read."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(why)
        self.position = position


class Wish:
    """What of a log is wanted."""

    __slots__ = ("batches_only", "from_offset", "max_records")

    def __init__(
        self, *, batches_only: bool = False, from_offset: int | None = None, max_records: int | None = None
    ) -> None:
        self.batches_only = batches_only
        self.from_offset = from_offset
        self.max_records = max_records


def dump_log(path: Path, topic: str, wish: Wish) -> Iterator[dict[str, Any]]:
    """A `batch` and then its `record`s, as JSON objects. Raises: BadFile, after what comes before it; OSError."""
    decode = decoder_of(topic)
    records = 0
    expected = -1
    walk = Walk.of_file(path)
    for position, fields, batch in walk.batches():
        header = BatchHeader._make(fields)
        if header.base_offset < expected:
            raise BadFile(position, f"offset {header.base_offset} comes after offset {expected - 1}")
        expected = header.last_offset + 1
        if wish.from_offset is not None and header.last_offset < wish.from_offset:
            continue
        yield _batch(header, position, len(batch))
        if wish.batches_only:
            continue
        own = control_record if header.is_control else decode
        try:
            for record in iterate_records(batch):
                if wish.from_offset is not None and record.offset < wish.from_offset:
                    continue
                if wish.max_records is not None and records >= wish.max_records:
                    return
                records += 1
                line: dict[str, Any] = {"kind": "record", "offset": record.offset, "timestamp": record.timestamp}
                try:
                    line.update(own(record))
                except Undecodable as error:
                    raise BadFile(position, f"offset {record.offset}: {error}") from None
                if record.headers:
                    line["headers"] = headers_of(record)
                yield line
        except KafkaError as error:
            raise BadFile(position, str(error)) from None
    if walk.verdict is not Verdict.WHOLE:
        raise BadFile(walk.position, walk.why)


def _batch(header: BatchHeader, position: int, size_bytes: int) -> dict[str, Any]:
    codec = Compression(header.compression).name.lower() if header.compression in _CODECS else str(header.compression)
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "compression": codec,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "position": position,
        "size_bytes": size_bytes,
    }
