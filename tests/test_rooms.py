"""The import contracts of pyproject.toml hold, and each of them can fail."""

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import rooms

pytestmark = pytest.mark.usefixtures("parser_alone")

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("kohort", "protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")

# One import that each contract must refuse: (the contract, the file that gets it, the import).
UPWARDS = [
    ("rooms import downwards only", "coordinator/shard.py", "import storage.errors"),
    ("the broker's rooms import downwards only", "broker/partitions/errors.py", "import broker.handlers.context"),
    ("storage's rooms import downwards only", "storage/reading/batches.py", "import storage.log.retention"),
    ("offline work needs no running broker", "offline/graduate/findings.py", "import broker.partitions.table"),
    ("the pipeline reads logs", "pipeline/spans.py", "import coordinator.shard"),
    ("what decides with values", "coordinator/routing.py", "import time"),
    ("storage meets no socket", "storage/errors.py", "import socket"),
    ("storage knows batches", "storage/state/flush.py", "import protocol.messages.fetch"),
    ("of the broker only the loop", "broker/groups/lines.py", "import threading"),
    ("what tests import is light", "kohort/testing/configs.py", "import structlog"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rooms and their contracts, to be spoiled."""
    folder = tmp_path_factory.mktemp("rooms")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_room_is_in_the_layers():
    """The top list cannot be exhaustive: what is at the top has no container (docs/decisions/import-contracts.md)."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {room for layer in linter["contracts"][0]["layers"] for room in layer.split(" | ")}
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")} - {"benchmarks"}
    assert layers == set(linter["root_packages"]) == set(ROOMS) == packages


@pytest.mark.xdist_group("rooms")
def test_every_import_runs_down(copy: Path):
    held = contracts(copy)
    assert held.returncode == 0, held.stdout


@pytest.mark.xdist_group("rooms")
def test_every_contract_can_fail(copy: Path):
    """One run with every forbidden import: each contract is broken by its own."""
    for _, file, line in UPWARDS:
        with (copy / file).open("a") as spoiled:
            spoiled.write(f"\n{line}\n")
    found = contracts(copy)
    assert found.returncode != 0
    verdicts = " ".join(found.stdout.split("Broken contracts")[0].split())
    for name, _, _ in UPWARDS:
        rest = verdicts.split(name)[1]
        assert rest.index("BROKEN") < (rest.index("KEPT") if "KEPT" in rest else len(rest)), name


def test_rooms_are_imported_by_from_only():
    """The wheel puts them inside `kohort.rooms` by rewriting just that (docs/decisions/one-public-name.md)."""
    wrong = [
        f"{file.relative_to(ROOT)}: import {alias.name}"
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.split(".")[0] in set(ROOMS) - {"kohort"}
    ]
    assert not wrong


def test_the_pages_draw_the_rooms_as_they_are(tmp_path: Path):
    """Boxes, floors and arrows are counted from the imports; `make check` asks too."""
    assert rooms.untrue(ROOT) == []

    for room in ("broker", "storage"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "storage" / "attic.py").write_text("from storage.log import retention\n")
    (tmp_path / "broker" / "loop" / "logs.py").open("a").write("from broker.http import routes\n")
    (tmp_path / "broker" / "http" / "app.py").open("a").write("from broker.http.metrics import lag\n")
    said = rooms.untrue(tmp_path)
    assert any("a circle in broker/http/: app" in one for one in said)
    assert any("storage/attic" in one for one in said)
    assert any("a circle in broker/" in one for one in said)
    assert any("arrows" in one for one in said)


FLAT = {"storage", "pipeline", "cli", "offline", "protocol"}
"""Rooms whose tests go through all of their packages (docs/decisions/where-tests-stand.md)."""


def test_tests_stand_where_the_rooms_do():
    """Each room has its folder, and each package of a room that is not flat; no folder is named for another one."""
    missing = [room for room in ROOMS if not (ROOT / "tests" / room).is_dir()]
    for room in set(ROOMS) - FLAT:
        packages = {each.parent.name for each in (ROOT / room).glob("*/__init__.py")}
        folders = {each.parent.name for each in (ROOT / "tests" / room).glob("*/test_*.py")}
        missing += [f"{room}/{package}" for package in packages ^ folders]
    assert not missing


WITHIN = {"decisions.py", "loop_clock.py", "path.py"}
"""Benchmarks that measure the broker from within: one rule, its loop's own clock, its path without a socket."""


def test_benchmarks_import_nothing_of_the_broker():
    """They drive it as a process, but for those that look inside."""
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in sorted((ROOT / "benchmarks").rglob("*.py"))
        if file.name not in WITHIN
        for name in imports_of(file)
        if name.split(".")[0] == "broker"
    ]
    assert not wrong


def imports_of(file: Path) -> set[str]:
    """Every module that a file imports, wherever the statement stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_no_descriptor_is_taken_out_of_its_file():
    """Compiled code drops a local after its last use: `disk.fsync(file.fd)` closed the file first (EBADF)."""
    taken = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ("storage", "broker", "offline")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "fd" and path != ROOT / "storage" / "files.py"
    ]
    assert not taken, taken


SEAMS = ("broker/broker.py", "broker/handlers/*.py", "broker/network/throttling.py")


@pytest.mark.parametrize("seam", sorted(str(path.relative_to(ROOT)) for seam in SEAMS for path in ROOT.glob(seam)))
def test_seams_are_typed(seam: str):
    """What handlers see and what they are told and give back: `Broker`, contexts, `Deferred`, `Handler`, answers.

    Handlers divided, throttled and gathered from parts too: nothing on the way from a request to its answer is `Any`.
    """
    named = [node.lineno for node in ast.walk(ast.parse((ROOT / seam).read_text())) if getattr(node, "id", "") == "Any"]
    assert not named
