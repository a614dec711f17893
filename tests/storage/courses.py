"""What becomes of a log step by step, as text: answers, errors, what is asked of the disk, and all that changes.

A course is kept beside the tests, so that a changed threshold, word, order of file operations, counter or file name
shows there as what it does.
"""

from __future__ import annotations

import os
import re
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from zlib import crc32

from storage.directory.log_directory import LOCK
from storage.files import Disk, LogFile
from storage.state.log_config import LogConfig
from tests.support.kept import news

_FLAGS = ("O_RDWR", "O_WRONLY", "O_CREAT", "O_EXCL", "O_TRUNC", "O_CLOEXEC")
_BASE_OFFSET = re.compile(r"^\d{20}")
_NOT_TOLD = {"disk", "_disk", "_lock", "_lock_fd", "active", "_state", "order", "__weakref__"}


class TellingDisk(Disk):
    """Tells every operation, by the names of files; refuses the one that `refuse_at` counts down to, if asked to."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.asked: list[str] = []
        self.refuse_at = -1
        self._names: dict[int, str] = {}
        for name in ("pread", "pwrite", "ftruncate", "fsync", "fdatasync", "utime"):
            setattr(self, name, self._of_descriptor(name, getattr(os, name)))
        for name, call in (("rename", os.replace), ("unlink", os.unlink), ("mkdir", os.mkdir)):
            setattr(self, name, self._of_paths(name, call))
        self.open = self._open  # type: ignore[method-assign,assignment]  # a disk that watches

    def _tell(self, line: str) -> None:
        self.asked.append(line)
        self.refuse_at -= 1
        if self.refuse_at == -1:
            raise OSError(5, "no")

    def _open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        told = [name[2:].lower() for name in _FLAGS if flags & getattr(os, name)]
        self._tell(f"open {named(path, self._root)} {'+'.join(told)} {mode:o}")
        descriptor = os.open(path, flags, mode)
        self._names[descriptor] = named(path, self._root)
        return descriptor

    def _of_descriptor(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(descriptor: int, *more: Any) -> Any:
            words = [str(len(one)) if isinstance(one, bytes | bytearray | memoryview) else str(one) for one in more]
            self._tell(" ".join([name, self._names[descriptor], *words]))
            return call(descriptor, *more)

        return act

    def _of_paths(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*paths: Path) -> Any:
            self._tell(" ".join([name, *(named(path, self._root) for path in paths)]))
            return call(*paths)

        return act


class Course:
    """What is done in a folder, one step after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = TellingDisk(root)
        self.lines: list[str] = []
        self._before: dict[str, Any] = {}

    def begin_again(self, whole: Path) -> None:
        """Have the folder as this copy is."""
        shutil.rmtree(self.root)
        shutil.copytree(whole, self.root)
        self._before = {"files": dict(files_in(self.root))}

    def watch(self, of: Any) -> None:
        """What it is now is known: tell what will be new."""
        self._before |= told(of, self.root)

    def step(self, name: str, act: Callable[[], Any], of: Any = None, *, look: bool = False) -> Any:
        """Do it, and tell what came of it, and what is new in `of` and on the disk.

        Files are looked at where they may have changed: `look`, where what is done has a disk of its own.
        """
        result: Any = None
        self.disk.asked.clear()
        try:
            result = act()
        except Exception as error:  # what is told of it is the test
            cause = getattr(error, "cause", None)
            self.lines.append(f"{name} -> raises {type(error).__name__}: {self._text(f'{error} ({cause})')}")
        else:
            self.lines.append(f"{name} -> {self._text(told(result, self.root))}")
        for line, count in _in_a_row(self.disk.asked):
            self.lines.append(f"  {line}" + (f" ({count} times)" if count > 1 else ""))
        after: dict[str, Any] = {} if of is None else told(of, self.root)
        if look or not all(line.startswith("pread") for line in self.disk.asked):
            after["files"] = dict(files_in(self.root))
        for key, value in after.items():
            before = self._before.get(key)
            if value != before:
                self.lines.append(f"  {key}: {self._text(_changes(value, before))}")
        self._before |= after
        return result

    def _text(self, value: Any) -> str:
        return str(value).replace(str(self.root), "ROOT")


def short(lines: list[str]) -> Iterator[str]:
    """A long line that stood there before is told by its number."""
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        before = first.setdefault(line, number)
        yield line if len(line) < 60 or before == number else f"{line.partition(': ')[0]}: as in line {before}"


def joined(lines: list[str]) -> list[str]:
    """Steps that end alike in one line, where they came first."""
    steps: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith("  "):
            steps[-1] = steps[-1][0], f"{steps[-1][1]};{line[1:]}"
        else:
            name, _, what = line.partition(" -> ")
            steps.append((name, what))
    found: dict[str, list[str]] = {}
    for name, what in steps:
        found.setdefault(what, []).append(name)
    return [f"{what} <- {', '.join(names)}" for what, names in found.items()]


def named(path: Path, root: Path) -> str:
    """Without the zeros before a base offset."""
    path = Path(path)
    relative = path.relative_to(root) if path.is_relative_to(root) else path
    return "/".join(_BASE_OFFSET.sub(lambda digits: str(int(digits[0])), part) for part in relative.parts) or "."


def files_in(root: Path) -> Iterator[tuple[str, str]]:
    """Each file below, with its size and the CRC of its content."""
    for path in sorted(root.rglob("*")):
        what = "a folder" if path.is_dir() else "a lock" if path.name == LOCK else _digest(path.read_bytes())
        yield named(path, root), what


def told(value: Any, root: Path) -> Any:
    """Anything of storage's: by its fields, whole, but for the way to the disk."""
    match value:
        case Enum():
            return value.name
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return _digest(bytes(value))
        case Path():
            return named(value, root)
        case LogFile():
            return f"file {named(value.path, root)}"
        case Mapping():
            return {str(told(key, root)): told(one, root) for key, one in value.items()}
        case LogConfig():
            return {name: one for name, one in asdict(value).items() if one != getattr(LogConfig, name, one)}
        case set() | frozenset():
            return sorted(str(told(one, root)) for one in value)
        case array():
            return value.tolist()
        case range():
            return str(value)
        case tuple() if hasattr(value, "_fields"):
            return {name: told(getattr(value, name), root) for name in value._fields}
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return [told(one, root) for one in value]
    if is_dataclass(value):
        return _fields(value, [field.name for field in fields(value)], root)
    names = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())] or list(
        getattr(value, "__dict__", ())
    )
    if not type(value).__module__.startswith("storage."):
        return type(value).__name__
    return _fields(value, sorted(name for name in names if name not in _NOT_TOLD and hasattr(value, name)), root)


def _fields(value: Any, names: list[str], root: Path) -> dict[str, Any]:
    """Without what is None or empty."""
    told_of = {name: told(getattr(value, name), root) for name in names}
    return {name: one for name, one in told_of.items() if one is not None and one not in ([], {}, "")} or {
        "a": type(value).__name__
    }


def _digest(data: bytes) -> str:
    return f"{len(data)} bytes {crc32(data):08x}"


def _in_a_row(lines: list[str]) -> Iterator[tuple[str, int]]:
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end] == lines[at]:
            end += 1
        yield lines[at], end - at
        at = end


def _changes(value: Any, before: Any) -> Any:
    """As `news`, and of mappings with other keys what is gone and what has come."""
    if not isinstance(value, dict) or not isinstance(before, dict) or value.keys() == before.keys():
        return news(value, before)
    changed = {
        key: _changes(one, before[key]) if key in before else one
        for key, one in value.items()
        if key not in before or one != before[key]
    }
    gone = [key for key in before if key not in value]
    return changed | ({"gone": gone} if gone else {})
