"""How much memory this process may have, and how much it has.

Source: Linux's cgroup v2 and v1, proc(5).
"""

from __future__ import annotations

import os
from contextlib import suppress

from broker.loop.cgroups import of_all_groups, of_the_container

_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"


def memory_limit_bytes() -> int:
    """The smallest limit of the container's groups and the machine; 0 when nothing can be known."""
    limits = []
    with suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    texts = [*of_all_groups("memory.max"), of_the_container("memory", "memory.limit_in_bytes")]
    limits += [limit for text in texts if 0 < (limit := _limit(text)) < _UNLIMITED]
    return min(limits, default=0)


def anonymous_bytes() -> int:
    """Memory of this process that only it can give back: not the pages of mapped files. 0 when unknown."""
    try:
        with open("/proc/self/status", "rb") as file:  # noqa: PTH123  once a second, and pathlib is slower
            for line in file:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _limit(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0  # not there, or "max"
