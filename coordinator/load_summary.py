"""What came of reading a coordinator's log."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class LoadSummary:
    """What was read."""

    record_count: int = 0
    end_offset: int = 0  # the offset after the last batch
    skipped_types: dict[int, int] = field(default_factory=dict)  # record type that nobody has defined -> how many
    contradictions: list[str] = field(default_factory=list)  # tombstones of what should have been empty, in words


class LoadFailed(Exception):
    """The log holds a record of a known kind that cannot be understood: the partition must not be served."""
