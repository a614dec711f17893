"""A disk that remembers every change, so that what a crash at any moment leaves can be made afterwards.

    disk = RecordingDisk(directory)         # hand it to whatever writes below `directory`
    ...
    world = World()
    for op in disk.journal:
        world.write_to(elsewhere)           # as the page cache had it before `op`
        world.lose_power(random, elsewhere) # as a disk might have it
        world.apply(op)

One life is lived once, and a crash before, in the middle of and after each of its file operations costs no second one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from storage.files import Disk


class Op(NamedTuple):
    """One change, names relative to the root.

    `kind`: make, mkdir, cut, write, sync, sync_folder, rename, unlink; sync_failed, sync_folder_failed.
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
        for name in ("open", "close", "pwrite", "ftruncate", "fsync", "rename", "unlink", "mkdir"):
            setattr(self, name, getattr(self, f"_{name}"))
        setattr(self, "fdatasync", self._fsync)  # noqa: B010  mypy: a function of the class

    def found(self, path: Path) -> tuple[int, str]:
        """A file that is there already: its number and its name."""
        self._made += 1
        name = self._name(path)
        self._names[name] = self._made
        return self._made, name

    def _note(self, kind: str, **what: Any) -> None:
        self.journal.append(Op(kind, told=self.tell(), **what))

    def _name(self, path: Path | str) -> str:
        name, root = os.fspath(path), os.fspath(self.root)
        if name == root:
            return "."
        assert name.startswith(root + "/"), f"{name} is not below {root}"
        return name[len(root) + 1 :]

    def _open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        there = os.path.lexists(path)
        descriptor = os.open(path, flags, mode)
        name = self._name(path)
        if name not in self._names and stat.S_ISDIR(os.fstat(descriptor).st_mode):
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
        file = self._names.pop(name, None)
        if file is not None:
            self._names[new] = file
            return
        for known in [known for known in self._names if known.startswith(f"{name}/")]:
            self._names[new + known[len(name) :]] = self._names.pop(known)

    def _unlink(self, path: Path) -> None:
        Path(path).unlink()
        name = self._name(path)
        self._note("unlink", name=name)
        del self._names[name]

    def _mkdir(self, path: Path) -> None:
        Path(path).mkdir()
        self._note("mkdir", name=self._name(path))


Entry = tuple[int, str]  # a folder, and a name in it
Entries = dict[Entry, int]  # of a file (positive) or a folder (negative)
ROOT = -1


class Change(NamedTuple):
    """What one operation did to names: `node` is at `new` now (nothing is at None), and at `old` no longer."""

    node: int
    old: Entry | None
    new: Entry | None

    def within(self, folder: int) -> bool:
        """Whether an fsync of the folder makes it last."""
        old, new = self.old, self.new
        return (old is not None and old[0] == folder) or (new is not None and new[0] == folder)

    def make(self, entries: Entries) -> None:
        """Let it happen there. The entry names this node, whoever had the old name before."""
        if self.old is not None and (self.new is None or entries.get(self.old) == self.node):
            entries.pop(self.old, None)
        if self.new is not None:
            entries[self.new] = self.node


class World:
    """The files below a root: as the page cache has them, and what of that is on the disk for certain.

    A folder is what it is under whatever name: what lies in it goes with it when it is renamed, and nothing of another
    one that has got its name since. One that nobody was seen to make was always there.
    """

    def __init__(self) -> None:
        self.cache: dict[int, bytearray] = {}
        self.durable: dict[int, bytes] = {}
        self.entries: Entries = {}
        self.kept_entries: Entries = {}
        self._folders = -ROOT
        self._unsynced: list[Change] = []  # changes of names that no fsync of their folder has followed
        self._dirty: dict[int, list[tuple[int, int]]] = {}  # by file: (first byte, end) of what the next fsync writes

    def found(self, name: str, file: int, content: bytes) -> None:
        """A file that is there from the beginning, for good."""
        entry = self._entry(name)
        self.entries[entry] = self.kept_entries[entry] = file
        self.cache[file], self.durable[file] = bytearray(content), content

    def _entry(self, name: str) -> Entry:
        folder = ROOT
        *parents, last = name.split("/")
        for parent in parents:
            node = self.entries.get((folder, parent))
            if node is None:
                node = self._new_folder()
                self.entries[folder, parent] = self.kept_entries[folder, parent] = node
            folder = node
        return folder, last

    def _new_folder(self) -> int:
        self._folders += 1
        return -self._folders

    def _change_of(self, op: Op) -> Change | None:
        """What an operation does to names; None of one that meets nothing we know of."""
        entry = self._entry(op.name)
        if op.kind == "make":
            return Change(op.file, None, entry)
        if op.kind == "mkdir":
            return Change(self._new_folder(), None, entry)
        node = self.entries.get(entry)
        if node is None:
            return None
        return Change(node, entry, self._entry(op.target) if op.kind == "rename" else None)

    def apply(self, op: Op, *, half: bool = False) -> None:
        """Let the change happen; of a write only the first half, if `half`."""
        if op.kind in ("make", "mkdir", "rename", "unlink"):
            if op.kind == "make":
                self.cache[op.file] = bytearray()
                self.durable.setdefault(op.file, b"")
            change = self._change_of(op)
            if change is not None:
                change.make(self.entries)
                self._unsynced.append(change)
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
            self._take_unsynced(op.name)

    def _sync(self, file: int) -> None:
        cache, old = self.cache[file], self.durable.get(file, b"")
        new = bytearray(old[: len(cache)])
        new.extend(bytes(len(cache) - len(new)))
        for start, end in self._dirty.pop(file, ()):
            new[start:end] = cache[start:end]
        self.durable[file] = bytes(new)

    def _sync_folder(self, name: str) -> None:
        for change in self._take_unsynced(name):
            change.make(self.kept_entries)

    def _take_unsynced(self, name: str) -> list[Change]:
        """The changes in a folder that no fsync has followed, for the last time."""
        folder = ROOT if name == "." else self.entries.get(self._entry(name), ROOT)
        taken, rest = [], []
        for change in self._unsynced:
            (taken if change.within(folder) else rest).append(change)
        self._unsynced = rest
        return taken

    def write_to(self, directory: Path) -> None:
        """What a start finds after the process died: the page cache outlives it."""
        _write(directory, self.entries, lambda file: bytes(self.cache[file]))

    def lose_power(self, directory: Path, random: Random | None = None) -> None:
        """What a start may find after a power loss: what was fsynced, and `random` parts of the rest, or none of it."""
        entries = dict(self.kept_entries)
        if random is not None:
            # A journal keeps a prefix; without one some renames reach the disk and others, earlier, do not.
            kept = random.randrange(len(self._unsynced) + 1)
            orderly = random.random() < 0.5
            for at, change in enumerate(self._unsynced):
                if at < kept if orderly else random.random() < 0.5:
                    change.make(entries)
        _write(directory, entries, lambda file: self._surviving(file, random))

    def _surviving(self, file: int, random: Random | None) -> bytes:
        old, new = self.durable.get(file, b""), bytes(self.cache[file])
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


def _common(old: bytes, new: bytes) -> int:
    """How many leading bytes are equal."""
    end = min(len(old), len(new))
    if old[:end] == new[:end]:
        return end
    return next(at for at in range(end) if old[at] != new[at])


def _write(directory: Path, entries: Entries, content: Callable[[int], bytes]) -> None:
    """Put below `directory` what can be reached from the root."""
    paths = {ROOT: directory}
    waiting = list(entries.items())
    while waiting:
        later = []
        for (folder, name), node in waiting:
            if folder not in paths:
                later.append(((folder, name), node))
            elif node < 0:
                paths[node] = paths[folder] / name
                paths[node].mkdir(parents=True, exist_ok=True)
            else:
                paths[folder].mkdir(parents=True, exist_ok=True)
                (paths[folder] / name).write_bytes(content(node))
        if len(later) == len(waiting):
            return
        waiting = later
