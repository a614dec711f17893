"""In a checkout the rooms lie beside this package; in an installation they are inside it, and nothing is to be done."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def open_rooms() -> None:
    """Let this process import the rooms of a checkout, before anything else of the same names that lies about."""
    if (_HERE / "rooms").is_dir():
        return
    folder = str(_HERE.parent)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
