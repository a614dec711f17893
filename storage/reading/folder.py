"""A partition's folder: its files by their names, and which of them count while a cleaning is taken over.

Suffixes after the real name: `.deleted` waits for removal, `.cleaned` is unfinished output and worthless, `.swap` is
a complete replacement whose sources may be gone already, and so must be honoured.

Source: Kafka's LogFileUtils, LogLoader.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import CorruptFile
from storage.reading.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"


@dataclass(slots=True)
class Found:
    """What lies in the folder, sizes in bytes: `sizes[suffix][base offset]`, and what a crash may have left."""

    sizes: dict[str, dict[int, int]] = field(default_factory=lambda: {suffix: {} for suffix in SEGMENT_SUFFIXES})
    deleted: list[Path] = field(default_factory=list)
    cleaned: list[Path] = field(default_factory=list)
    swaps: list[Path] = field(default_factory=list)
    odd: list[Path] = field(default_factory=list)  # named as a segment's file, and without an offset

    def note(self, directory: Path, name: str, size_bytes: Callable[[], int]) -> None:
        """A file by its name; its size is asked for, and its path made, only where they count."""
        stem, _, last = name.rpartition(".")
        suffix = "." + last
        if suffix == DELETED:
            self.deleted.append(directory / name)
        elif suffix in self.sizes:
            digits = name.partition(".")[0]
            if _is_offset(digits):
                self.sizes[suffix][int(digits)] = size_bytes()
            else:
                self.odd.append(directory / name)
        elif stem.endswith(SEGMENT_SUFFIXES) and suffix in (CLEANED, SWAP):
            (self.cleaned if suffix == CLEANED else self.swaps).append(directory / name)

    def drop(self, suffix: str, offset: int) -> None:
        """The file is gone."""
        self.sizes[suffix].pop(offset, None)

    def refuse_odd(self) -> None:
        """Raises: CorruptFile when a file is of no segment."""
        for path in self.odd:
            base_offset_of(path)

    def swaps_that_count(self) -> list[Path]:
        """Output goes from `.cleaned` to `.swap` file by file: one still `.cleaned` means none counts yet."""
        unfinished_from = min(map(base_offset_of, self.cleaned), default=None)
        return [path for path in self.swaps if unfinished_from is None or base_offset_of(path) < unfinished_from]

    def logs(self, directory: Path, stands_for: Callable[[Path], range]) -> dict[int, Path]:
        """The `.log` files of the log by base offset, in order: what a start would have, and nothing is renamed for it.

        A replacement that counts takes the place of the segments that it `stands_for`, by their base offsets.
        """
        logs = {base_offset: segment_path(directory, base_offset, ".log") for base_offset in self.sizes[".log"]}
        for swap in sorted(self.swaps_that_count()):
            if swap.name.endswith(".log" + SWAP):
                replaced = stands_for(swap)
                logs = {base_offset: path for base_offset, path in logs.items() if base_offset not in replaced}
                logs[replaced.start] = swap
        return dict(sorted(logs.items()))


def scan_folder(directory: Path) -> Found:
    """The files that are there, by name; one that goes meanwhile may be left out. May raise `OSError`."""
    found = Found()
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            with suppress(FileNotFoundError):
                found.note(directory, entry.name, partial(_size_of, entry))
    return found


def logs_in(directory: Path) -> list[Path]:
    """The `.log` files of a partition's folder in order, those that a start would read. May raise `OSError`."""
    return list(scan_folder(directory).logs(directory, lambda swap: replaced_by(swap, Walk.of_file(swap))).values())


def replaced_by(swap: Path, walk: Walk) -> range:
    """The base offsets of the segments that a replacement stands for; `walk` goes over its batches.

    One without batches still replaces the segment of its own name. May raise `OSError`.
    """
    begin = next_offset = base_offset_of(swap)
    for _, header in walk.headers():
        next_offset = header[0] + header[6] + 1
    return range(begin, max(next_offset, begin + 1))


def base_offset_of(path: Path) -> int:
    """The offset before the first dot of a segment file's name. Raises: CorruptFile."""
    digits = path.name.partition(".")[0]
    if not _is_offset(digits):
        raise CorruptFile(path, "its name does not begin with an offset; move it out of the partition's folder")
    return int(digits)


def _size_of(entry: os.DirEntry[str]) -> int:
    return entry.stat().st_size


def _is_offset(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """The file of a segment: 20 digits and a suffix such as `.log`."""
    return directory / f"{base_offset:020d}{suffix}"
