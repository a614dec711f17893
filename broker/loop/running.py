"""Which tree this process runs, and on which interpreter."""

from __future__ import annotations

import sys

from protocol.schema.ahead import TREE


def tree_and_interpreter() -> tuple[str, str]:
    """("pure" or "compiled", such as "CPython 3.11.7")."""
    name = {"cpython": "CPython"}.get(sys.implementation.name, sys.implementation.name)
    return TREE, f"{name} {'.'.join(map(str, sys.version_info[:3]))}"
