"""What usual requests look like, for a C compiler: the load that a broker of the tree serves between two builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.compiled import training
from tools.compiled.training import Untrained, train, why_not

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def compiler() -> list[str]:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("there is no C compiler (cc)")
    return [found]


@pytest.mark.slow
@pytest.mark.parametrize("package", ["", "kohort.rooms"])
def test_a_broker_of_the_tree_serves_the_whole_load(
    package: str, compiler: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands in a checkout and in a wheel; interpreted, since compiling it to watch itself takes minutes.

    What the user has set for other brokers is not for this one.
    """
    words = [sys.executable, "-m", "tools.compiled", "--source", "--out", str(tmp_path / "tree"), "--inside", package]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    monkeypatch.setenv("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://127.0.0.1:1")
    monkeypatch.setenv("KAFKA_AUTHORIZER_CLASS_NAME", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
    train((tmp_path / "tree").resolve(), f"{package}." if package else "", compiler, seconds=0.1)


def test_a_broker_that_does_not_start_has_trained_nothing(compiler: list[str], tmp_path: Path) -> None:
    """With what it said. What is compiled then is compiled as without."""
    (tmp_path / "cli.py").write_text("raise ImportError('no rooms today')\n")
    with pytest.raises(Untrained, match=r"(?s)does not start.*no rooms today"):
        train(tmp_path, "", compiler)


def test_a_broker_that_hangs_is_waited_for_no_longer(
    compiler: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_PATIENCE_S", 0.5)
    (tmp_path / "cli.py").write_text("import time\ntime.sleep(600)\n")
    with pytest.raises(Untrained, match="does not start"):
        train(tmp_path, "", compiler)


def test_only_a_gcc_that_knows_profiles_is_asked(tmp_path: Path, compiler: list[str]) -> None:
    """And who has no compiler, or one that makes no load generator, is told so before anything is built."""
    assert (why_not(compiler) is None) == ("clang" not in subprocess.getoutput(f"{compiler[0]} --version"))
    assert why_not(["env", *compiler]) == why_not(compiler)
    assert "no-such-compiler" in (why_not([str(tmp_path / "no-such-compiler")]) or "")
    for said, code, reason in (("Debian clang version 19.1.7", 0, "is clang"), ("unknown option", 1, "unknown option")):
        other = tmp_path / "cc"
        other.write_text(f"#!/bin/sh\necho {said} | tee /dev/stderr\nexit {code}\n")
        other.chmod(0o755)
        assert reason in (why_not([str(other)]) or "")
