"""The walk from batch to batch, and what it ended at. Whoever reads a log from its files does it with this.

Who does not is named, with the reason, in docs/decisions/what-the-rooms-weigh.md.

Source: Kafka's FileLogInputStream, LogSegment.recover.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any

from protocol.records.batch import HEADER_BYTES, MAGIC, verify
from protocol.records.crc import crc32c
from protocol.records.errors import CorruptBatch
from storage.files import DISK, LogFile
from storage.reading.batches import HEADER, OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.files import Disk

WINDOW_BYTES = 65_536
"""Of headers alone: small batches lie many in a window, of a large one only the beginning is read."""
CHUNK_BYTES = 1_048_576
"""Of whole batches."""
LEAST_LENGTH = HEADER_BYTES - OVERHEAD
_CRC_BEGINS = 21

Header = tuple[Any, ...]
"""A batch's header as `HEADER` unpacks it: the fields of `BatchHeader` in their order."""


class Verdict(Enum):
    """What a walk found where it ended."""

    WHOLE = "whole"
    """The last batch ends where the file does."""
    TORN = "torn"
    """The rest is less than the batch that begins there: it was being written, or the file was cut."""
    CORRUPT = "corrupt"
    """What stands there is no batch, or one whose bytes were changed."""


class Walk:
    """Goes over the batches that begin at `position`, once: `headers` or `batches`.

    Stops at the first that is not whole and sound; then `position` is the end of the good ones, `verdict` says what is
    there, and `why` in words.
    """

    __slots__ = ("_pread", "position", "size_bytes", "verdict", "why")

    def __init__(self, pread: Callable[[int, int], bytes], size_bytes: int, position: int = 0) -> None:
        self._pread = pread
        self.size_bytes = size_bytes
        self.position = position
        self.verdict = Verdict.WHOLE
        self.why = ""

    @classmethod
    def of_file(cls, path: Path, position: int = 0, disk: Disk = DISK) -> Walk:
        """Over a file as long as it is now. May raise `OSError`."""
        file = LogFile(path, os.O_RDONLY, disk)
        return cls(file.pread, file.size(), position)

    @classmethod
    def of_bytes(cls, data: bytes, position: int = 0) -> Walk:
        """Over a file's content."""
        return cls(lambda count, begin: data[begin : begin + count], len(data), position)

    def headers(self) -> Iterator[tuple[int, Header]]:
        """(position, header) of each batch; records and CRC are not looked at. May raise `OSError`."""
        position, size = self.position, self.size_bytes
        chunk, at = b"", 0
        while position < size:
            if at + HEADER_BYTES > len(chunk):
                chunk, at = self._pread(WINDOW_BYTES, position), 0
            end = self._end_of_batch(chunk, at, position)
            if not end:
                return
            yield position, HEADER.unpack_from(chunk, at)
            at += end - position
            self.position = position = end

    def batches(self) -> Iterator[tuple[int, Header, memoryview]]:
        """(position, header, bytes) of each batch that passes its CRC. May raise `OSError`."""
        position, size = self.position, self.size_bytes
        chunk, at = b"", 0
        view = memoryview(chunk)
        while position < size:
            if at + HEADER_BYTES > len(chunk):
                chunk, at = self._pread(CHUNK_BYTES, position), 0
                view = memoryview(chunk)
            end = self._end_of_batch(chunk, at, position)
            if not end:
                return
            batch_bytes = end - position
            if at + batch_bytes > len(chunk):
                chunk, at = self._pread(max(CHUNK_BYTES, batch_bytes), position), 0
                view = memoryview(chunk)
            batch = view[at : at + batch_bytes]
            header = HEADER.unpack_from(batch)
            if len(batch) < batch_bytes or crc32c(batch[_CRC_BEGINS:]) != header[4]:
                self._ends(Verdict.CORRUPT, _what_is_wrong(batch))
                return
            yield position, header, batch
            at += batch_bytes
            self.position = position = end

    def _end_of_batch(self, chunk: bytes, at: int, position: int) -> int:
        """Where the batch that begins at `chunk[at]` ends in the file; 0 when it is none, and the verdict is known."""
        left = self.size_bytes - position
        if len(chunk) - at < HEADER_BYTES:
            self._ends(Verdict.TORN, f"the last {left} bytes are no whole batch")
            return 0
        length = int.from_bytes(chunk[at + 8 : at + 12], signed=True)
        magic = chunk[at + 16]
        if magic != MAGIC:
            self._ends(Verdict.CORRUPT, f"no batch begins here: magic {magic}, only {MAGIC} is known")
        elif length < LEAST_LENGTH:
            self._ends(Verdict.CORRUPT, f"no batch begins here: a length of {length} bytes")
        elif length + OVERHEAD > left:
            self._ends(Verdict.TORN, f"the last {left} bytes are no whole batch")
        else:
            return position + length + OVERHEAD
        return 0

    def _ends(self, verdict: Verdict, why: str) -> None:
        self.verdict = verdict
        self.why = why


def _what_is_wrong(batch: memoryview) -> str:
    try:
        verify(batch)
    except CorruptBatch as error:
        return str(error)
    return "the file became shorter"


def sound_batch_after(data: bytes, position: int, least_offset: int) -> bool:
    """Does a sound batch of offset `least_offset` or above begin behind `position`? Then that is no torn tail."""
    for start in range(position + 1, len(data) - HEADER_BYTES + 1):
        if data[start + 16] != MAGIC or int.from_bytes(data[start : start + 8]) < least_offset:
            continue
        try:
            verify(data, start)
        except CorruptBatch:
            continue
        return True
    return False
