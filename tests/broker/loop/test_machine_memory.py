"""What memory there is: the least limit of the container's groups, above it too, and of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker import process
from broker.config.settings import Settings
from broker.loop import machine_memory
from broker.loop.machine_memory import anonymous_bytes, memory_limit_bytes
from broker.network.memory import NO_BOUND, Shares
from tests.support.control_groups import ControlGroups

MB = 1 << 20
MACHINE = 64 << 30


class Machine(ControlGroups):
    """One with made-up files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        self.has(MACHINE)

    def has(self, memory_bytes: int) -> None:
        """So much memory."""
        values = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory_bytes // 4096}
        self._monkeypatch.setattr(machine_memory, "os", SimpleNamespace(sysconf=values.__getitem__))

    def tells_nothing(self) -> None:
        """Of its memory."""

        def sysconf(name: str) -> int:
            raise ValueError(f"unrecognized configuration name: {name}")

        self._monkeypatch.setattr(machine_memory, "os", SimpleNamespace(sysconf=sysconf))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_without_groups_it_is_the_machine(machine: Machine) -> None:
    assert memory_limit_bytes() == MACHINE
    machine.is_in(None)
    assert memory_limit_bytes() == MACHINE


def test_version_2_in_a_container(machine: Machine) -> None:
    """Its own group is the root of what it sees."""
    machine.limits("memory.max", "536870912\n")
    assert memory_limit_bytes() == 512 * MB
    machine.limits("memory.max", "max\n")
    assert memory_limit_bytes() == MACHINE


def test_version_2_on_the_machine(machine: Machine) -> None:
    """A unit of systemd: its own limit, or one of any group above."""
    machine.is_in("0::/system.slice/kohort.service\n")
    machine.limits("system.slice/kohort.service/memory.max", "1073741824\n")
    machine.limits("system.slice/memory.max", "max\n")
    assert memory_limit_bytes() == 1024 * MB
    machine.limits("system.slice/memory.max", "805306368\n")
    assert memory_limit_bytes() == 768 * MB
    machine.limits("memory.max", "268435456\n")
    assert memory_limit_bytes() == 256 * MB


def test_version_2_of_another_group_says_nothing(machine: Machine) -> None:
    machine.is_in("0::/system.slice/kohort.service\n")
    machine.limits("system.slice/other.service/memory.max", "1048576\n")
    assert memory_limit_bytes() == MACHINE


def test_version_1_in_a_container(machine: Machine) -> None:
    machine.is_in("11:memory:/docker/0123\n1:name=systemd:/docker/0123\n")
    machine.limits("memory/memory.limit_in_bytes", "402653184\n")
    assert memory_limit_bytes() == 384 * MB


def test_version_1_without_a_limit(machine: Machine) -> None:
    """It says so with a number that no machine has."""
    machine.is_in("11:memory:/\n")
    machine.limits("memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit_bytes() == MACHINE
    machine.tells_nothing()
    assert memory_limit_bytes() == 0


def test_both_versions(machine: Machine) -> None:
    """Hybrid: systemd's own tree of version 2 beside those of version 1."""
    machine.is_in("11:memory:/user.slice\n0::/user.slice\n")
    machine.limits("memory/memory.limit_in_bytes", "402653184\n")
    machine.limits("user.slice/memory.max", "max\n")
    assert memory_limit_bytes() == 384 * MB


def test_a_limit_above_what_the_machine_has_is_none(machine: Machine) -> None:
    machine.has(1024 * MB)
    machine.limits("memory.max", str(2048 * MB))
    assert memory_limit_bytes() == 1024 * MB


@pytest.mark.parametrize("told", ["", "max", "0", "-1", "many"])
def test_what_cannot_be_read_is_no_limit(machine: Machine, told: str) -> None:
    machine.limits("memory.max", told)
    machine.limits("memory/memory.limit_in_bytes", told)
    machine.is_in("nonsense\n")
    assert memory_limit_bytes() == MACHINE


def test_when_nothing_can_be_known(machine: Machine) -> None:
    """Then nothing is bounded."""
    machine.tells_nothing()
    assert memory_limit_bytes() == 0
    assert process._memory(Settings({})) == (0, NO_BOUND)


def test_the_bound_is_three_quarters_of_it_unless_a_setting_says_otherwise(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "anonymous_bytes", lambda: 40 * MB)
    machine.limits("memory.max", str(512 * MB))
    assert process._memory(Settings({})) == (384 * MB, Shares.of(384 * MB, 40 * MB))
    machine.limits("memory.max", "max")
    assert process._memory(Settings({}))[0] == MACHINE // 4 * 3
    set_by_hand = Settings({"kohort.memory.max.bytes": str(200 * MB)})
    assert process._memory(set_by_hand) == (200 * MB, Shares.of(200 * MB, 40 * MB))


def test_on_this_machine() -> None:
    assert 0 < memory_limit_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


MEASURED = """
import psutil
from broker.loop.machine_memory import anonymous_bytes
before = anonymous_bytes()
kept = bytearray(b"x") * (64 << 20)
grown = anonymous_bytes() - before
print(grown, anonymous_bytes() <= psutil.Process().memory_info().rss)
"""


def test_anonymous_memory_is_what_was_written_to() -> None:
    """Not the pages of files, which are the kernel's. In a process of its own: here others' garbage goes meanwhile."""
    path = os.pathsep.join(sys.path)
    told = subprocess.run(
        [sys.executable, "-c", MEASURED],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ).stdout
    grown, within = told.split()
    assert 60 * MB < int(grown) < 80 * MB
    assert within == "True"


def test_anonymous_memory_is_unknown_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise FileNotFoundError("/proc/self/status")

    monkeypatch.setattr(machine_memory, "open", missing, raising=False)
    assert anonymous_bytes() == 0
