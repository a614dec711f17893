"""In a checkout the rooms lie beside this package; in an installation they are inside it, and nothing is to be done.

Every start imports this first, so it has no pathlib and no typing: they are half of what `kohort --help` would take.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def open_rooms() -> None:
    """Let this process import the rooms of a checkout, before anything else of the same names that lies about."""
    if os.path.isdir(f"{_HERE}/rooms"):
        return
    checkout = os.path.dirname(_HERE)
    folder = _compiled(checkout) or checkout
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _compiled(checkout: str) -> str | None:
    """The tree that `make compiled` made, if it is for this interpreter and no source is newer (docs/compiled.md)."""
    if os.environ.get("KOHORT_PURE") == "1" or not os.path.isdir(f"{checkout}/build/compiled"):
        return None
    tree = os.path.realpath(f"{checkout}/build/compiled")
    descriptor = -1
    try:
        descriptor = _hold(tree)
        with open(f"{tree}/stamp", encoding="ascii") as stamp:
            made_s, suffix = os.fstat(stamp.fileno()).st_mtime, stamp.read()
        is_older = suffix != _extension_suffix() or any(
            _newest_s(f"{checkout}/{room}") > made_s for room in _rooms(tree)
        )
    except OSError:  # it is unfinished, or just being removed, or a room of it is no more
        is_older = True
    if is_older and descriptor >= 0:
        os.close(descriptor)
    return None if is_older else tree


def _hold(tree: str) -> int:
    """Keep a tree as long as this process lives, which loads codecs as it needs them. Raises: OSError.

    `make compiled` removes the trees that nobody holds.
    """
    import fcntl  # noqa: PLC0415  only where there is such a tree

    descriptor = os.open(tree, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _extension_suffix() -> str:
    from importlib.machinery import EXTENSION_SUFFIXES  # noqa: PLC0415  only where there is such a tree

    return EXTENSION_SUFFIXES[0]


def _rooms(tree: str) -> list[str]:
    return [entry.name for entry in os.scandir(tree) if entry.is_dir() and not entry.name.startswith((".", "_"))]


def _newest_s(folder: str | os.DirEntry[str]) -> float:
    """When a source in it was changed last."""
    newest = 0.0
    for entry in os.scandir(folder):
        if entry.is_dir():
            newest = max(newest, _newest_s(entry))
        elif entry.name.endswith(".py"):
            newest = max(newest, entry.stat().st_mtime)
    return newest
