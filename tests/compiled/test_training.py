"""What usual requests look like, for a C compiler: the load that a broker of the tree serves between two builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.compiled.training import Untrained, train, why_not

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("there is no C compiler (cc)")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("package", ["", "kohort.rooms"])
def test_a_broker_of_the_tree_serves_the_whole_load(package: str, compiler: str, tmp_path: Path) -> None:
    """As it stands in a checkout and in a wheel; interpreted, since compiling it to watch itself takes minutes."""
    words = [sys.executable, "-m", "tools.compiled", "--source", "--out", str(tmp_path / "tree"), "--inside", package]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    train((tmp_path / "tree").resolve(), f"{package}." if package else "", compiler, seconds=0.1)


def test_a_broker_that_does_not_start_has_trained_nothing(compiler: str, tmp_path: Path) -> None:
    """With what it said. What is compiled then is compiled as without."""
    (tmp_path / "cli.py").write_text("raise ImportError('no rooms today')\n")
    with pytest.raises(Untrained, match=r"(?s)does not start.*no rooms today"):
        train(tmp_path, "", compiler)


def test_only_gcc_is_asked(tmp_path: Path, compiler: str) -> None:
    clang = tmp_path / "cc"
    clang.write_text("#!/bin/sh\necho 'Debian clang version 19.1.7'\n")
    clang.chmod(0o755)
    assert "is clang" in (why_not(str(clang)) or "")
    assert (why_not(compiler) is None) == ("clang" not in subprocess.getoutput(f"{compiler} --version"))
