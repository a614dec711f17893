"""Copies of a broker's directory, as it is at a moment: to start others on."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kohort.testing.errors import Refused

_NOT_COPIED = (".lock",)
_COPY_BYTES = 1 << 30


class Snapshot:
    """A directory that brokers start on (`Broker(load=snapshot)`), any number of them: each has a copy of its own.

    It is removed with `remove`, at the end of a `with` statement, or when nobody knows it any more.
    """

    def __init__(self, clock: list[int | None]) -> None:
        self.clock = list(clock)
        self._folder = tempfile.TemporaryDirectory(prefix="kohort-snapshot-")

    @property
    def path(self) -> Path:
        """The directory: Apache Kafka starts on it, too."""
        return Path(self._folder.name) / "data"

    def remove(self) -> None:
        """It is not needed any more; brokers that have been started on it have their own."""
        self._folder.cleanup()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def copied(source: Path, target: Path) -> None:
    """Copy a directory of logs; where the file system can, its files share their blocks."""
    if not source.is_dir():
        raise Refused(f"load={str(source)!r}: there is no such directory")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_COPIED), copy_function=_copy)


def settings_of(directory: Path) -> dict[str, str]:
    """What a broker has to be told that starts on it: whose directory it is."""
    path = directory / "meta.properties"
    if not path.exists():
        return {}
    lines = [line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#")]
    given = {key.strip(): value.strip() for key, _, value in lines}
    return {"node.id": given["node.id"]} if "node.id" in given else {}


def _copy(source: str, target: str) -> Any:
    copy_file_range = getattr(os, "copy_file_range", None)
    if copy_file_range is None:
        return shutil.copy2(source, target)
    with open(source, "rb") as reads, open(target, "wb") as writes:  # noqa: PTH123  as copytree names them
        try:
            while copy_file_range(reads.fileno(), writes.fileno(), _COPY_BYTES):
                pass
        except OSError:
            reads.seek(0)
            writes.seek(0)
            writes.truncate()
            shutil.copyfileobj(reads, writes)
    shutil.copystat(source, target)
    return target
