"""Tests that share what is dear to make run in one process of a parallel run."""

import os
from pathlib import Path

import pytest

from tests.support.units import unit


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes of this run, with a file of each that has made this fixture."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "popen" in own.name else own) / "makers"
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    return folder


@pytest.mark.parametrize("number", range(4))
def test_a_fixture_of_a_file_is_made_once_in_a_parallel_run(makers: Path, number: int) -> None:
    assert [file.name for file in makers.iterdir()] == [str(os.getpid())]


def test_a_unit_is_a_group_or_a_file_with_a_fixture_of_its_own() -> None:
    assert unit("tests/reference/judge/test_judge.py") == "judge"
    assert unit("tests/crash/test_sigkill.py") == unit("tests/crash/test_streams.py") == "crash"
    assert unit("tests/cli/test_acls.py") == "tests/cli/test_acls.py"
    assert unit("tests/crash/test_any_failure.py") is None
