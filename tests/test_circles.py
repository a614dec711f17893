"""No two modules need each other, not even for their types: what goes round in a circle cannot be read in any order."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")


def modules() -> dict[str, Path]:
    """Every module of the rooms by its name."""
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path], *, types: bool) -> set[str]:
    """Which of the known modules a file imports, at its top or in a function; with `types` for its annotations, too."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING" and not types:
                continue
            if isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    found.add(whole if whole in known else child.module)
            visit(child)

    visit(ast.parse(path.read_text()))
    return found & known.keys()


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The strongly connected components of more than one module, each sorted. Source: Tarjan, 1972."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = set()

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            members = stack[stack.index(name) :]
            del stack[-len(members) :]
            if len(members) > 1:
                found.add(tuple(sorted(members)))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def graph_of(*, types: bool) -> dict[str, set[str]]:
    known = modules()
    return {name: imports(path, known, types=types) - {name} for name, path in known.items()}


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {("b", "c")}


def test_modules_need_each_other_in_one_direction_only():
    assert circles(graph_of(types=True)) == set()
