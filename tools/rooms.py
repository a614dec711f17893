"""Draws the rooms in words: boxes, floors, arrows and circles of a package, and the lines of every room.

    python tools/rooms.py [CHECKOUT]
    python tools/rooms.py --check

A box is a module or package directly below the package; an arrow stands for any number of imports between two boxes,
those for types included. A box's floor is how many boxes stand below it at most. `--check` (of `make check`) says
where the pages are wrong about them.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOMS = ("kohort", "cli", "offline", "pipeline", "broker", "coordinator", "storage", "protocol")
CIRCULAR = "coordinator"
"""Classic and consumer groups know each other's values: docs/design.md."""


def boxes(root: Path, package: str) -> dict[str, set[str]]:
    """Each box and those that it imports. `package`: as a path, `broker/http`."""
    found: dict[str, set[str]] = {}
    above = package.split("/")
    depth = len(above)
    for path in (root / package).rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        if len(parts) == depth + 1 and parts[depth] == "__init__":
            continue
        arrows = found.setdefault(parts[depth], set())
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    names = f"{node.module}.{alias.name}".split(".")
                    if names[:depth] == above and len(names) > depth:
                        arrows.add(names[depth])
    return {box: (arrows & found.keys()) - {box} for box, arrows in found.items()}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Boxes that reach each other."""

    def reached(box: str) -> set[str]:
        seen: set[str] = set()
        waiting = [box]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {box: reached(box) for box in graph}
    found: list[set[str]] = []
    for box in graph:
        circle = {other for other in reach[box] if box in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def floors(graph: dict[str, set[str]]) -> list[list[str]]:
    """The boxes from the top floor down; those of a circle are left out."""
    in_circles = set().union(*circles(graph)) if circles(graph) else set()
    height: dict[str, int] = {}

    def floor(box: str) -> int:
        if box not in height:
            height[box] = 1 + max((floor(other) for other in graph[box] - in_circles), default=-1)
        return height[box]

    for box in graph.keys() - in_circles:
        floor(box)
    return [sorted(box for box in height if height[box] == n) for n in sorted(set(height.values()), reverse=True)]


def packages(root: Path) -> list[str]:
    """Every room, and every package in one."""
    found = {file.parent for room in ROOMS for file in (root / room).rglob("__init__.py")}
    return sorted(str(folder.relative_to(root)) for folder in found)


def lines(root: Path, package: str) -> int:
    """Lines of Python."""
    return sum(len(path.read_text().splitlines()) for path in (root / package).rglob("*.py"))


def drawn(root: Path, package: str) -> tuple[int, int, int]:
    """How many boxes, floors and arrows a package has."""
    graph = boxes(root, package)
    return len(graph), len(floors(graph)), sum(map(len, graph.values()))


def untrue(root: Path) -> list[str]:
    """What the pages say of the rooms, and is not so."""
    wrong = []
    design = " ".join((root / "docs" / "design.md").read_text().split())
    weigh = (root / "docs" / "decisions" / "what-the-rooms-weigh.md").read_text()
    broker, storage = drawn(root, "broker"), drawn(root, "storage")
    said = "`broker/` has {} boxes on {} floors with {} arrows between them, `storage/` {} on {} with {}"
    if said.format(*broker, *storage) not in design:
        wrong.append(f"docs/design.md does not say: {said.format(*broker, *storage)}")
    row = "| `broker/`, now | {} | {} | {} | 0 |".format(*broker)
    if row not in weigh:
        wrong.append(f"docs/decisions/what-the-rooms-weigh.md does not say: {row}")
    for package in ("broker", "storage"):
        unnamed = [box for box in boxes(root, package) if f" {box} " not in design]
        wrong += [f"docs/design.md does not draw {package}/{box}" for box in unnamed]
    for package in packages(root):
        if package != CIRCULAR:
            wrong += [f"a circle in {package}/: {', '.join(sorted(each))}" for each in circles(boxes(root, package))]
    return wrong


def main() -> None:
    """Print all of it."""
    if sys.argv[1:] == ["--check"]:
        wrong = untrue(Path(__file__).resolve().parent.parent)
        sys.exit("\n".join(wrong) or None)
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    for package in ("broker", "storage", "coordinator"):
        graph = boxes(root, package)
        levels = floors(graph)
        arrows = sum(map(len, graph.values()))
        print(f"{package}/: {len(graph)} boxes, {len(levels)} floors, {arrows} arrows, {len(circles(graph))} circles")
        for number, floor in zip(range(len(levels) - 1, -1, -1), levels, strict=True):
            print(f"  {number}  {'  '.join(floor)}")
    for room in ROOMS:
        print(f"{room + '/':14}{lines(root, room):7} lines")


if __name__ == "__main__":
    main()
