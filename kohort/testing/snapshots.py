"""Copies of a broker's directory, as it is at a moment: to start others on."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from kohort.testing.errors import Refused

_NOT_COPIED = (".lock",)
_COPY_BYTES = 1 << 30
_FICLONE = 0x40049409  # linux/fs.h; any other system knows no such number, and says so


class Snapshot:
    """A directory that brokers start on (`Broker(load=snapshot)`), any number of them: each has a copy of its own.

    It is removed with `remove`, at the end of a `with` statement, or when nobody knows it any more.
    """

    def __init__(self, clock: list[int | None]) -> None:
        self.clock = list(clock)
        folder = tempfile.mkdtemp(prefix="kohort-snapshot-")
        self.path = Path(folder) / "data"
        """The directory: Apache Kafka starts on it, too."""
        # Unlike a TemporaryDirectory it warns nobody: that nobody knows it any more is an end as good as any.
        self._finalizer = weakref.finalize(self, _remove, folder, os.getpid())

    def remove(self) -> None:
        """It is not needed any more; brokers that have been started on it have their own."""
        self._finalizer()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove(folder: str, owner_pid: int) -> None:
    """Not from a fork of who has made it."""
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)


def copied(source: Path, target: Path, *, links: bool = False) -> None:
    """Copy a directory of logs; where the file system can, its files share their blocks.

    `links`, for directories of our own: where it cannot, segments that nothing is appended to are one file in both.
    """
    if not source.is_dir():
        raise Refused(f"load={str(source)!r}: there is no such directory")
    closed = _closed_segments(source) if links else frozenset()

    def copy(one: str, other: str) -> Any:
        if one in closed and not _cloned(one, other):
            try:
                os.link(one, other)
            except OSError:
                return _copy(one, other)
        elif one not in closed:
            _copy(one, other)
        return other

    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_COPIED), copy_function=copy)


def _closed_segments(directory: Path) -> frozenset[str]:
    """Those before the last one of their log: no broker writes to them in place."""
    found: set[str] = set()
    for log in (one for one in directory.iterdir() if one.is_dir()):
        found.update(map(str, sorted(log.glob("*.log"))[:-1]))
    return frozenset(found)


def _cloned(source: str, target: str) -> bool:
    """Whether the copy shares its blocks (a reflink); what has been made of it is gone otherwise."""
    with open(source, "rb") as reads, open(target, "wb") as writes:  # noqa: PTH123  as copytree names them
        try:
            fcntl.ioctl(writes, _FICLONE, reads.fileno())
        except OSError:
            Path(target).unlink()
            return False
    shutil.copystat(source, target)
    return True


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
