"""HDFS over HTTP: neither libhdfs nor a Java of Hadoop's is wanted, on the driver or on executors.

A NameNode answers what there is, and sends who reads on to a DataNode. Source: Hadoop's WebHDFS REST API.
"""

from __future__ import annotations

import errno
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from pipeline.errors import UsageError
from pipeline.sources.files import Entry, File, RangedFile

SCHEMES = {"webhdfs": "http", "swebhdfs": "https"}
_PARAMETERS = {"user": "user.name", "token": "delegation"}
_TIMEOUT_S = 60
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class WebHdfs:
    """See `files.Files`. `settings`: `user`, whom an HDFS without Kerberos believes; or `token`, a delegation token."""

    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Raises: UsageError for settings that are none."""
        for name, _ in self.settings:
            if name not in _PARAMETERS:
                raise UsageError(f"webhdfs: {name} is no setting of it; {' and '.join(_PARAMETERS)} are")

    def entries(self, folder: str) -> list[Entry]:
        """See `files.Files`."""
        found = self._json_of(folder, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        if [one["pathSuffix"] for one in found] == [""]:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        return sorted(
            Entry(one["pathSuffix"], one["type"] == "DIRECTORY", one["length"], one["modificationTime"])
            for one in found
        )

    def open(self, path: str) -> File:
        """See `files.Files`."""
        status = self._json_of(path, "GETFILESTATUS")["FileStatus"]
        if status["type"] == "DIRECTORY":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return _WebFile(self, path, status["length"])

    def read(self, path: str, position: int, count: int) -> bytes:
        """A range of a file."""
        return self._got(path, {"op": "OPEN", "offset": str(position), "length": str(count)})

    def _json_of(self, path: str, operation: str) -> Any:
        answer = self._got(path, {"op": operation})
        try:
            return json.loads(answer)
        except ValueError:
            raise OSError(errno.EIO, "who answers there is no WebHDFS", path) from None

    def _got(self, path: str, parameters: dict[str, str]) -> bytes:
        parts = urlsplit(path)
        who = {_PARAMETERS[name]: text for name, text in self.settings}
        place = f"{SCHEMES[parts.scheme.lower()]}://{parts.netloc}/webhdfs/v1{quote(parts.path or '/')}"
        with _said(path), urllib.request.urlopen(f"{place}?{urlencode(parameters | who)}", timeout=_TIMEOUT_S) as found:
            data: bytes = found.read()
        return data


class _WebFile(RangedFile):
    __slots__ = ("_files", "_path")

    def __init__(self, files: WebHdfs, path: str, size_bytes: int) -> None:
        self._files, self._path, self.size_bytes = files, path, size_bytes

    def pread(self, count: int, position: int) -> bytes:
        count = max(min(count, self.size_bytes - position), 0)
        return self._files.read(self._path, position, count) if count else b""


@contextmanager
def _said(path: str) -> Iterator[None]:
    """What the other side complains of, as an OSError with a number, a text and the path."""
    try:
        yield
    except urllib.error.HTTPError as error:
        kind, text = _remote_exception(error)
        if kind == "FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, "there is nothing of that name", path) from None
        number = errno.EACCES if error.code in (401, 403) else errno.EIO
        raise OSError(number, text[:_LONGEST], path) from None
    except urllib.error.URLError as error:
        cause = error.reason
        text = (cause.strerror or str(cause)) if isinstance(cause, OSError) else str(cause)
        raise OSError(errno.EIO, text.lower(), path) from None
    except (HTTPException, TimeoutError, ConnectionError) as error:
        raise OSError(errno.EIO, f"the answer broke off: {type(error).__name__}", path) from None


def _remote_exception(error: urllib.error.HTTPError) -> tuple[str, str]:
    """(Java's name of it, its message); of one who is no WebHDFS the status."""
    try:
        said = json.loads(error.read())["RemoteException"]
        return said["exception"], f"{said['exception']}: {' '.join(said['message'].split())}"
    except (ValueError, LookupError, TypeError, OSError):
        return "", f"HTTP status {error.code}, {error.reason}"
