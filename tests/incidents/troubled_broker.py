"""`python -m tests.incidents.troubled_broker FILE serve ...`: the broker, with the disk and the clock that FILE says.

`full` refuses to write; `clock SECONDS` sets the wall clock forth or back. The monotonic clock goes on as it does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.soak.troubled_disk import Mood, trouble


class Clock:
    """The wall clock, stepped."""

    def __init__(self, mood: Mood) -> None:
        self._mood = mood
        self._real_ns = time.time_ns

    def time_ns(self) -> int:
        word, _, seconds = str(self._mood).partition(" ")
        return self._real_ns() + (int(seconds) * 1_000_000_000 if word == "clock" else 0)

    def time(self) -> float:
        return self.time_ns() / 1e9


if __name__ == "__main__":
    mood = Mood(Path(sys.argv.pop(1)))
    trouble(mood)
    clock = Clock(mood)
    time.time_ns, time.time = clock.time_ns, clock.time
    from kohort.__main__ import main

    sys.exit(main())
