"""`kohort storage dump`: every file that is named, each by the reader of its kind."""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offline.dump import files
from offline.dump.batches import BadFile, Wish, dump_log
from offline.dump.text import line_of
from storage.directory.meta_properties import FILE as META_PROPERTIES
from storage.errors import CorruptFile
from storage.reading.checkpoints import LEADER_EPOCHS, OFFSET_CHECKPOINTS
from storage.reading.folder import SWAP

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    Reader = Callable[[Path], Iterator[dict[str, Any]]]


class DumpRefused(Exception):
    """What was asked for cannot be printed; the message is a sentence."""


class NoSuchKind(DumpRefused):
    """`--only` names something that no file of a data directory is."""


_FOLDER = re.compile(r"(.+)-\d+(?:\.[0-9a-f]{32}-(?:delete|stray|future))?")
_LATER = (".deleted", ".cleaned", ".swap")  # how a segment file's name ends while it is replaced or removed
_METADATA = "__cluster_metadata"
KINDS = (
    *("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"),
    *("properties", "state"),
)


def dump_files(words: Sequence[str], options: argparse.Namespace) -> int:
    """Print the files at these paths, as the options of `kohort storage dump` say.

    The exit code is 1 when one is torn, corrupt or cannot be read. Raises: DumpRefused.
    """
    only = _kinds(options.only)
    wish = Wish(batches_only=options.batches, from_offset=options.offset, max_records=options.max_records)
    code = 0
    for word in words:
        found = list(_files(Path(word)))
        if not found:
            raise DumpRefused(f"{word}: there is nothing here that belongs to a log")
        for path, kind, reader in found:
            if only and kind not in only:
                continue
            if not _print(path, functools.partial(reader, wish=wish) if kind in _WITH_BATCHES else reader, options):
                code = 1
    return code


def _kinds(text: str | None) -> set[str]:
    found = {word.strip().lstrip(".") for word in text.split(",")} if text else set()
    if found - set(KINDS):
        raise NoSuchKind(f"--only {text}: it takes some of {', '.join(KINDS)}")
    return found


def _files(path: Path) -> Iterator[tuple[Path, str, Any]]:
    """The files at a path, each with its kind and reader. Raises: DumpRefused when there is none."""
    if path.is_dir():
        try:
            entries = sorted(path.iterdir())
        except OSError as error:
            raise DumpRefused(f"{path}: {(error.strerror or str(error)).lower()}") from None
        for entry in entries:
            if entry.is_dir() and _FOLDER.fullmatch(entry.name):
                yield from _files(entry)
            elif entry.is_file():
                known = _reader(entry)
                if known is not None and (not entry.name.endswith(_LATER) or _has_no_other_name(entry)):
                    yield entry, *known
        return
    if not path.exists():
        raise DumpRefused(f"{path}: no such file or directory")
    known = _reader(path)
    if known is None:
        raise DumpRefused(f"{path}: no file of a data directory is called so")
    yield path, *known


def _has_no_other_name(path: Path) -> bool:
    """Whether it is what a log that is being cleaned has in the place of files that are gone already."""
    return path.name.endswith(SWAP) and not path.with_suffix("").exists()


def _reader(path: Path) -> tuple[str, Any] | None:
    """(kind, reader) by the file's name; None for a file that is none of a data directory's."""
    name = path.name
    for later in _LATER:
        name = name.removesuffix(later)
    if name in _BY_NAME:
        return _BY_NAME[name]
    suffix = name.rpartition(".")[2]
    if not name[:20].isdigit():
        return None
    if suffix == "log":
        match = _FOLDER.fullmatch(path.resolve().parent.name)
        return "log", functools.partial(_dump_log, topic=match[1] if match else "")
    if suffix == "checkpoint":
        return "log", functools.partial(_dump_log, topic=_METADATA)
    return _BY_SUFFIX.get(suffix)


def _dump_log(path: Path, topic: str, wish: Wish) -> Iterator[dict[str, Any]]:
    return dump_log(path, topic, wish)


_WITH_BATCHES = ("log",)
_BY_SUFFIX: dict[str, tuple[str, Reader]] = {
    "index": ("index", files.dump_index),
    "timeindex": ("timeindex", files.dump_time_index),
    "txnindex": ("txnindex", files.dump_transaction_index),
    "snapshot": ("snapshot", files.dump_snapshot),
}
_BY_NAME: dict[str, tuple[str, Reader]] = {
    **dict.fromkeys((*OFFSET_CHECKPOINTS, LEADER_EPOCHS), ("checkpoint", files.dump_checkpoint)),
    META_PROPERTIES: ("properties", files.dump_properties),
    "partition.metadata": ("properties", files.dump_properties),
    "quorum-state": ("state", files.dump_json),
    ".kafka_cleanshutdown": ("state", files.dump_json),
}


def _print(path: Path, reader: Reader, options: argparse.Namespace) -> bool:
    """Print one file; whether it is whole."""
    if not options.json:
        print(path)
    try:
        for line in reader(path):
            if options.json:
                print(json.dumps({"file": str(path), **line}, ensure_ascii=False))
            else:
                print(line_of(line))
    except BadFile as error:
        unit = "line" if path.name in (*OFFSET_CHECKPOINTS, LEADER_EPOCHS) else "position"
        return _complain(f"{path}: {unit} {error.position}: {error}")
    except CorruptFile as error:
        return _complain(f"{path}: position 0: {error.why}")
    except OSError as error:
        return _complain(f"{path}: {(error.strerror or str(error)).lower()}")
    return True


def _complain(sentence: str) -> bool:
    sys.stdout.flush()
    print(f"kohort: {sentence}", file=sys.stderr)
    return False
