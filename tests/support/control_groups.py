"""Control groups as files that a test makes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.loop import cgroups


class ControlGroups:
    """Of this process and above it; nothing is limited at first."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        (folder / "cgroup").mkdir()
        monkeypatch.setattr(cgroups, "_GROUPS", folder / "cgroup")
        self.is_in("0::/\n")

    def is_in(self, text: str | None) -> None:
        """The groups of this process: its /proc/self/cgroup, None if there is none."""
        path = self._folder / "self"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

        def made_up(name: str) -> Path:
            return path if name == "/proc/self/cgroup" else Path(name)

        self._monkeypatch.setattr(cgroups, "Path", made_up)

    def limits(self, name: str, text: str) -> None:
        """The limit file of a group."""
        path = self._folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
