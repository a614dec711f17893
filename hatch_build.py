"""The wheel: the rooms go inside the one package that an installation claims (D16).

In a checkout the rooms are top-level packages, `broker`, `storage` and so on, which other software has too. In the
wheel they are `kohort.rooms.broker` and so on: every `from ROOM... import` of theirs is rewritten, which is all it
takes, since rooms are imported in no other way (a test holds that). Lines stay where they are, so a traceback reads the
same.

With `KOHORT_COMPILED=1` the wheel is for one platform and one Python, and holds the rooms a second time, compiled
(docs/compiled.md), in `kohort/native`: `kohort.rooms` finds them there unless `KOHORT_PURE=1`. With
`KOHORT_COMPILED=trained` they are compiled for usual requests.

The project's URLs are those of the repository that is built, so that a fork's are its own: `KOHORT_PROJECT_URL`, or
where `origin` lies when that is on the web; where neither says so, there are none.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOMS = ("protocol", "coordinator", "storage", "broker", "offline", "pipeline", "cli")
INSIDE = "kohort.rooms"
COMPILED = os.environ.get("KOHORT_COMPILED") or "0"
"""1; `trained`: for usual requests; `source`: what would be compiled is written and stays as it is, for tests."""
_DOC = '"""The rooms of Kohort: its own, and not to be imported by others."""\n'
_NATIVE = """
import os

if os.environ.get("KOHORT_PURE") != "1":
    __path__ = [os.path.join(os.path.dirname(__path__[0]), "native")]
"""
_IMPORT = re.compile(rf"^(\s*)from ({'|'.join(ROOMS)})(?=[. ])", re.MULTILINE)
# https://host/owner/name, ssh://git@host:2222/owner/name.git, git@host:owner/name.git
_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^@/]+@)?|[^@/:]+@)([\w.-]+\.[a-z]+)(?::\d+(?=/))?[:/](.+?)(?:\.git)?/?"
)


def rewritten(source: str) -> str:
    """A module as it stands in the wheel."""
    return _IMPORT.sub(rf"\1from {INSIDE}.\2", source)


class RoomsInside(BuildHookInterface):  # type: ignore[type-arg]  # of no other configuration
    """Puts the rewritten rooms into a wheel; an editable installation and the sdist have the checkout's own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is made. Raises: ValueError for a KOHORT_COMPILED that means nothing."""
        if self.target_name != "wheel" or version == "editable":
            return
        if COMPILED not in ("0", "1", "trained", "source"):
            raise ValueError(f"KOHORT_COMPILED is {COMPILED}: 0, 1 or trained")
        root = Path(self.root)
        folder = Path(self.directory) / "rooms"
        shutil.rmtree(folder, ignore_errors=True)
        for room in ROOMS:
            for file in sorted((root / room).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    copy = folder / file.relative_to(root)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    if file.suffix == ".py":
                        copy.write_text(rewritten(file.read_text()))
                    else:
                        shutil.copyfile(file, copy)
        for file in sorted((root / "kohort").rglob("*.py")):
            copy = folder / "kohort" / file.relative_to(root / "kohort")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(rewritten(file.read_text()))
            build_data["force_include"][str(copy)] = str(file.relative_to(root))
        (folder / "__init__.py").write_text(_DOC + (_NATIVE if COMPILED != "0" else ""))
        for room in (*ROOMS, "__init__.py"):
            build_data["force_include"][str(folder / room)] = f"kohort/rooms/{room}"
        build_data["force_include"][str(root / "kohort" / "py.typed")] = "kohort/py.typed"
        if COMPILED != "0":
            self._compile(build_data)

    def _compile(self, build_data: dict[str, Any]) -> None:
        """Add the native rooms. Raises: CalledProcessError without a C compiler, which says so itself."""
        tree = Path(self.directory) / "native"
        command = [sys.executable, "-m", "tools.compiled", "--inside", INSIDE, "--out", str(tree)]
        command += [f"--{COMPILED}"] if COMPILED in ("source", "trained") else []
        subprocess.run(command, cwd=self.root, check=True)
        inside = tree.resolve() / INSIDE.replace(".", "/")
        build_data["force_include"] |= {
            str(path): f"kohort/native/{path.relative_to(inside)}"
            for path in inside.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and path != inside / "__init__.py"
        }
        build_data |= {"pure_python": False, "infer_tag": True}
        build_data["dependencies"] = [
            f"{name}>={importlib.metadata.version(name)}" for name in ("librt", "mypy-extensions")
        ]

    def dependencies(self) -> list[str]:
        """What a build needs beside hatchling: the compiler of the compiled tree, and what its modules import."""
        if COMPILED == "0" or self.target_name != "wheel":
            return []
        with (Path(self.root) / "pyproject.toml").open("rb") as file:
            project = tomllib.load(file)["project"]
        mypy = [word for word in project["optional-dependencies"]["check"] if word.startswith("mypy")]
        return ["setuptools", *mypy, *project["dependencies"]]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        for left in Path(self.directory).glob("rooms"), Path(self.directory).glob("native*"):
            for path in left:
                path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)


def project_urls(remote: str) -> dict[str, str]:
    """The pages of a repository, given as git writes its address; none for a folder or a machine of one's own."""
    found = _REMOTE.fullmatch(remote)
    if found is None:
        return {}
    home = f"https://{found[1]}/{found[2]}"
    return {
        "Homepage": home,
        "Documentation": f"{home}/tree/HEAD/docs",
        "Source": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
    }


class ProjectUrls(MetadataHookInterface):
    """Tells the metadata where the repository is that they were made in; the sdist hands it on to its wheel."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when the metadata are read."""
        remote = os.environ.get("KOHORT_PROJECT_URL", "")
        if not remote and (Path(self.root) / ".git").exists():
            command = ["git", "-C", self.root, "remote", "get-url", "origin"]
            with contextlib.suppress(OSError):  # without git there is nobody to ask
                remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if urls := project_urls(remote):
            metadata["urls"] = urls
