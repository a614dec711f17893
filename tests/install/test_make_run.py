"""`make run` on a machine that has no compiler: nothing fails, waits or is left out for want of one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, eventually, free_port, need
from tests.support.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]
COMPILERS = re.compile(r"(.*-)?(cc|c89|c99|gcc|g\+\+|c\+\+|clang|clang\+\+|tcc|cpp|ld|as)(-[\d.]+)?$")
"""And what they call."""
ELSEWHERE = ("PYTHONPATH", "VIRTUAL_ENV", "CC", "CI", "MAKEFLAGS", "XDG_CACHE_HOME")


def programs_but_compilers(folder: Path) -> Path:
    """A folder with all programs of this machine, as PATH finds them, that compile nothing."""
    folder.mkdir()
    for place in os.get_exec_path():
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not COMPILERS.match(program.name) and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def test_the_first_make_run_needs_no_compiler(tmp_path: Path) -> None:
    need("make", "git")
    checkout, home, port = tmp_path / "kohort", tmp_path / "home", free_port()
    home.mkdir()
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, files.stdout.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, checkout / name)
    environment = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    environment |= {"HOME": str(home), "PATH": str(programs_but_compilers(tmp_path / "bin"))}
    assert shutil.which("cc", path=environment["PATH"]) is None
    python = getattr(sys, "_base_executable", sys.executable)
    words = ["make", "run", f"PYTHON={python}", f"PORT={port}", "ARGS=--override kohort.http.listener="]
    began = time.monotonic()
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            words, cwd=checkout, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            ready = eventually(
                lambda: process.poll() is not None or "kohort ready" in (tmp_path / "said").read_text(),
                deadline_s=600,
                what="a broker",
            )
            took_s = time.monotonic() - began
            text = (tmp_path / "said").read_text()
            assert ready and process.poll() is None, text
            assert "(pure, " in text
            print(f"an empty home, no compiler: ready after {took_s:.1f} s")
            with Wire(f"127.0.0.1:{port}") as wire:
                assert wire.create_topic("t", 1) == 0
                assert wire.end_offsets("t", [0]) == {0: (0, 0)}
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
