"""Which classes cannot be what the tree says: seen before the compiler runs, or a broker starts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

OF_PROTOCOL = ("Struct", "Message")
"""Bases of messages, which are native or not as their API is hot."""


def misfits(root: Path, rooms: Collection[str], native: Collection[str], decorated: Mapping[str, object]) -> list[str]:
    """Sentences: native classes of interpreted bases, and interpreted classes of native bases that are not open.

    `decorated`: the classes that `DECORATED` of `tools.compiled.tree` names, which are open, or not native after all.
    """
    homes: dict[str, str] = {}
    found = []
    classes = [(module, node) for module, node in _classes(root, rooms)]
    for module, node in classes:
        if module in native or node.name not in homes:
            homes[node.name] = module
    for module, node in classes:
        for base in node.bases:
            name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
            home = homes.get(name)
            if home is None or name in OF_PROTOCOL or node.name in decorated or name in decorated:
                continue
            if module in native and home not in native:
                found.append(f"{module}.{node.name} is native, and its base {name} of {home} is not")
            if module not in native and home in native:
                found.append(f"{module}.{node.name} is interpreted, and its base {name} of {home} is native")
    return found


def _classes(root: Path, rooms: Collection[str]) -> Iterator[tuple[str, ast.ClassDef]]:
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    yield module, node
