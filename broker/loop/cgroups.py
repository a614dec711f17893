"""The limits of the container this process runs in: the files of its control groups.

Source: Linux's cgroup v2 and v1.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def of_all_groups(name: str) -> list[str]:
    """What each group says in its file `name` (version 2): ours, and those above it, whose limits hold too."""
    own = "/"
    with suppress(ValueError, OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, _, path = line.split(":", 2)
            if number == "0":
                own = path
    group = _GROUPS / own.lstrip("/")
    groups = [_GROUPS]
    while group != _GROUPS and _GROUPS in group.parents:
        groups.append(group)
        group = group.parent
    return [text for group in groups if (text := _text(group / name))]


def of_the_container(controller: str, name: str) -> str:
    """What the file `name` of a controller says (version 1), where a container sees its own group; "" without one."""
    return _text(_GROUPS / controller / name)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
