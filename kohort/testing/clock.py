"""The broker's clock: every deadline of the broker goes by it, for clients in any language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.testing.waiting import Span, span_ms

if TYPE_CHECKING:
    from kohort.testing.life import Life


class Clock:
    """Moves sessions, rebalances, transactions, retention and expiry. What clients wait for by their own clocks stays.

    Where it stands is kept when the broker is killed or stopped, and started again.
    """

    def __init__(self, life: Life) -> None:
        self._life = life

    @property
    def now_ms(self) -> int:
        """What the broker takes for now, in ms since 1970."""
        return self._told("clock")

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._life.clock[1] is not None

    def shift(self, span: Span) -> None:
        """Move it forward; when this returns, everything that is due then has happened."""
        self._told("shift_clock", by_ms=span_ms(span))

    def freeze(self) -> None:
        """Let it stand still: nobody expires, however long a test takes, unless it is shifted."""
        self._told("freeze_clock")

    def unfreeze(self) -> None:
        """Let it go on, from where it stands."""
        self._told("unfreeze_clock")

    def _told(self, command: str, **words: int) -> int:
        now_ms, *self._life.clock = self._life.ask(command, **words)
        return int(now_ms)
