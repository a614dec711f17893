"""What a command line of `kohort pipeline` says, read and checked without Spark, in milliseconds."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from pipeline.command import NO_GROUPS, ONE_FILE, OPTIONS, READS, VERBS, Command
from pipeline.command_checks import check, check_heeded
from pipeline.errors import DataError, UsageError
from pipeline.options import with_ago
from pipeline.paths import local_path, place_of
from pipeline.sources.access import read_settings
from pipeline.sources.files import is_remote

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:/,]+):(\d{1,5})")
_LITTLE_BYTES = 64 << 20
_HELP_COLUMNS = 120


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parser() -> argparse.ArgumentParser:
    """The parser of everything behind `kohort pipeline`."""
    verbs = "\n".join(f"  {verb:12} {meaning}" for verb, meaning in VERBS.items())
    reads = "\n".join(_filled(f"  {what:12} ", cost) for what, cost in READS.items())
    made = _Parser(
        prog="kohort pipeline",
        usage="kohort pipeline VERB --from DIR|HOST:PORT [options]",
        description=f"Questions to the logs of consumer groups, answered with Spark.\n\nverbs:\n{verbs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"what is read, in bytes:\n{reads}\n\n"
        "T is ISO 8601 (without a zone: UTC), epoch milliseconds, or -2h ago. SPAN is 30s, 10m, 1h, 7d.\n"
        "Exit codes: 0 done; 1 done with a loss, or the data cannot be read; 2 usage, or something is not installed.",
        allow_abbrev=False,
    )
    made.add_argument("verb", choices=VERBS, metavar="VERB")
    for one in OPTIONS.values():
        made.add_argument(one.flag, **one.how)
    return made


def _filled(head: str, text: str) -> str:
    return textwrap.fill(text, _HELP_COLUMNS, initial_indent=head, subsequent_indent=" " * len(head))


def read(words: list[str]) -> Command:
    """The command that these words make. Raises: UsageError."""
    given = parser().parse_args(with_ago(words))
    check_heeded(given, OPTIONS.values())
    now = datetime.now(UTC)
    file_system = {} if given.fs_config is None else read_settings(given.fs_config, "--fs-config")
    paths, broker, has_groups = _source(",".join(getattr(given, "from")), file_system)
    to_uri = given.to if given.to is not None and _is_elsewhere(given) else None
    to = None if given.to is None or to_uri is not None else place_of("--to", given.to)
    own = {
        name: one.read(one.flag, getattr(given, one.name), now)
        for name, one in OPTIONS.items()
        if one.read is not None and getattr(given, one.name) is not None
    }
    command = Command(
        verb=given.verb,
        paths=paths,
        broker=broker,
        # What has no name of its own cannot have one beside it.
        to=to if to is None or to.name not in ("", "..") else to.resolve(),
        to_uri=to_uri,
        format=given.format or ("table" if given.to is None or given.verb in ONE_FILE else "parquet"),
        bootstrap=given.bootstrap or broker,
        file_system=tuple(file_system.items()),
        little=broker is None and not given.stream and _is_little(paths),
        requested_at=now,
        **own,
    )
    check(command)
    # A stream may wait for the first group.
    if not has_groups and not command.stream:
        raise UsageError(NO_GROUPS.format(paths=",".join(paths)))
    return command


def _source(text: str, file_system: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, bool]:
    """(directories, broker, whether the records of groups may be there)."""
    given = [path.strip() for path in text.split(",") if path.strip()]
    paths = tuple(local_path(path) or path for path in given)
    if not paths:
        raise UsageError("--from is empty")
    if not any(Path(path).is_dir() for path in paths) and all(_HOST_PORT.fullmatch(path) for path in paths):
        return (), ",".join(paths), True
    for path in paths:
        if _HOST_PORT.fullmatch(path) and not Path(path).exists():
            raise UsageError(f"--from {text}: directories and brokers cannot be read together")
        if "://" not in path and not Path(path).exists():
            raise UsageError(f"--from {path}: there is no such directory, and it is no HOST:PORT")
    from pipeline.sources.log_dir import GROUPS_TOPIC, scan  # noqa: PLC0415

    # Raises UsageError for what is no log directory.
    if file_system and not any(map(is_remote, paths)):
        raise UsageError("--fs-config is for a directory in an object store or in HDFS")
    wanted = scan(paths, file_system, lambda topic, _number: topic == GROUPS_TOPIC)
    return paths, None, bool(wanted)


def _is_little(paths: Sequence[str]) -> bool:
    """Whether all logs of directories on this machine together are small, and can all be looked at."""
    from pipeline.sources.log_dir import scan  # noqa: PLC0415

    if any(map(is_remote, paths)):
        return False
    try:
        return sum(one.size_bytes for one in scan(paths)) <= _LITTLE_BYTES
    except DataError:
        return False  # of a topic that is not asked about, perhaps: who reads it will say so


def _is_elsewhere(given: argparse.Namespace) -> bool:
    """Whether --to is a place that is written to through Hadoop."""
    return local_path(given.to) is None and not given.to.startswith("file:")
