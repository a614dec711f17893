"""The files of a partition's folder by their names.

Suffixes after the real name: `.deleted` waits for removal, `.cleaned` is unfinished output and worthless, `.swap` is
a complete replacement whose sources may be gone already, and so must be honoured.

Source: Kafka's LogFileUtils, LogLoader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from storage.errors import CorruptFile

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"


@dataclass(slots=True)
class Found:
    """What lies in the folder, sizes in bytes: `sizes[suffix][base offset]`."""

    sizes: dict[str, dict[int, int]] = field(default_factory=lambda: {suffix: {} for suffix in SEGMENT_SUFFIXES})

    def drop(self, suffix: str, offset: int) -> None:
        """The file is gone."""
        self.sizes[suffix].pop(offset, None)


def base_offset_of(path: Path) -> int:
    """The offset before the first dot of a segment file's name. Raises: CorruptFile."""
    digits = path.name.partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise CorruptFile(path, "its name does not begin with an offset; move it out of the partition's folder")
    return int(digits)


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """The file of a segment: 20 digits and a suffix such as `.log`."""
    return directory / f"{base_offset:020d}{suffix}"
