"""Nobody takes a descriptor out of a local: in native code a local ends after its last use, and closes it with it."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parents[2]
OWNER = "storage/files.py"  # stays interpreted; its file asks the disk with its own descriptor


def taken(source: str, path: str) -> list[int]:
    """The lines where a descriptor is taken out of something that this function, or nobody, may hold last."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or node.attr not in ("fd", "fileno"):
            continue
        holder = node.value
        while node.attr == "fileno" and isinstance(holder, ast.Attribute):
            holder = holder.value
        of_itself = isinstance(holder, ast.Name) and holder.id == "self"
        if not of_itself or (node.attr == "fd" and path != OWNER):
            found.append(node.lineno)
    return found


@pytest.mark.parametrize("room", ["protocol", "coordinator", "storage", "broker"])
def test_no_descriptor_is_taken_out_of_a_local(room: str) -> None:
    """`file.sync()`, never `disk.fsync(file.fd)`: the second closed the file before its fsync, once it was compiled."""
    for path in sorted((ROOT / room).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith("broker/testbed/"):  # tests' own disks, never compiled
            assert taken(path.read_text(), name) == [], name


def test_the_check_sees_one() -> None:
    """What it is there for."""
    assert taken("def sync(file):\n    fsync(file.fd)\n", "storage/log/partition_log.py") == [2]
    assert taken("def sync(file):\n    fsync(file.fileno())\n", OWNER) == [2]
    assert taken("def sync(path):\n    fsync(open(path).fileno())\n", OWNER) == [2]
    assert taken("def sync(side):\n    fsync(side.file.fileno())\n", OWNER) == [2]
    assert taken("def sync(self):\n    fsync(self.file.fileno())\n", OWNER) == []
