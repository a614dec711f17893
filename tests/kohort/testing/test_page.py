"""Every example of docs/testing.md runs, as its reader would run it: with pytest and the installed plugin."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.broker_process import ROOT

PAGE = ROOT / "docs" / "testing.md"
EXAMPLES = re.findall(r"^## ([^\n]*)\n|^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """(the heading above it, an example)."""
    found, heading = [], ""
    for title, code in EXAMPLES:
        heading = title or heading
        if code:
            found.append((heading, code))
    return found


def write_examples(folder: Path) -> None:
    """A test module of each."""
    for number, (heading, code) in enumerate(examples()):
        name = re.sub(r"\W+", "_", heading.lower())
        (folder / f"test_{number}_{name}.py").write_text(code)


def run_pytest(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A test run of somebody's project in `folder`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | more
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_every_example_of_the_page(tmp_path: Path):
    write_examples(tmp_path)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout


def test_the_page_has_examples_with_tests():
    assert len(examples()) >= 3
    for heading, code in examples():
        assert "def test_" in code, heading
