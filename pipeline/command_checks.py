"""Which options can be together, and where an answer may be written; told before Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.command import ONE_FILE, STREAMED
from pipeline.errors import UsageError
from pipeline.paths import check_remote_target, check_target, is_taken

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from pipeline.command import Command
    from pipeline.options import Option

_MOST = 2**31 - 2


def check_heeded(given: argparse.Namespace, options: Iterable[Option]) -> None:
    """Raises UsageError for an option that the verb does not heed."""
    verb = given.verb
    named = [one for one in options if getattr(given, one.name) not in (None, False, [])]
    for one in named:
        if one.verbs is not None and verb not in one.verbs:
            raise UsageError(f"{verb} takes no {one.flag}; {one.flag} is for {_listed(one.verbs)}")
    for one in named:
        if one.stream and not given.stream:
            raise UsageError(f"{one.flag} is for --stream")
        if given.stream and (one.stream is False or (one.flag == "--since" and verb != "lag")):
            raise UsageError(f"--stream takes no {one.flag}")
    if given.now and (given.since is not None or given.until is not None):
        raise UsageError("--now is this moment; it takes neither --since nor --until")


def _listed(words: tuple[str, ...]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def check(command: Command) -> None:
    """Raises UsageError for what cannot be together."""
    verb = command.verb
    if verb == "restore" and command.at is None:
        raise UsageError("restore needs --at T, the moment to look at")
    if command.since is not None and command.until is not None and command.since >= command.until:
        raise UsageError("--since is not before --until")
    if command.format in ("parquet", "delta") and not command.has_target:
        raise UsageError(f"--format {command.format} needs --to PATH")
    if command.format not in ("parquet", "delta") and command.by_date:
        raise UsageError("--by-date is for tables in parquet or of Delta, with --to")
    if command.compact is not None and (command.format != "parquet" or command.to is None):
        raise UsageError("--compact is for tables in parquet, on this machine")
    if command.format == "table" and command.has_target and verb not in ONE_FILE:
        raise UsageError("--format table is for the screen; with --to choose parquet, delta, json or csv")
    if command.format != "table" and verb in ONE_FILE:
        raise UsageError(f"{verb} has a format of its own; leave --format out")
    if verb == "report" and not command.has_target:
        raise UsageError("report needs --to PAGE.html")
    for option, number in (
        ("--limit", command.limit),
        ("--max-offsets", command.max_offsets),
        ("--compact", command.compact),
    ):
        if number is not None and not 0 < number <= _MOST:
            raise UsageError(f"{option} must be above 0" if number < 1 else f"{option} is at most {_MOST:,}")
    if command.execute and command.bootstrap is None:
        raise UsageError("--execute needs --bootstrap HOST:PORT, the broker that has the group")
    if command.client and command.bootstrap is None:
        raise UsageError("--command-config is for a broker: --from HOST:PORT, or --bootstrap")
    _ = command.access
    _check_stream(command)
    _check_targets(command)


def _check_targets(command: Command) -> None:
    """Raises UsageError for a place that cannot or must not be written to."""
    if command.to_uri is not None:
        check_remote_target("--to", command.to_uri, command.paths)
    to = command.to
    if to is not None:
        one_file = command.verb in ONE_FILE
        # The target of a stream grows from one run to the next.
        if not command.overwrite and not command.stream and is_taken("--to", to) and not (one_file and to.is_dir()):
            raise UsageError(f"--to {to} exists and is not empty; --overwrite replaces it")
        check_target("--to", to, command.paths, one_file=one_file, replaced=command.overwrite)
    if command.checkpoint is not None:
        check_target("--checkpoint", command.checkpoint, command.paths, replaced=command.overwrite)


def _check_stream(command: Command) -> None:
    if not command.stream:
        return
    if command.verb not in STREAMED:
        raise UsageError(f"{command.verb} does not stream; {', '.join(STREAMED)} do")
    if not command.has_target or command.checkpoint is None:
        raise UsageError("--stream needs --to PATH and --checkpoint DIR")
    if command.as_group is not None and command.bootstrap is None:
        raise UsageError("--as-group needs --bootstrap HOST:PORT, the broker to commit to")
