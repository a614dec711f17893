"""The image where its build finds a C compiler: it runs native code, and is pure where that does not compile."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("compose")]
_BUILDER = "python:3.11"  # what python:3.11-slim is, with a C compiler


def _docker(*words: str, folder: Path | None = None) -> str:
    done = subprocess.run(["docker", *words], cwd=folder, capture_output=True, text=True, timeout=1_800, check=False)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
    return done.stdout + done.stderr


@pytest.fixture
def image(engine: None) -> Iterator[str]:
    """A name for one, which is gone in the end."""
    name = f"kohort-test-{uuid.uuid4().hex[:8]}"
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, timeout=300, check=False)


def _built(folder: Path, name: str, root: Path, *arguments: str) -> str:
    """Build an image with a compiler at hand. Returns: what its broker says when it is asked which it is."""
    base = [str(root / "tools" / "docker"), "base", _BUILDER]
    assert subprocess.run(base, timeout=900, check=False).returncode == 0
    index = [word for word in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST") if word in os.environ]
    given = [f"KOHORT_BUILDER={_BUILDER}", *index, *arguments]
    words = (word for one in given for word in ("--build-arg", one))
    said = _docker("build", "--progress", "plain", *words, "-t", name, ".", folder=folder)
    assert ("native code, trained" in said) == ("KOHORT_COMPILED=trained" in arguments)
    return _docker("run", "--rm", name, "kohort", "--version")


@pytest.mark.parametrize("arguments", [[], ["KOHORT_COMPILED=trained"]], ids=["compiled", "trained"])
def test_the_image_is_compiled_where_there_is_a_compiler(arguments: list[str], image: str, pytestconfig: pytest.Config):
    """Without being asked to, or for usual requests if it is; and it serves."""
    root = pytestconfig.rootpath
    assert "(compiled, CPython 3.11" in _built(root, image, root, *arguments)
    started = _docker("run", "--rm", "--detach", image).strip()
    try:
        told = _docker("exec", started, "sh", "-c", "until kohort health; do sleep 0.2; done; kohort topics list")
        assert "rror" not in told
        assert "(compiled, CPython 3.11" in _docker("logs", started)
    finally:
        _docker("rm", "--force", started)


def test_what_does_not_compile_makes_the_image_pure(image: str, tmp_path: Path, pytestconfig: pytest.Config):
    """As where there is no compiler: a slower broker is better than none."""
    root = pytestconfig.rootpath
    source = tmp_path / "source"
    wanted = [line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in ("Dockerfile", ".dockerignore", *wanted):
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy(root / name, source / name)
    (source / "tools" / "compiled" / "tree.py").write_text("raise ImportError('no C today')\n")
    assert "(pure, CPython 3.11" in _built(source, image, root)
