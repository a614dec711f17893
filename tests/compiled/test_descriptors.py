"""Nobody takes a descriptor out of a local: in native code a local ends after its last use, and closes it with it."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parents[2]
OWNER = "storage/files.py"  # stays interpreted; its file asks the disk with its own descriptor


def taken(source: str, path: str) -> list[int]:
    """The lines where a descriptor is taken out of something that this function may hold last."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or node.attr not in ("fd", "fileno"):
            continue
        of_itself = isinstance(node.value, ast.Name) and node.value.id == "self"
        allowed = (
            of_itself and path == OWNER if node.attr == "fd" else of_itself or not isinstance(node.value, ast.Name)
        )
        if not allowed:
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
