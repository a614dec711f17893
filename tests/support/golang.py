"""Go programs of the tests, built by the Go of this machine."""

import contextlib
import hashlib
import os
import subprocess
from pathlib import Path

from tests.support.broker_process import need


def program(folder: Path) -> Path:
    """The program of a module, built when its files have changed. Skips the test where there is no Go."""
    need("go")
    read = hashlib.sha256()
    for source in sorted([*folder.glob("*.go"), *folder.glob("go.*")]):
        read.update(source.name.encode() + source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort-reference"
    built = cache / f"{folder.name}-{read.hexdigest()[:16]}"
    if not built.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Built beside and renamed, so that another test process never sees half of it.
        building = cache / f"{built.name}-{os.getpid()}"
        words = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(building), "."]
        ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr
        with contextlib.suppress(OSError):
            building.rename(built)
    return built
