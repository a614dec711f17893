"""Prometheus' own programs."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The folder of `prometheus` and `promtool`. Skips where they are missing; in CI they are brought."""
    verb = "install" if os.environ.get("CI") else "find"
    found = subprocess.run(
        [str(ROOT / "tools" / "prometheus"), verb], capture_output=True, text=True, timeout=300, check=False
    )
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip().splitlines()[-1])
    return Path(found.stdout.strip())
