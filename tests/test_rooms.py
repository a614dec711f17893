"""The room table of docs/architecture.md, read off the import statements."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("protocol", "coordinator", "storage", "broker", "pipeline")
MAY_IMPORT = {
    "protocol": {"protocol"},
    "coordinator": {"coordinator", "protocol"},
    "storage": {"storage", "protocol"},
    "broker": {"protocol", "coordinator", "storage", "broker"},
    # Of coordinator only the findings: the import contract in pyproject.toml says so.
    "pipeline": {"protocol", "storage", "pipeline", "coordinator"},
}
# What would bring the outside world into a room that decides with values only.
OUTSIDE = {
    "protocol": {
        "socket",
        "asyncio",
        "time",
        "logging",
        "structlog",
        "threading",
        "random",
        "uuid",
        "os",
        "pathlib",
    },
    "coordinator": {
        *(
            "socket",
            "asyncio",
            "time",
            "datetime",
            "logging",
            "structlog",
            "threading",
            "random",
            "uuid",
            "secrets",
        ),
        *("os", "io", "pathlib", "subprocess", "multiprocessing"),
    },
    "storage": {"socket", "asyncio", "structlog", "random", "uuid"},
    "broker": set(),
    "pipeline": set(),
}


def imports_of(file: Path) -> set[str]:
    """Every module that a file imports, wherever the statement stands, imports for type checking left out."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for rest in node.orelse:
                visit(rest)
            return
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names.add(node.module or "")
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(file.read_text()))
    return names


def files_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_the_table_allows(room: str):
    """Rooms depend on each other in one direction."""
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files_of(room)
        for name in imports_of(file)
        if name.split(".")[0] in set(ROOMS) - MAY_IMPORT[room] or name.split(".")[0] in {"tests", "benchmarks"}
    ]
    assert not wrong


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_keeps_the_outside_world_out(room: str):
    """Sockets, clocks and randomness arrive as arguments."""
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files_of(room)
        for name in imports_of(file)
        if name.split(".")[0] in OUTSIDE[room]
    ]
    assert not wrong


def test_benchmarks_import_nothing_of_the_broker():
    """They drive it as a process."""
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files_of("benchmarks")
        for name in imports_of(file)
        if name.split(".")[0] == "broker"
    ]
    assert not wrong
