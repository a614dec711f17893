"""Where an answer may be written: never into or over a log directory, and only where it can be; what a URI means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline.errors import UsageError

_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs", "webhdfs": "hdfs", "swebhdfs": "hdfs"}
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


def local_path(text: str) -> str | None:
    """The path of this machine that a path or a `file:` URI names; None for a URI of another kind."""
    if not _REMOTE.match(text):
        return text
    parts = urlsplit(text)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def place_of(option: str, text: str) -> Path:
    """Where to write. Raises: UsageError for what is not on this machine, before anything has run."""
    path = local_path(text)
    if path is None:
        raise UsageError(f"{option} {text}: this is written to this machine, or what is mounted there")
    return Path(path)


def check_target(
    option: str, place: Path, sources: Sequence[str], *, one_file: bool = False, replaced: bool = False
) -> None:
    """That `place` can be made, or grow, without touching what is read. `replaced`: what lies there will be deleted.

    Raises: UsageError saying what stands in the way.
    """
    target = place.resolve()
    if not target.name:
        raise UsageError(f"{option} {place} is no place to write to")
    for source in [_log_directory(source) for source in sources if local_path(source) is not None]:
        if target == source or source in target.parents:
            raise UsageError(f"{option} {place} lies in the log directory {source}, where nothing is ever written")
        if replaced and target in source.parents:
            raise UsageError(f"{option} {place} holds the log directory {source}; it is not replaced")
    if one_file and target.is_dir():
        raise UsageError(f"{option} {place} is a directory; name the file that is to be written")
    if not one_file and not replaced and target.is_file():
        raise UsageError(f"{option} {place} is a file; name a folder")
    _check_writable(option, place, target)


def check_remote_target(option: str, uri: str, sources: Sequence[str]) -> None:
    """That a place elsewhere is none of those that are read. Raises: UsageError."""
    wanted = _plain(uri)
    if not wanted.partition("//")[2].strip("/"):
        raise UsageError(f"{option} {uri} is no place to write to")
    for source in map(_plain, sources):
        if _is_within(wanted, source) or _is_within(source, wanted):
            raise UsageError(f"{option} {uri} and the log directory {source} lie in one another")


def _plain(uri: str) -> str:
    """One name for what has several: Arrow says s3 where Hadoop says s3a; abfss is abfs over TLS; an HDFS may be named
    with either of its ports, or as the default one, so that only the path tells.
    """
    scheme, _, rest = uri.partition("://")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    host, _, path = rest.partition("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join((f"{scheme}://{'' if scheme == 'hdfs' else host}", *parts))


def _is_within(inner: str, outer: str) -> bool:
    return f"{inner}/".startswith(f"{outer}/")


def is_taken(option: str, place: Path) -> bool:
    """Whether something lies there that would be lost. Raises: UsageError when nobody may look."""
    try:
        return place.is_file() or (place.is_dir() and any(place.iterdir()))
    except OSError as error:
        raise UsageError(f"{option} {place} cannot be looked at: {error.strerror}") from None


def _log_directory(source: str) -> Path:
    """The whole log directory, also where one partition's folder in it is read."""
    given = Path(source).resolve()
    return given.parent if (given.parent / "meta.properties").exists() else given


def _check_writable(option: str, place: Path, target: Path) -> None:
    there = target.parent
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"{option} {place}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {place}: {there} cannot be written to")
