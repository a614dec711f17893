"""The files of a partition folder as a start finds them, and the end of whatever a crash interrupted.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles and LogLoader.load.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from storage.files import sync_directory
from storage.reading.batch_file import BatchFile
from storage.reading.folder import CLEANED, DELETED, INDEX_SUFFIXES, SEGMENT_SUFFIXES, SWAP, Found, base_offset_of

if TYPE_CHECKING:
    from storage.files import Disk
    from storage.state.recovery_report import RecoveryReport


def tidy(directory: Path, disk: Disk, report: RecoveryReport) -> Found:
    """Finish or undo interrupted cleaning, remove leftovers, and list what is there then. May raise `OSError`."""
    found = Found()
    swaps: list[Path] = []
    cleaned: list[Path] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            stem, _, last = name.rpartition(".")
            suffix = "." + last
            if suffix in found.sizes:
                found.sizes[suffix][base_offset_of(directory / name)] = entry.stat().st_size
            elif suffix == DELETED:
                _remove(directory / name, disk, report)
            elif suffix == CLEANED and _is_segment_file(stem):
                cleaned.append(directory / name)
            elif suffix == SWAP and _is_segment_file(stem):
                swaps.append(directory / name)
    if cleaned or swaps:
        swaps = _drop_unfinished(directory, cleaned, swaps, disk, report)
        _finish_swaps(directory, swaps, found, disk, report)
        sync_directory(directory, disk)
    for suffix in INDEX_SUFFIXES:
        for offset in sorted(found.sizes[suffix].keys() - found.sizes[".log"].keys()):
            _remove(directory / f"{offset:020d}{suffix}", disk, report)
            found.drop(suffix, offset)
    return found


def _is_segment_file(name: str) -> bool:
    return name.endswith(SEGMENT_SUFFIXES)


def _remove(path: Path, disk: Disk, report: RecoveryReport) -> None:
    disk.unlink(path)
    report.removed_files.append(path)


def _drop_unfinished(
    directory: Path, cleaned: list[Path], swaps: list[Path], disk: Disk, report: RecoveryReport
) -> list[Path]:
    """Remove `.cleaned` files, and `.swap` files that belong to an unfinished split; return the other swaps."""
    lowest = min((base_offset_of(path) for path in cleaned), default=None)
    kept = []
    for path in swaps:
        # Output of a pass goes from `.cleaned` to `.swap` file by file: one still `.cleaned` means none counts yet.
        if lowest is not None and base_offset_of(path) >= lowest:
            _remove(path, disk, report)
        else:
            kept.append(path)
    for path in cleaned:
        _remove(path, disk, report)
    return kept


def _finish_swaps(directory: Path, swaps: list[Path], found: Found, disk: Disk, report: RecoveryReport) -> None:
    """Remove what complete replacements replace, then give them their names."""
    ranges = []
    for path in swaps:
        if path.name.endswith(".log" + SWAP):
            base_offset = base_offset_of(path)
            ranges.append((base_offset, _next_offset(path, base_offset, disk)))
    for suffix, sizes in found.sizes.items():
        for offset in sorted(sizes):
            # A producer snapshot at a replacement's base tells of what lies before it, and stays true.
            own = suffix == ".snapshot"
            if any(start + own <= offset < end for start, end in ranges):
                _remove(directory / f"{offset:020d}{suffix}", disk, report)
                found.drop(suffix, offset)
    for path in sorted(swaps):
        final = path.with_suffix("")
        size = path.stat().st_size
        disk.rename(path, final)
        report.finished_swaps.append(final)
        found.sizes[final.suffix][base_offset_of(final)] = size


def _next_offset(path: Path, base_offset: int, disk: Disk) -> int:
    segment = BatchFile.at(path, base_offset, disk)
    next_offset = base_offset
    for _, header in segment.headers():
        next_offset = header[0] + header[6] + 1
    # A replacement without batches still replaces the segment of its own name.
    return max(next_offset, base_offset + 1)
