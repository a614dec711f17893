"""How fast moves copy, all together, in bytes a second: `replica.alter.log.dirs.io.max.bytes.per.second`.

What was copied is owed, and paid off as time passes at the rate that holds by then: a new rate counts at once.

Source: Kafka's ReplicationQuotaManager for AlterLogDirsReplication, which measures the mean of a window instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_WAIT_MS = 1_000
"""Until the rate is looked at again."""


class Pace:
    """`rate` says how many bytes a second may be copied by now; None for any number, 0 for none."""

    def __init__(self, rate: Callable[[], int | None]) -> None:
        self._rate = rate
        self._owed_bytes = 0.0
        self._looked_ms = 0

    def wait_ms(self, now_ms: int) -> int:
        """How long to wait before the next piece; it may be asked again earlier."""
        rate = self._rate()
        passed_ms, self._looked_ms = max(now_ms - self._looked_ms, 0), now_ms
        if rate is None:
            self._owed_bytes = 0.0
            return 0
        self._owed_bytes = max(self._owed_bytes - rate * passed_ms / 1_000, 0.0)
        if rate <= 0:
            return LONGEST_WAIT_MS
        return min(-int(-self._owed_bytes * 1_000 // rate), LONGEST_WAIT_MS)

    def piece_bytes(self, most: int) -> int:
        """The size of a piece, and of what may be left for the hand-over: what a second allows, if that is less."""
        rate = self._rate()
        return most if rate is None else min(most, rate)

    def copied(self, count: int) -> None:
        """So many bytes are copied since the last look."""
        self._owed_bytes += count
