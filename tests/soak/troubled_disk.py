"""`python -m tests.soak.troubled_disk FILE serve ...`: the broker, on a disk that does what FILE says at the moment.

`full` refuses to write, `slow` takes a fiftieth of a second for each fsync; anything else, or no file, is a good disk.
What `KOHORT_SOAK_PLANTED` names, of `tests.soak.planted`, is wrong with the broker from its start. It says what its
memory is made of when it is asked (`tests.soak.anatomy`). As with `make run`, it is native code where `make compiled`
was run.
"""

import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kohort._checkout import open_rooms

open_rooms()  # before one is imported: they all are of one tree
from storage.files import DISK  # noqa: E402
from tests.soak import anatomy  # noqa: E402

WRITES = ("pwrite", "mkdir")
SYNCS = ("fsync", "fdatasync", "syncfs")
SLOW_S = 0.02
_LOOK_EVERY_S = 0.1


class Mood:
    """What the file says, looked at ten times a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked = 0.0
        self._word = ""

    def __str__(self) -> str:
        now = time.monotonic()
        if now - self._looked > _LOOK_EVERY_S:
            self._looked = now
            self._word = self._path.read_text().strip() if self._path.exists() else ""
        return self._word


def trouble(mood: Mood) -> None:
    """Put the mood in front of the calls of every disk of this process."""

    def guarded(name: str) -> Callable[..., Any]:
        real = getattr(DISK, name)

        def call(*arguments: Any, **options: Any) -> Any:
            word = str(mood)
            if word == "full" and name in WRITES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if word == "slow" and name in SYNCS:
                time.sleep(SLOW_S)
            return real(*arguments, **options)

        return call

    for name in (*WRITES, *SYNCS):
        setattr(DISK, name, guarded(name))


if __name__ == "__main__":
    mood = Path(sys.argv.pop(1))
    trouble(Mood(mood))
    anatomy.answer(anatomy.beside(mood))
    if os.environ.get("KOHORT_SOAK_PLANTED"):
        from tests.soak.planted import PLANTED

        PLANTED[os.environ["KOHORT_SOAK_PLANTED"]]()
    from kohort.__main__ import main

    sys.exit(main())
