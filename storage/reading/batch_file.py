"""A `.log` file of whole batches: its headers by `pread`, its bytes as copies, or as views for a socket.

The descriptor and the mapping come when they are first needed. Headers are looked at by `pread`; a mapping is only ever
handed on, as a view, to whoever copies it into a socket (docs/decisions/memory-mapped-segments.md).

Always true: `size_bytes` counts whole batches only, and everything below it has been written; a mapping never
reaches beyond it, and a file that has been mapped is never shortened in place.

Source: Kafka's FileRecords.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from protocol.records.batch import HEADER_BYTES
from storage.errors import CorruptSegment
from storage.files import Disk, LogFile
from storage.reading.folder import segment_path
from storage.reading.walk import Header, Verdict, Walk


class BatchFile:
    """The batches of one segment, `size_bytes` of them."""

    __slots__ = (
        "_file",
        "_view",
        "base_offset",
        "directory",
        "disk",
        "ending",
        "mapped_bytes",
        "size_bytes",
        "was_mapped",
        "was_read",
    )

    def __init__(self, directory: Path, base_offset: int, size_bytes: int, disk: Disk) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.disk = disk
        self.ending = ""
        self.mapped_bytes = 0
        self.was_mapped = False
        self.was_read = False
        self._file: LogFile | None = None
        self._view: memoryview | None = None

    @classmethod
    def at(cls, path: Path, base_offset: int, disk: Disk) -> BatchFile:
        """Any file of batches, to read. May raise `OSError`."""
        file = LogFile(path, os.O_RDONLY, disk)
        made = BatchFile(path.parent, base_offset, file.size(), disk)
        made.file = file
        return made

    def as_it_is(self) -> BatchFile:
        """The batches that are in the file now, to be read in any thread, whatever becomes of the segment."""
        made = BatchFile(self.directory, self.base_offset, self.size_bytes, self.disk)
        made.ending = self.ending
        made.file = self.file
        return made

    def relocate(self, directory: Path) -> None:
        """The folder has another name now."""
        self.directory = directory
        if self._file is not None:
            self._file.path = self.path(".log")

    def rename(self, ending: str) -> None:
        """Its files end so now, behind their suffixes: `.swap`, or in nothing."""
        self.ending = ending
        if self._file is not None:
            self._file.path = self.path(".log")

    def path(self, suffix: str) -> Path:
        """Where the segment's file with this suffix lies."""
        return segment_path(self.directory, self.base_offset, suffix + self.ending)

    @property
    def file(self) -> LogFile:
        """The open `.log` file."""
        if self._file is None:
            self._file = LogFile(self.path(".log"), os.O_RDWR, self.disk)
        return self._file

    @file.setter
    def file(self, file: LogFile) -> None:
        self._file = file

    def _chunk(self, position: int, count: int) -> bytes:
        """Bytes from `position`, at least one batch header of them. Raises: CorruptSegment."""
        chunk = self.file.pread(count, position)
        if len(chunk) < HEADER_BYTES:
            raise CorruptSegment(self.path(".log"), position)
        return chunk

    def view(self, start: int, end: int) -> memoryview:
        """The bytes [`start`, `end`) as a mapping. Pass it to the kernel; never look into it (SIGBUS)."""
        if end > self.mapped_bytes:
            mapping = self.file.map(self.size_bytes)
            # The mapping that was lives on while anyone holds a view of it.
            self._view = memoryview(mapping)
            self.mapped_bytes = self.size_bytes
            self.was_mapped = True
        self.was_read = True
        assert self._view is not None
        return self._view[start:end]

    def read(self, start: int, end: int) -> bytes:
        """The bytes [`start`, `end`) copied."""
        self.was_read = True
        return self.file.pread(end - start, start)

    def headers(self, start: int = 0) -> Iterator[tuple[int, Header]]:
        """Every batch from `start` on: its position and its header as `HEADER` unpacks it.

        Raises: CorruptSegment when the batches do not fill the file.
        """
        walk = Walk(self.file.pread, self.size_bytes, start)
        yield from walk.headers()
        if walk.verdict is not Verdict.WHOLE:
            raise CorruptSegment(self.path(".log"), walk.position)

    def drop_view(self) -> None:
        """Let go of the mapping; views that are on their way live on."""
        self._view = None
        self.mapped_bytes = 0
