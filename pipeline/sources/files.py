"""Where the files of logs lie, behind one small interface: list a folder, read a range.

On this machine (or mounted there), or wherever `pyarrow.fs` reaches: S3 and what speaks like it, Google's and Azure's
stores, HDFS; and HDFS over HTTP. A value that travels to the tasks; connections are made where they are used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self
from urllib.parse import urlsplit

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from pyarrow.fs import FileSystem

REMOTE = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs", "webhdfs", "swebhdfs")
"""The schemes of places that are not this machine's."""
_FLAGS = {"anonymous", "force_virtual_addressing", "check_directory_existence_before_creation"}
_LONGEST = 300
_NUMBERS = {"request_timeout", "connect_timeout", "load_frequency"}


class Entry(NamedTuple):
    """Something in a folder."""

    name: str
    is_folder: bool
    size_bytes: int
    modified_ms: int


class File(Protocol):
    """A file that is read; all of these may raise OSError."""

    size_bytes: int

    def pread(self, count: int, position: int) -> bytes:
        """`count` bytes from `position`, fewer only at the end of the file."""

    def fill(self, into: bytearray | memoryview, position: int) -> int:
        """As `pread`, into a buffer; returns how many bytes there were."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Files(Hashable, Protocol):
    """A file system. Places are texts, joined with `/`."""

    def entries(self, folder: str) -> list[Entry]:
        """What lies in a folder, by name. Raises: FileNotFoundError, NotADirectoryError, OSError."""

    def open(self, path: str) -> File:
        """A file for reading. Raises: FileNotFoundError, OSError."""


class RangedFile(ABC):
    """A file of which ranges are asked for, one after the other, and nothing is held between two."""

    __slots__ = ("size_bytes",)

    size_bytes: int

    @abstractmethod
    def pread(self, count: int, position: int) -> bytes:
        """Up to so many bytes from a position on; none behind the end."""

    def fill(self, into: bytearray | memoryview, position: int) -> int:
        """As many bytes as `into` has room for. Returns: how many there were."""
        view = memoryview(into)
        data = self.pread(len(view), position)
        view[: len(data)] = data
        return len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:  # noqa: B027  one that holds something says so
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Local:
    """This machine's files."""

    def entries(self, folder: str) -> list[Entry]:
        """See `Files`; what goes meanwhile may be left out."""
        found: list[Entry] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    is_folder = stat.S_ISDIR(status.st_mode)
                    found.append(Entry(entry.name, is_folder, status.st_size, status.st_mtime_ns // 1_000_000))
        return sorted(found)

    def open(self, path: str) -> File:
        """See `Files`."""
        return _LocalFile(path)


LOCAL = Local()


class _LocalFile:
    __slots__ = ("_descriptor", "size_bytes")

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def pread(self, count: int, position: int) -> bytes:
        data = os.pread(self._descriptor, count, position)
        while (
            data and len(data) < count and (more := os.pread(self._descriptor, count - len(data), position + len(data)))
        ):
            data += more
        return data

    def fill(self, into: bytearray | memoryview, position: int) -> int:
        return os.preadv(self._descriptor, [into], position)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        self.__del__()

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Remote:
    """A place of `pyarrow.fs`; `settings` are those of its class (`access_key`, ...), shown to nobody."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def entries(self, folder: str) -> list[Entry]:
        """See `Files`."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415  most reads are local

        with said(folder):
            system, inner = self._system(folder)
            inner = inner.rstrip("/") or "/"
            # Of Google's store Arrow lists no folder that is only a part of names; all that lies below it does name it.
            below = system.type_name == "gcs"
            try:
                there = system.get_file_info(FileSelector(inner, recursive=below))
            except OSError:
                kind = system.get_file_info(inner).type
                if below and kind == FileType.NotFound:
                    raise FileNotFoundError from None
                if kind == FileType.File:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
                raise
        found: dict[str, Entry] = {}
        for one in there:
            name, _, rest = one.path.removeprefix(inner).lstrip("/").partition("/")
            is_folder = bool(rest) or one.type == FileType.Directory
            size_bytes, modified_ns = (0, 0) if rest else (one.size or 0, one.mtime_ns or 0)
            found[name] = Entry(name, is_folder, size_bytes, modified_ns // 1_000_000)
        return sorted(found.values())

    def open(self, path: str) -> File:
        """See `Files`."""
        with said(path):
            system, inner = self._system(path)
            return _RemoteFile(path, system, inner)

    def _system(self, path: str) -> tuple[FileSystem, str]:
        """(the file system, what it calls the path)."""
        parts = urlsplit(path)
        scheme = parts.scheme.lower()
        if scheme == "hdfs":
            return _connected(scheme, parts.netloc, self.settings), parts.path
        if scheme in ("abfs", "abfss"):
            container, _, host = parts.netloc.rpartition("@")
            account = host.partition(".")[0] if container else ""
            return _connected(scheme, account, self.settings), f"{container or host}{parts.path}"
        return _connected(scheme, "", self.settings), f"{parts.netloc}{parts.path}"


class _RemoteFile(RangedFile):
    __slots__ = ("_file", "_path")

    def __init__(self, path: str, system: FileSystem, inner: str) -> None:
        self._path = path
        self._file = system.open_input_file(inner)
        self.size_bytes = self._file.size()

    def pread(self, count: int, position: int) -> bytes:
        count = max(min(count, self.size_bytes - position), 0)
        with said(self._path):
            return bytes(self._file.read_at(count, position)) if count else b""

    def __exit__(self, *of_error: object) -> None:
        self._file.close()


@contextlib.contextmanager
def said(
    path: str, kinds: tuple[type[Exception], ...] = (OSError,), plain: Callable[[str], str] = str
) -> Iterator[None]:
    """What a store complains of, in an error of these kinds, as an OSError with a number, a text and the path.

    `plain` makes a sentence of what its client says.
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is nothing of that name", path) from None
    except kinds as error:
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            raise
        # Without libjvm or libhdfs Arrow names every place that was looked at.
        text = " ".join(plain(str(error)).partition("dlopen(")[0].split())
        if "Unable to load lib" in text:
            text += " (with hdfs-native installed, or as webhdfs://HOST:PORT/..., it is read without)"
        number = errno.EACCES if isinstance(error, PermissionError) else errno.EIO
        raise OSError(number, text[:_LONGEST], path) from None


@lru_cache(maxsize=16)
def _connected(scheme: str, host: str, settings: tuple[tuple[str, str], ...]) -> FileSystem:
    """Raises: UsageError for settings that are none, or contradict each other; OSError without libhdfs."""
    from pyarrow import fs  # noqa: PLC0415  most reads are local

    given: dict[str, object] = {name: _typed(name, text) for name, text in settings}
    try:
        if scheme == "hdfs":
            name, _, port = host.partition(":")
            return fs.HadoopFileSystem(name or "default", int(port or 0), **given)
        if scheme in ("abfs", "abfss"):
            return fs.AzureFileSystem(**({"account_name": host} if host else {}) | given)
        if scheme in ("gs", "gcs"):
            return fs.GcsFileSystem(**given)
        return fs.S3FileSystem(**given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{scheme}: {' '.join(str(error).split())}; docs/pipeline.md lists the settings") from None
    except AttributeError:
        raise UsageError(f"{scheme}: this build of pyarrow was made without it") from None


def _typed(name: str, text: str) -> object:
    if name in _FLAGS:
        return text.lower() == "true"
    return float(text) if name in _NUMBERS else text


def is_remote(path: str) -> bool:
    """Whether a place is a URI of one of the file systems of `REMOTE`."""
    return path.partition("://")[0].lower() in REMOTE and "://" in path


def read_whole(files: Files, path: str) -> bytes | None:
    """A small file's content; None where there is none. Raises: OSError."""
    try:
        with files.open(path) as file:
            return file.pread(file.size_bytes, 0)
    except FileNotFoundError:
        return None
