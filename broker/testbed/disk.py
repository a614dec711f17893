"""The disk of testbeds: fsyncs cost nothing, a power cut takes what none of them has covered, and it is full on demand.

What was written is in the page cache, which a SIGKILL leaves alone. So no file is fsynced, which is most of what a
fresh broker would otherwise wait for. An fsync is only noted: of each change that none has followed it is known how to
take it back. A name (made, renamed, removed) is safe with an fsync of its folder, a file's bytes with one of the file.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.loop.primitives import RLock
from storage.files import DISK

if TYPE_CHECKING:
    from typing_extensions import Buffer

_REPLACED = ("open", "close", "pwrite", "ftruncate", "fsync", "fdatasync", "syncfs", "rename", "unlink", "mkdir")


class _Content:
    """The bytes of a file, as far as they are not safe: all up to `safe_size` are, but for what `before` says."""

    __slots__ = ("before", "safe_size")

    def __init__(self, safe_size: int) -> None:
        self.safe_size = safe_size
        self.before: list[tuple[int, bytes]] = []  # (position, what was there), oldest first


class _Name:
    """One change of a folder's entries. `kept`: another name of what the change has put out of the way."""

    __slots__ = ("folder", "kept", "kind", "path", "target")

    def __init__(self, kind: str, path: Path, target: Path | None = None, kept: Path | None = None) -> None:
        self.kind, self.path, self.target, self.kept = kind, path, target, kept
        self.folder = str(path.parent)

    def take_back(self) -> None:
        """As if it had never been. What it meets is of our own making, or gone with a folder."""
        with suppress(FileNotFoundError):
            if self.kind == "make":
                self.path.unlink()
            elif self.kind == "mkdir":
                shutil.rmtree(self.path, ignore_errors=True)
            elif self.target is not None:
                self.target.replace(self.path)
            if self.kept is not None:
                self.kept.replace(self.target or self.path)


class TestbedDisk:
    """What every file operation of a testbed goes through. A power cut lets no thread do another one."""

    def __init__(self, folder: Path) -> None:
        """`folder`, not there yet, is for what was removed and may come back: on the file system of the logs."""
        self.is_full = False
        self._folder = folder
        self._lock = RLock()  # the collector may close a file in the middle of an operation
        self._contents: dict[int, _Content] = {}  # by inode; what is not here is safe
        self._open: dict[int, int] = {}  # descriptor -> inode
        self._folders: dict[int, str] = {}
        self._names: list[_Name] = []
        self._kept = 0

    def install(self) -> None:
        """From here on the disk of this process is this one."""
        for name in _REPLACED:
            setattr(DISK, name, getattr(self, "fsync" if name == "fdatasync" else name))

    @staticmethod
    def uninstall() -> None:
        """The real one again, but that it fsyncs nothing."""
        for name in _REPLACED:
            DISK.__dict__.pop(name, None)
        spare_the_disk()

    # --- the operations, as `storage.files.Disk` has them

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """Notes a file that is made, and what one held that is cut."""
        with self._lock:
            made = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            cut = not made and bool(flags & os.O_TRUNC)
            if cut:
                self._save(path)
            descriptor = os.open(path, flags, mode)
            told = os.fstat(descriptor)
            if stat.S_ISDIR(told.st_mode):
                self._folders[descriptor] = os.fspath(path)
            else:
                self._open[descriptor] = told.st_ino
                if made:
                    self._contents[told.st_ino] = _Content(0)
                    self._names.append(_Name("make", Path(path)))
            return descriptor

    def _save(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            told = os.fstat(file)
            content = self._contents.setdefault(told.st_ino, _Content(told.st_size))
            safe_bytes = min(content.safe_size, told.st_size)
            if safe_bytes:
                content.before.append((0, os.pread(file, safe_bytes, 0)))
        finally:
            os.close(file)

    def close(self, descriptor: int) -> None:
        """No more of it is written by this descriptor."""
        with self._lock:
            self._open.pop(descriptor, None)
            self._folders.pop(descriptor, None)
            os.close(descriptor)

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        """Raises: OSError (ENOSPC) while the disk is full."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with self._lock:
            inode = self._open.get(descriptor)
            if inode is not None:
                content = self._contents.get(inode)
                if content is None:
                    content = self._contents[inode] = _Content(os.fstat(descriptor).st_size)
                if position < content.safe_size:
                    end = min(position + memoryview(data).nbytes, content.safe_size)
                    content.before.append((position, os.pread(descriptor, end - position, position)))
            return os.pwrite(descriptor, data, position)

    def ftruncate(self, descriptor: int, size: int) -> None:
        """Notes what is cut off."""
        with self._lock:
            inode = self._open.get(descriptor)
            if inode is not None:
                content = self._contents.setdefault(inode, _Content(os.fstat(descriptor).st_size))
                if size < content.safe_size:
                    content.before.append((size, os.pread(descriptor, content.safe_size - size, size)))
            os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:
        """What was written to the file, or the names of the folder, are safe from here on."""
        with self._lock:
            folder = self._folders.get(descriptor)
            if folder is None:
                self._contents.pop(self._open.get(descriptor, -1), None)
                return
            for name in self._names:
                if name.kept is not None and _within(name, folder):
                    name.kept.unlink(missing_ok=True)
            self._names = [name for name in self._names if not _within(name, folder)]

    def syncfs(self, descriptor: int) -> None:
        """Everything is."""
        del descriptor
        with self._lock:
            self._contents.clear()
            for name in self._names:
                if name.kept is not None:
                    name.kept.unlink(missing_ok=True)
            self._names.clear()

    def rename(self, path: Path, target: Path) -> None:
        """What had the new name is kept aside."""
        with self._lock:
            kept = self._aside(target)
            os.replace(path, target)  # noqa: PTH105  as `Disk` has it
            if target.is_dir():
                # Its files lie elsewhere now: what happened to their names before cannot be taken back any more.
                inside = f"{path}{os.sep}"
                self._names = [one for one in self._names if not f"{one.path}".startswith(inside)]
            self._names.append(_Name("rename", Path(path), Path(target), kept))

    def unlink(self, path: Path) -> None:
        """It is kept aside."""
        with self._lock:
            kept = self._aside(path)
            os.unlink(path)  # noqa: PTH108  as `Disk` has it
            self._names.append(_Name("unlink", Path(path), None, kept))

    def mkdir(self, path: Path) -> None:
        """Notes that it was made."""
        with self._lock:
            os.mkdir(path)  # noqa: PTH102  as `Disk` has it
            self._names.append(_Name("mkdir", Path(path)))

    def _aside(self, path: Path) -> Path | None:
        if not os.path.isfile(path):  # noqa: PTH113  as `Disk` has it
            return None
        self._folder.mkdir(exist_ok=True)
        self._kept += 1
        kept = self._folder / str(self._kept)
        os.link(path, kept)
        return kept

    # --- the power

    def cut_power(self, directory: Path) -> None:
        """Leave in `directory` only what fsyncs have covered. Whoever comes for another operation waits for ever."""
        self._lock.acquire()
        self.take_back(directory)

    def take_back(self, directory: Path) -> None:
        """Undo whatever no fsync has followed; nobody else may be at work."""
        for name in reversed(self._names):
            name.take_back()
        for path in directory.rglob("*"):
            told = path.lstat()
            content = self._contents.get(told.st_ino) if stat.S_ISREG(told.st_mode) else None
            if content is not None:
                if told.st_nlink > 1:
                    _parted(path)  # a snapshot has the file, too
                with path.open("r+b", buffering=0) as file:
                    for position, data in reversed(content.before):
                        os.pwrite(file.fileno(), data, position)
                    os.ftruncate(file.fileno(), min(content.safe_size, os.fstat(file.fileno()).st_size))
        shutil.rmtree(self._folder, ignore_errors=True)
        self._names, self._contents = [], {}


def _within(name: _Name, folder: str) -> bool:
    return name.folder == folder or (name.target is not None and str(name.target.parent) == folder)


def _parted(path: Path) -> None:
    """The file under this name is another one from here on."""
    copy = path.with_name(f"{path.name}.copy")
    shutil.copy2(path, copy)
    copy.replace(path)


def _at_once(descriptor: Any) -> None:
    """In the place of an fsync."""


def spare_the_disk() -> None:
    """From here on this process fsyncs nothing."""
    nothing: Any = _at_once
    DISK.fsync = DISK.fdatasync = nothing
    DISK.syncfs = nothing  # type: ignore[method-assign]  # made to be replaced
