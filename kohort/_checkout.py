"""In a checkout the rooms lie beside this package; in an installation they are inside it, and nothing is to be done."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def open_rooms() -> None:
    """Let this process import the rooms of a checkout, before anything else of the same names that lies about."""
    if (_HERE / "rooms").is_dir():
        return
    folder = str(_compiled(_HERE.parent) or _HERE.parent)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _compiled(checkout: Path) -> Path | None:
    """The tree that `make compiled` made, if it is for this interpreter and no source is newer (docs/compiled.md)."""
    tree = checkout / "build" / "compiled"
    if os.environ.get("KOHORT_PURE") == "1":
        return None
    try:
        stamp = tree / "stamp"
        made_s, suffix = stamp.stat().st_mtime, stamp.read_text()
        is_older = suffix != _extension_suffix() or any(_newest_s(checkout / room) > made_s for room in _rooms(tree))
    except OSError:  # there is none, or a room of it is no more
        return None
    return None if is_older else tree


def _extension_suffix() -> str:
    from importlib.machinery import EXTENSION_SUFFIXES  # noqa: PLC0415  only where there is such a tree

    return EXTENSION_SUFFIXES[0]


def _rooms(tree: Path) -> list[str]:
    return [entry.name for entry in os.scandir(tree) if entry.is_dir() and not entry.name.startswith((".", "_"))]


def _newest_s(folder: Path | os.DirEntry[str]) -> float:
    """When a source in it was changed last."""
    newest = 0.0
    for entry in os.scandir(folder):
        if entry.is_dir():
            newest = max(newest, _newest_s(entry))
        elif entry.name.endswith(".py"):
            newest = max(newest, entry.stat().st_mtime)
    return newest
