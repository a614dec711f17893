"""How many processors there are: those the process may run on, or less, by its groups or those above."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.loop import machine_processors
from broker.loop.machine_processors import processors
from tests.support.control_groups import ControlGroups


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlGroups:
    """Of a machine with eight."""
    monkeypatch.setattr(machine_processors, "os", SimpleNamespace(sched_getaffinity=lambda _: set(range(8))))
    return ControlGroups(tmp_path, monkeypatch)


def test_without_a_quota_it_is_what_the_process_may_run_on(groups: ControlGroups) -> None:
    assert processors() == 8
    groups.is_in(None)
    assert processors() == 8


def test_version_2(groups: ControlGroups) -> None:
    """A container's own group, or a unit's and those above it."""
    groups.limits("cpu.max", "150000 100000\n")
    assert processors() == 1.5
    groups.limits("cpu.max", "max 100000\n")
    assert processors() == 8
    groups.is_in("0::/system.slice/kohort.service\n")
    groups.limits("system.slice/kohort.service/cpu.max", "400000 100000\n")
    assert processors() == 4
    groups.limits("system.slice/cpu.max", "25000 50000\n")
    assert processors() == 0.5


def test_version_1(groups: ControlGroups) -> None:
    groups.limits("cpu/cpu.cfs_quota_us", "-1\n")
    groups.limits("cpu/cpu.cfs_period_us", "100000\n")
    assert processors() == 8
    groups.limits("cpu/cpu.cfs_quota_us", "50000\n")
    assert processors() == 0.5


def test_a_quota_of_more_than_there_are_is_none(groups: ControlGroups) -> None:
    groups.limits("cpu.max", "1600000 100000\n")
    assert processors() == 8


@pytest.mark.parametrize("told", ["", "max", "0 100000", "-1 100000", "many 100000", "50000", "50000 0", "1 2 3"])
def test_what_cannot_be_read_is_no_quota(groups: ControlGroups, told: str) -> None:
    groups.limits("cpu.max", told)
    groups.limits("cpu/cpu.cfs_quota_us", told)
    groups.limits("cpu/cpu.cfs_period_us", "0")
    assert processors() == 8


def test_where_nobody_is_bound_to_processors_it_is_those_of_the_machine(
    groups: ControlGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS."""
    monkeypatch.setattr(machine_processors, "os", SimpleNamespace(cpu_count=lambda: 3))
    assert processors() == 3
    monkeypatch.setattr(machine_processors, "os", SimpleNamespace(cpu_count=lambda: None))
    assert processors() == 1


def test_on_this_machine() -> None:
    assert 0 < processors() <= len(os.sched_getaffinity(0))
