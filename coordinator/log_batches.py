"""The batches of a coordinator's log, for those who load it: of chunks in memory, as an open log gives them.

Files are walked by `storage.reading.walk`, which this room may not import (docs/decisions/what-the-rooms-weigh.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.load_summary import LoadFailed
from protocol.records.batch_header import verify
from protocol.records.errors import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.records.batch_header import BatchHeader


def batches(chunks: Iterable[bytes]) -> Iterable[tuple[bytes, int, BatchHeader]]:
    """Each batch as (buffer, position in it, header). `chunks` are whole batches, back to back.

    Raises: LoadFailed when a batch does not pass its CRC.
    """
    for buffer in chunks:
        position, end = 0, len(buffer)
        while position < end:
            # A clean start has looked at no batch, and a flipped bit may well make another offset of one.
            try:
                header = verify(buffer, position)
            except CorruptBatch as error:
                raise LoadFailed(str(error)) from error
            yield buffer, position, header
            position += header.size_bytes
