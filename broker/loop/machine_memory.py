"""How much memory this process may have, and how much it has.

Source: Linux's cgroup v2 and v1, proc(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"


def memory_limit_bytes() -> int:
    """The smallest limit of the container's groups and the machine; 0 when nothing can be known."""
    limits = []
    with suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limits += [limit for path in _limit_files() if 0 < (limit := _number(path)) < _UNLIMITED]
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


def _limit_files() -> list[Path]:
    files = [_GROUPS / "memory" / "memory.limit_in_bytes"]
    own = "/"
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, _, path = line.split(":", 2)
            if number == "0":
                own = path
    except (OSError, ValueError):
        pass
    group = _GROUPS / own.lstrip("/")
    files.append(_GROUPS / "memory.max")
    while group != _GROUPS and _GROUPS in group.parents:  # a limit of any group above holds too
        files.append(group / "memory.max")
        group = group.parent
    return files


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0  # not there, or "max"
