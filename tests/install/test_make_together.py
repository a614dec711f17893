"""Two commands of make that are started together install one after the other, where there is `flock`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, eventually, need

PYTHON = """\
#!/bin/sh
echo "$@" >> said
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""
"""It says what it was called with, and installs nothing."""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="there is no list of locks to see who waits for one")
def test_who_comes_second_waits_until_the_first_has_installed(tmp_path: Path) -> None:
    need("make", "flock")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    python, said = tmp_path / "python", tmp_path / "said"
    python.write_text(PYTHON)
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "VENV")}
    first = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)

    second = subprocess.Popen(["make", "setup", f"PYTHON={python}"], cwd=tmp_path, env=environment)
    try:
        inode = f":{tmp_path.stat().st_ino} "
        waiting = eventually(
            lambda: (
                second.poll() is not None
                or any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())
            )
        )
        assert waiting and second.poll() is None
        assert "-m venv" not in said.read_text()
        os.close(first)
        assert second.wait(60) == 0
    finally:
        second.kill()
        second.wait(60)

    installed = [line.partition(" -c ")[0].partition(" -e ")[0] for line in said.read_text().splitlines()]
    assert [line for line in installed if line.startswith(("-m venv", "-m pip"))] == [
        "-m venv .venv",
        *["-m pip install -q --disable-pip-version-check"] * 2,
    ]
