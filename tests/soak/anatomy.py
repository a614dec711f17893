"""What the memory of a broker's process is made of: pages, allocators, objects. A signal asks for it, a file answers.

Resident memory alone does not tell a leak from a heap with holes. What is in use does: of Python's own allocator, which
gives out what has up to 512 bytes, and of malloc, which gives out the rest.
"""

import ctypes
import gc
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.broker_process import eventually

ASKED = signal.SIGUSR1
OF_POOLS = ("kohort-worker_", "kohort-process_")
"""How the threads of `broker.loop.loop_runtime` are called."""
TYPES = 60
"""So many of the most frequent types are told."""


@dataclass(frozen=True)
class Anatomy:
    """Bytes, but for `objects`."""

    anonymous: int
    """Resident, and only the process can give it back."""
    file: int
    """Resident, and the page cache's."""
    small: int
    """In use, of Python's own allocator."""
    arenas: int
    """What Python's own allocator has taken for it."""
    large: int
    """In use, of malloc."""
    free: int
    """In malloc's arenas, and not in use."""
    objects: dict[str, int]
    """How many there are of the most frequent types: what the collector knows, and has not frozen."""
    workers: int
    """Threads that the broker keeps to give them work: one for each that may be at work at once, when all have been."""

    @property
    def used_bytes(self) -> int:
        """By whatever it is."""
        return self.small + self.large

    @property
    def hole_bytes(self) -> int:
        """What both have, and have not given out. Of malloc's, some may have gone back to the system."""
        return self.arenas - self.small + self.free


class _Mallinfo2(ctypes.Structure):
    """Source: mallinfo(3)."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


def anatomy() -> Anatomy:
    """Of this process, which runs on Linux with glibc. Raises: OSError, AttributeError elsewhere."""
    anonymous, file = _pages()
    small, arenas = _python_allocator()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo2
    heap = libc.mallinfo2()
    counts = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    objects = dict(counts.most_common(TYPES))
    # `threading.enumerate` waits for a lock, which whoever was interrupted may have.
    known = tuple(threading._active.values())  # type: ignore[attr-defined]
    workers = sum(one.is_alive() and one.name.startswith(OF_POOLS) for one in known)
    return Anatomy(anonymous, file, small, arenas, heap.uordblks + heap.hblkhd, heap.fordblks, objects, workers)


def beside(path: Path) -> Path:
    """Where the broker whose mood stands in `path` puts its answer."""
    return path.with_name("anatomy.json")


def answer(path: Path) -> None:
    """Write it to `path` whenever somebody sends `ASKED`."""

    def tell(_number: int, _frame: object) -> None:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(anatomy())))
        new.rename(path)

    signal.signal(ASKED, tell)


def asked(pid: int, path: Path) -> Anatomy:
    """The answer of that process, which has been told to `answer` there. Raises: AssertionError when none comes."""
    path.unlink(missing_ok=True)
    os.kill(pid, ASKED)
    eventually(path.exists, what=f"what {pid} is made of")
    return Anatomy(**json.loads(path.read_text()))


def _pages() -> tuple[int, int]:
    """Source: proc(5)."""
    text = Path("/proc/self/smaps_rollup").read_text()
    found = {name: int(kilobytes) * 1024 for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return found["Anonymous"], found["Rss"] - found["Anonymous"]


def _python_allocator() -> tuple[int, int]:
    """What is in use of it, and what it has. It tells only people, on standard error."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text = file.read().decode()
    used = re.search(r"# bytes in allocated blocks\s+=\s+([\d,]+)", text)
    arenas = re.search(r"[\d,]+ arenas \* [\d,]+ bytes/arena\s+=\s+([\d,]+)", text)
    assert used and arenas, text[-2_000:]
    return int(used[1].replace(",", "")), int(arenas[1].replace(",", ""))
