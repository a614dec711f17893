"""Which tests a parallel run keeps in one process: those that share what is dear to make.

pytest-xdist 3.8 passes the name of an `xdist_group` on in a test's id, which pytest 9.2 does not let it change: its own
`--dist loadgroup` sends every test alone, and each process plays the judge, builds the wheel, starts Apache Kafka.
Source: pytest-dev/pytest-xdist issue 1386.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[2]
_GROUP = re.compile(r"xdist_group\(\"([^\"]+)\"\)")
_SHARED = re.compile(r"@pytest\.fixture\(scope=\"module\"")


class UnitScheduling(LoadScopeScheduling):
    """Units of several tests first, the largest before the others; then every other test as a process is free."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return unit(path) or nodeid


@cache
def unit(path: str) -> str | None:
    """The group that a file names, or the file itself if its tests share a fixture; None: they share nothing."""
    text = (ROOT / path).read_text()
    if named := _GROUP.search(text):
        return named[1]
    return path if _SHARED.search(text) else None


def quick_ones_last(items: list[pytest.Item]) -> None:
    """In place: what runs at the end, when some processes have nothing left to do, is short. Units keep their order."""
    items.sort(key=lambda item: not (item.get_closest_marker("slow") or unit(item.nodeid.partition("::")[0])))
