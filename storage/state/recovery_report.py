"""What opening a log has changed on disk, for whoever tells of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cut:
    """A file that was shortened to its last good batch."""

    path: Path
    position: int  # bytes kept
    removed_bytes: int
    why: str


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log changed on disk. All empty after an uneventful start."""

    cuts: list[Cut] = field(default_factory=list)
    removed_segments: list[Cut] = field(default_factory=list)  # whole segments after a cut, position 0
    checked_segments: list[Path] = field(default_factory=list)
    rebuilt_indexes: list[Path] = field(default_factory=list)
    removed_files: list[Path] = field(default_factory=list)  # leftovers of an interrupted clean or deletion
    finished_swaps: list[Path] = field(default_factory=list)
    discarded_snapshots: list[Path] = field(default_factory=list)
    damaged: list[tuple[Path, str]] = field(default_factory=list)  # what is missing, and cannot be had again
    restarted_at: int | None = None  # the log ended below its start offset, so it was begun anew here

    @property
    def removed_bytes(self) -> int:
        """Bytes of batches that are gone."""
        return sum(cut.removed_bytes for cut in [*self.cuts, *self.removed_segments])
