"""A disk that remembers every change, so that what a crash at any moment leaves can be made afterwards.

    disk = RecordingDisk(directory)         # hand it to whatever writes below `directory`
    ...
    world = World()
    for op in disk.journal:
        world.write_to(elsewhere)           # as the page cache had it before `op`
        world.lose_power(random, elsewhere) # as a platter might have it
        world.apply(op)

One life is lived once, and a crash before, in the middle of and after each of its file operations costs no second one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from storage.files import Disk


class Op(NamedTuple):
    """One change, names relative to the root.

    `kind`: make, cut, write, sync, sync_folder, rename, unlink; sync_failed, sync_folder_failed.
    """

    kind: str
    file: int = -1  # which file, whatever its name is by now
    name: str = ""
    position: int = 0  # of a write; the new size of a cut
    data: bytes = b""
    target: str = ""  # of a rename
    told: Any = None  # what `tell` said just before


class RecordingDisk(Disk):
    """The real operations, each written down first. fsyncs are only written down: nobody pulls the plug here.

    Those of which `refuse_sync(name)` is true fail.
    """

    refuse_sync: Callable[[str], bool] = staticmethod(lambda _: False)

    def __init__(self, root: Path, tell: Callable[[], Any] = lambda: None) -> None:
        self.root = root
        self.tell = tell
        self.journal: list[Op] = []
        self._names: dict[str, int] = {}
        self._files: dict[int, int] = {}  # descriptor -> file
        self._folders: dict[int, str] = {}
        self._made = 0
        self._openers: dict[int, str] = {}
        for name in ("open", "close", "pwrite", "ftruncate", "fsync", "rename", "unlink"):
            setattr(self, name, getattr(self, f"_{name}"))
        setattr(self, "fdatasync", self._fsync)  # noqa: B010  mypy: a function of the class

    def _note(self, kind: str, **what: Any) -> None:
        self.journal.append(Op(kind, told=self.tell(), **what))

    def _name(self, path: Path | str) -> str:
        return str(Path(path).relative_to(self.root))

    def _open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        there = os.path.lexists(path)
        descriptor = os.open(path, flags, mode)
        name = self._name(path)
        if Path(path).is_dir():
            self._folders[descriptor] = name
            return descriptor
        if not there:
            self._made += 1
            self._names[name] = self._made
            self._note("make", file=self._made, name=name)
        elif name not in self._names:
            raise AssertionError(f"{name} was made behind the disk's back")
        elif flags & os.O_TRUNC:
            self._note("cut", file=self._names[name], name=name)
        self._files[descriptor] = self._names[name]
        self._openers[descriptor] = name
        return descriptor

    def _close(self, descriptor: int) -> None:
        self._files.pop(descriptor, None)
        self._folders.pop(descriptor, None)
        os.close(descriptor)

    def _pwrite(self, descriptor: int, data: Any, position: int) -> int:
        self._note(
            "write",
            file=self._files[descriptor],
            name=self._openers[descriptor],
            position=position,
            data=bytes(data),
        )
        return os.pwrite(descriptor, data, position)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        self._note("cut", file=self._files[descriptor], name=self._openers[descriptor], position=size)
        os.ftruncate(descriptor, size)

    def _fsync(self, descriptor: int) -> None:
        folder = descriptor in self._folders
        name = self._folders[descriptor] if folder else self._openers[descriptor]
        kind = "sync_folder" if folder else "sync"
        refused = self.refuse_sync(name)
        self._note(f"{kind}_failed" if refused else kind, file=self._files.get(descriptor, -1), name=name)
        if refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _rename(self, path: Path, target: Path) -> None:
        Path(path).replace(target)
        name, new = self._name(path), self._name(target)
        self._note("rename", file=self._names.get(name, -1), name=name, target=new)
        for known in list(self._names):
            if known == name or known.startswith(name + "/"):
                self._names[new + known[len(name) :]] = self._names.pop(known)

    def _unlink(self, path: Path) -> None:
        Path(path).unlink()
        name = self._name(path)
        self._note("unlink", name=name)
        del self._names[name]


class World:
    """The files below a root: as the page cache has them, and what of that is on the platter for certain."""

    def __init__(self) -> None:
        self.cache: dict[int, bytearray] = {}
        self.platter: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self.kept_names: dict[str, int] = {}
        self._unsynced: list[Op] = []  # changes of names that no fsync of their folder has followed
        self._dirty: dict[int, list[tuple[int, int]]] = {}  # by file: (first byte, end) of what the next fsync writes

    def found(self, name: str, file: int, content: bytes) -> None:
        """A file that is there from the beginning, for good."""
        self.names[name] = self.kept_names[name] = file
        self.cache[file], self.platter[file] = bytearray(content), content

    def apply(self, op: Op, *, half: bool = False) -> None:
        """Let the change happen; of a write only the first half, if `half`."""
        if op.kind in ("make", "rename", "unlink"):
            if op.kind == "make":
                self.cache[op.file] = bytearray()
                self.platter.setdefault(op.file, b"")
            _change_names(self.names, op)
            self._unsynced.append(op)
        elif op.kind == "write":
            data = op.data[: len(op.data) // 2] if half else op.data
            content = self.cache[op.file]
            content.extend(bytes(max(0, op.position - len(content))))
            content[op.position : op.position + len(data)] = data
            self._dirty.setdefault(op.file, []).append((op.position, op.position + len(data)))
        elif op.kind == "cut":
            content = self.cache[op.file]
            del content[op.position :]
            content.extend(bytes(op.position - len(content)))
        elif op.kind == "sync":
            self._sync(op.file)
        elif op.kind == "sync_failed":
            # Linux calls the pages clean all the same: no later fsync writes them, unless they are written to again.
            self._dirty.pop(op.file, None)
        elif op.kind == "sync_folder":
            self._sync_folder(op.name)
        else:
            assert op.kind == "sync_folder_failed"
            self._unsynced = [one for one in self._unsynced if not _in_folder(one, op.name)]

    def _sync(self, file: int) -> None:
        cache, old = self.cache[file], self.platter.get(file, b"")
        new = bytearray(old[: len(cache)])
        new.extend(bytes(len(cache) - len(new)))
        for start, end in self._dirty.pop(file, ()):
            new[start:end] = cache[start:end]
        self.platter[file] = bytes(new)

    def _sync_folder(self, folder: str) -> None:
        rest = []
        for op in self._unsynced:
            if _in_folder(op, folder):
                _change_names(self.kept_names, op)
            else:
                rest.append(op)
        self._unsynced = rest

    def write_to(self, directory: Path) -> None:
        """What a start finds after the process died: the page cache outlives it."""
        _write(directory, {name: bytes(self.cache[file]) for name, file in self.names.items()})

    def lose_power(self, directory: Path, random: Random | None = None) -> None:
        """What a start may find after a power loss: what was fsynced, and `random` parts of the rest, or none of it."""
        names = dict(self.kept_names)
        if random is not None:
            # A journal keeps a prefix; without one some renames reach the platter and others, earlier, do not.
            kept = random.randrange(len(self._unsynced) + 1)
            orderly = random.random() < 0.5
            for at, op in enumerate(self._unsynced):
                if at < kept if orderly else random.random() < 0.5:
                    _change_names(names, op)
        _write(directory, {name: self._surviving(file, random) for name, file in names.items()})

    def _surviving(self, file: int, random: Random | None) -> bytes:
        old, new = self.platter.get(file, b""), bytes(self.cache[file])
        if random is None or old == new:
            return old
        way = random.randrange(5)
        if way < 2:
            return (old, new)[way]
        end = random.randrange(len(new) + 1)
        if way == 2:  # the tail is missing; what was fsynced and not written since stays
            return new[: max(end, _common(old, new))]
        if way == 3:  # the size is there, the data is not
            start = max(end, _common(old, new))
            return new[:start] + bytes(len(new) - start)
        start = _common(old, new)  # a page in the middle did not make it
        middle = bytearray(new)
        for at in range(max(start, end // 512 * 512), min(len(new), end // 512 * 512 + 512)):
            middle[at] = 0
        return bytes(middle)


def _in_folder(op: Op, folder: str) -> bool:
    return folder in (str(Path(op.name).parent), str(Path(op.target or op.name).parent))


def _common(old: bytes, new: bytes) -> int:
    """How many leading bytes are equal."""
    end = min(len(old), len(new))
    if old[:end] == new[:end]:
        return end
    return next(at for at in range(end) if old[at] != new[at])


def _change_names(names: dict[str, int], op: Op) -> None:
    if op.kind == "make":
        names[op.name] = op.file
    elif op.kind == "unlink":
        names.pop(op.name, None)
    elif op.file >= 0:  # of a file, not of a folder: the entry names this one, whoever had the old name before
        if names.get(op.name) == op.file:
            del names[op.name]
        names[op.target] = op.file
    else:
        for known in list(names):
            if known == op.name or known.startswith(op.name + "/"):
                names[op.target + known[len(op.name) :]] = names.pop(known)


def _write(directory: Path, contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
