"""The batches of a coordinator's log, for those who load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.load_summary import LoadFailed
from protocol.records.batch_header import LENGTH_BYTES, read_header
from protocol.records.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.records.batch_header import BatchHeader

CRC_BEGINS = 21
"""The first byte of a batch that its CRC covers."""


def batches(chunks: Iterable[bytes]) -> Iterable[tuple[bytes, int, BatchHeader]]:
    """Each batch as (buffer, position in it, header). `chunks` are whole batches, back to back.

    Raises: LoadFailed when a batch does not pass its CRC.
    """
    for buffer in chunks:
        position, end = 0, len(buffer)
        view = memoryview(buffer)
        while position < end:
            header = read_header(buffer, position)
            after = position + header.length + LENGTH_BYTES
            # A clean start has looked at no batch, and a flipped bit may well make another offset of one.
            if crc32c(view[position + CRC_BEGINS : after]) != header.crc:
                raise LoadFailed(f"the batch at offset {header.base_offset} does not pass its CRC")
            yield buffer, position, header
            position = after
