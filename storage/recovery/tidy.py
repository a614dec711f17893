"""The files of a partition folder as a start finds them, and the end of whatever a crash interrupted.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles and LogLoader.load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptSegment
from storage.files import sync_directory
from storage.reading.folder import INDEX_SUFFIXES, SWAP, Found, base_offset_of, replaced_by, scan_folder
from storage.reading.walk import Verdict, Walk

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Disk
    from storage.state.recovery_report import RecoveryReport


def tidy(directory: Path, disk: Disk, report: RecoveryReport) -> Found:
    """Finish or undo interrupted cleaning, remove leftovers, and list what is there then. May raise `OSError`."""
    found = scan_folder(directory)
    found.refuse_odd()
    for path in found.deleted:
        _remove(path, disk, report)
    if found.cleaned or found.swaps:
        swaps = found.swaps_that_count()
        for path in [*(path for path in found.swaps if path not in swaps), *found.cleaned]:
            _remove(path, disk, report)
        _finish_swaps(directory, swaps, found, disk, report)
        sync_directory(directory, disk)
    for suffix in INDEX_SUFFIXES:
        for offset in sorted(found.sizes[suffix].keys() - found.sizes[".log"].keys()):
            _remove(directory / f"{offset:020d}{suffix}", disk, report)
            found.drop(suffix, offset)
    return found


def _remove(path: Path, disk: Disk, report: RecoveryReport) -> None:
    disk.unlink(path)
    report.removed_files.append(path)


def _finish_swaps(directory: Path, swaps: list[Path], found: Found, disk: Disk, report: RecoveryReport) -> None:
    """Remove what complete replacements replace, then give them their names."""
    ranges = []
    for path in swaps:
        if path.name.endswith(".log" + SWAP):
            walk = Walk.of_file(path, disk=disk)
            covered = replaced_by(path, walk)
            if walk.verdict is not Verdict.WHOLE:
                raise CorruptSegment(path, walk.position)
            ranges.append(covered)
    for suffix, sizes in found.sizes.items():
        for offset in sorted(sizes):
            # A producer snapshot at a replacement's base tells of what lies before it, and stays true.
            own = suffix == ".snapshot"
            if any(offset in covered[own:] for covered in ranges):
                _remove(directory / f"{offset:020d}{suffix}", disk, report)
                found.drop(suffix, offset)
    sync_directory(directory, disk)  # as `storage.clean.swap`: they are gone before the replacement has its final name
    for path in sorted(swaps):
        final = path.with_suffix("")
        size = path.stat().st_size
        disk.rename(path, final)
        report.finished_swaps.append(final)
        found.sizes[final.suffix][base_offset_of(final)] = size
