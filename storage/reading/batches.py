"""What the log needs to see of a batch without decoding it, as precompiled views of the header.

`protocol.records.batch` owns the layout and does all checking. Appending and walking happen millions of times, so
they unpack plain tuples; `HEADER` yields the fields in the order of `BatchHeader`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from protocol.records.batch import LENGTH_BYTES, iterate_records
from storage.files import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = struct.Struct(">qiibIhiqqqhii")
STEP = struct.Struct(">qi11xi")  # base_offset, length, last_offset_delta
STAMP = struct.Struct(">qii")  # base_offset, length, leader_epoch
OVERHEAD = LENGTH_BYTES  # what the length field does not count

_MARKER_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch
ABORT = 0
COMMIT = 1


class Parted:
    """A large batch whose records stay where they came in, in bytes that nobody changes: `head`, the 61 bytes of its
    header, is a copy and may be stamped, `body` is the rest.
    """

    __slots__ = ("body", "head")

    def __init__(self, head: bytearray, body: memoryview) -> None:
        self.head = head
        self.body = body

    def __len__(self) -> int:
        return len(self.head) + len(self.body)

    def whole(self) -> bytearray:
        """A copy, in one piece."""
        return self.head + self.body


def head_of(batch: Buffer | Parted) -> Buffer:
    """What begins with its header."""
    return batch.head if isinstance(batch, Parted) else batch


def pieces_of(batches: Iterable[Buffer | Parted]) -> list[Buffer]:
    """What is to be written, in order."""
    pieces: list[Buffer] = []
    for batch in batches:
        add_pieces(pieces, batch)
    return pieces


def add_pieces(pieces: list[Buffer], batch: Buffer | Parted) -> None:
    """One more batch to be written or sent, behind the others."""
    if isinstance(batch, Parted):
        pieces += batch.head, batch.body
    else:
        pieces.append(batch)


def read_marker(batch: Buffer) -> tuple[bool, int] | None:
    """(aborted, coordinator epoch) of a control batch that ends a transaction; None for another or an emptied one.

    An emptied one is what compaction leaves of a marker whose transaction is gone.
    """
    try:
        for record in iterate_records(batch):
            if record.key is None or len(record.key) < 4:
                return None
            kind = _MARKER_KEY.unpack_from(record.key)[1]
            if kind not in {ABORT, COMMIT} or record.value is None or len(record.value) < 6:
                return None
            return kind == ABORT, _MARKER_VALUE.unpack_from(record.value)[1]
    except KafkaError:
        return None
    return None
