"""How many small faults, planted one at a time, do the tests of a room find? `make mutants`; docs/mutants.md has why.

mutmut plants the faults, keeps which test calls which function, and runs for each fault the tests that call its
function, the fastest first, until one fails. This draws a sample, asks mutmut, and counts. What was found is kept in
build/mutants; a function that changed is tried anew.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.mutants.workplace import KILLED, ROOMS, ROOT, TIMEOUT, Workplace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = ROOT / "docs" / "mutants.md"
_LISTED = re.compile(r"^\| `([\w.]+)` \| `(.*?)` \| `(.*?)` \|", re.MULTILINE)


@dataclass(frozen=True)
class Score:
    """How many of a sample were found; those that change nothing (`docs/mutants.md`) are left out of `share`."""

    found: int
    tried: int
    equivalent: int

    @property
    def share(self) -> float:
        """Of those that change something, 0 to 1."""
        counted = self.tried - self.equivalent
        return self.found / counted if counted else 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's interval for the whole room, at 95 %."""
        n, z = self.tried - self.equivalent, 1.96
        if not n:
            return 0.0, 1.0
        middle = (self.share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(self.share * (1 - self.share) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def listed(page: str) -> set[tuple[str, str, str]]:
    """(function, what was there, what it became) of those that docs/mutants.md says change nothing."""
    rows = _LISTED.findall(page)
    return {(place, was.replace("\\|", "|"), becomes.replace("\\|", "|")) for place, was, becomes in rows}


def stale(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those whose line stands nowhere in their module any more: they excuse nothing."""
    return sorted(row for row in rows if row[1] not in _module(row[0]))


def _module(place: str) -> str:
    parts = place.split(".")
    files = (ROOT.joinpath(*parts[:at]).with_suffix(".py") for at in range(len(parts), 0, -1))
    return next((" ".join(path.read_text().split()) for path in files if path.exists()), "")


def draw(names: Iterable[str], size: int, seed: int) -> list[str]:
    """So many of them, or all for 0.

    A larger sample of the same seed holds the smaller one, and what changes elsewhere hardly changes it: a name's place
    is a hash of itself.
    """
    order = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return order[:size] if size else order


def measure(place: Workplace, size: int, seed: int, equivalent: set[tuple[str, str, str]]) -> Score:
    """Try a sample and print what was not found, but for what is listed."""
    mutants = place.tried(draw(place.names(), size, seed))
    kinds: dict[str, int] = {}
    left_out = 0
    for mutant in mutants:
        kinds[mutant.status] = kinds.get(mutant.status, 0) + 1
        if mutant.status in {KILLED, TIMEOUT}:
            continue
        was, becomes = place.change(mutant)
        if (mutant.place, was, becomes) in equivalent:
            left_out += 1
            continue
        print(f"{mutant.status}: {mutant.place} ({mutant.name})\n  - {was}\n  + {becomes}")
    score = Score(kinds.get(KILLED, 0) + kinds.get(TIMEOUT, 0), len(mutants), left_out)
    low, high = score.bounds
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(
        f"{place.room.name}: {score.share:.1%} of {score.tried - score.equivalent} found "
        f"(95 %: {low:.1%} to {high:.1%}; seed {seed}; {told}; {left_out} change nothing)"
    )
    return score


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 1 if less than --at-least was found in a room."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}; all if none is named")
    parser.add_argument("--sample", type=int, default=200, help="mutants a room, 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--at-least", type=float, default=0.0, help="percent to be found in every room")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(words)
    if unknown := set(options.rooms) - ROOMS.keys():
        parser.error(f"no room is named {', '.join(sorted(unknown))}")
    equivalent = listed(PAGE.read_text())
    for place, was, _ in stale(equivalent):
        print(f"docs/mutants.md excuses what is no more: {place}: {was}")
    low = []
    for name in options.rooms or ROOMS:
        score = measure(
            Workplace(ROOMS[name], ROOT / "build" / "mutants" / name, options.processes),
            options.sample,
            options.seed,
            equivalent,
        )
        if score.share * 100 < options.at_least:
            low.append(name)
    if low:
        print(f"below {options.at_least:g} %: {', '.join(low)}", file=sys.stderr)
    return bool(low)


if __name__ == "__main__":
    sys.exit(main())
