"""The two lines of the README beside `make run`: `pipx` and `uvx`, from the sources, in an empty home."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]
UVX, LOCK = Path(sys.executable).with_name("uvx"), ROOT / "requirements.lock"
ELSEWHERE = (
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "PIPX_HOME",
    "PIPX_BIN_DIR",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "UV_CACHE_DIR",
)
ANYWHERE = [
    "--override",
    "listeners=PLAINTEXT://127.0.0.1:0",
    "--override",
    "log.dirs=data",
    "--override",
    "kohort.http.listener=",
]


def commands(program: str) -> list[list[str]]:
    """Of the line of the README that begins so, each in words."""
    (line,) = re.findall(rf"^{program} .*?(?=\s+#)", (ROOT / "README.md").read_text(), re.MULTILINE)
    return [shlex.split(part) for part in line.split("&&")]


def words(command: list[str]) -> list[str | Path]:
    """With this checkout for `.`, this Python, and a pipx that uvx brings."""
    first, *others = [re.sub(r"^\.(?=\[|$)", str(ROOT), word) for word in command]
    if first == "uvx":
        return [UVX, "--python", sys.executable, "--constraints", LOCK, *others]
    if first == "pipx":
        return [UVX, "--from", "pipx", "pipx", *others, "--python", sys.executable, "--pip-args", f"-c {LOCK}"]
    return [first, *others]


@pytest.mark.parametrize("program", ["pipx", "uvx"])
def test_a_broker_starts_as_the_readme_says(program: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    environment["HOME"] = str(tmp_path)
    environment["PATH"] = f"{tmp_path / '.local' / 'bin'}{os.pathsep}{environment['PATH']}"
    *before, serve = [words(command) for command in commands(program)]
    for command in before:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    log = tmp_path / "log"
    with log.open("w") as stream:
        broker = subprocess.Popen(
            [*serve, *ANYWHERE], cwd=tmp_path, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )
    try:
        eventually(
            lambda: "kohort ready on " in log.read_text() or broker.poll() is not None,
            deadline_s=300,
            what="a ready line",
        )
        assert broker.poll() is None, log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(broker.pid, signal.SIGTERM)  # uvx may be one more process before it
        broker.wait(60)
    assert "Traceback" not in log.read_text()
