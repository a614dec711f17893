"""The one door to the operating system: every file operation of storage goes through a `Disk`.

A test hands in a disk that fails or stops at the n-th operation, which is how "a crash after every file
operation" is tested. `LogFile` is an open descriptor that lives as long as anything refers to it: a mapping handed
to a socket, a flush in another thread or a cleaner's reader never meet a closed or reused descriptor.

Always true: a rename that must survive a power loss is followed by `sync_directory`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from storage.errors import StorageError

Buffer = bytes | bytearray | memoryview


class Disk:
    """The calls themselves, as attributes so that one can be replaced. All raise `OSError`."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    pread: Callable[[int, int, int], bytes] = staticmethod(os.pread)
    pwrite: Callable[[int, Buffer, int], int] = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    # fdatasync leaves out the modification time, and so a journal commit; macOS has only fsync.
    fdatasync = staticmethod(getattr(os, "fdatasync", os.fsync))
    rename: Callable[[Path, Path], None] = staticmethod(os.replace)
    unlink: Callable[[Path], None] = staticmethod(os.unlink)
    mkdir: Callable[[Path], None] = staticmethod(os.mkdir)
    utime = staticmethod(os.utime)

    @staticmethod
    def syncfs(descriptor: int) -> None:
        """Make durable all that lies in the file system of an open file. Linux only: elsewhere AttributeError."""
        import ctypes  # noqa: PLC0415  only a stop with many logs needs it

        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(descriptor):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))


DISK = Disk()

_COPY_BYTES = 1_048_576


class LogFile:
    """One open file. Closed when the last reference goes, never by hand while a reader may hold it.

    Any thread may call it. Nobody takes the descriptor out of it: a number does not hold its file, and compiled code
    drops an object after its last use, before the call that was given the number.
    """

    __slots__ = ("__weakref__", "disk", "fd", "path")

    def __init__(self, path: Path, flags: int, disk: Disk = DISK, *, mode: int = 0o644) -> None:
        self.fd = -1
        self.disk = disk
        self.path = path
        self.fd = disk.open(path, flags | os.O_CLOEXEC, mode)

    def __del__(self) -> None:
        if self.fd >= 0:
            self.disk.close(self.fd)

    def sync(self) -> None:
        """Make content and size durable. May raise `OSError`, as all of these."""
        self.disk.fsync(self.fd)

    def datasync(self) -> None:
        """As `sync`, but for the modification time."""
        self.disk.fdatasync(self.fd)

    def sync_file_system(self) -> None:
        """Make everything durable that lies in the file's file system. Linux only: elsewhere AttributeError."""
        self.disk.syncfs(self.fd)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or lengthen it by a hole."""
        self.disk.ftruncate(self.fd, size_bytes)

    def map(self, size_bytes: int) -> mmap.mmap:
        """The first bytes as a read-only mapping, which lives on without the file."""
        return mmap.mmap(self.fd, size_bytes, access=mmap.ACCESS_READ)

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self.fd).st_size

    def modified_ms(self) -> int:
        """The modification time, ms since the epoch."""
        return os.fstat(self.fd).st_mtime_ns // 1_000_000

    def pread(self, count: int, position: int) -> bytes:
        """`count` bytes from `position`, fewer only at the end of the file."""
        data = self.disk.pread(self.fd, count, position)
        if len(data) == count or not data:
            return data
        parts = [data]
        got = len(data)
        while got < count:
            more = self.disk.pread(self.fd, count - got, position + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def write_fully(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`; a short write goes on until the system names its error."""
        written = self.disk.pwrite(self.fd, data, position)
        size = len(data)
        if written == size:
            return
        view = memoryview(data)
        while written < size:
            written += self.disk.pwrite(self.fd, view[written:], position + written)

    def write_all(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write the buffers one behind the other from `position` on, in one call where the system has it."""
        together = len(buffers) > 1 and self.disk.pwrite is os.pwrite
        written = os.pwritev(self.fd, buffers, position) if together else 0
        for buffer in buffers:
            size = len(buffer)
            if written < size:
                self.write_fully(memoryview(buffer)[written:] if written else buffer, position + written)
            written = max(written - size, 0)
            position += size

    def write_again(self, begin: int, end: int) -> None:
        """Write the bytes between two positions over themselves, so that the next fsync speaks of them.

        After a failed fsync the cache may call pages clean that never reached the disk.
        """
        for position in range(begin, end, _COPY_BYTES):
            self.write_fully(self.pread(min(_COPY_BYTES, end - position), position), position)


def write_file(path: Path, data: Buffer, *, sync: bool, disk: Disk = DISK) -> None:
    """Make `path` hold exactly `data`, in place (not atomically); fsynced when `sync`."""
    # An empty file is not truncated: ext4 would take that for the replacement of what is dear to somebody, and write it
    # out when it is closed, which waits for the journal of a disk that is behind.
    truncate = os.O_TRUNC if _has_bytes(path) else 0
    file = LogFile(path, os.O_RDWR | os.O_CREAT | truncate, disk)
    if data:
        file.write_fully(data, 0)
    if sync:
        file.sync()


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def replace_file(path: Path, data: Buffer, disk: Disk = DISK, *, sync: bool = True) -> None:
    """Replace `path` by `data` so that a crash at any moment leaves the old or the new content, durably.

    Without `sync` the death of the process does no harm, and a power loss may.

    Raises: StorageError. Source: Kafka's CheckpointFile, Utils.atomicMoveWithFallback.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        write_file(temporary, data, sync=sync, disk=disk)
        disk.rename(temporary, path)
        if sync:
            sync_directory(path.parent, disk)
    except OSError as error:
        raise StorageError("cannot replace", path, error) from error


def sync_file(path: Path, disk: Disk = DISK) -> None:
    """Make the content of a file durable. May raise `OSError`."""
    file = LogFile(path, os.O_RDONLY, disk)
    file.sync()


def sync_directory(directory: Path, disk: Disk = DISK) -> None:
    """Make names created, renamed or removed in `directory` durable."""
    sync_file(directory, disk)


def make_directory(directory: Path, disk: Disk = DISK) -> None:
    """Make `directory` unless it is there. Not durable before its parent is fsynced. May raise `OSError`."""
    try:
        disk.mkdir(directory)
    except FileExistsError:
        if not directory.is_dir():
            raise


def remove_files(paths: list[Path], disk: Disk = DISK) -> None:
    """Unlink files; one that is gone already is no error. May block for long files: call it in a thread."""
    for path in paths:
        try:
            disk.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError("cannot remove", path, error) from error
