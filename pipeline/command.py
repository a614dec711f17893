"""What a command line of `kohort pipeline` asks for, as a value; read and checked without Spark, in milliseconds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from pipeline.errors import UsageError
from pipeline.paths import check_remote_target, check_target, is_taken, local_path, place_of
from pipeline.session import LOCAL
from pipeline.sources.access import Access, access, read_settings
from pipeline.sources.files import is_remote
from pipeline.spans import span_ms

VERBS = {
    "commits": "every offset commit that is still in the log",
    "generations": "every generation of classic groups and record of KIP-848 groups, with members and assignments",
    "rebalances": "every completed rebalance, with its causes where the rebalance ledger knows them",
    "membership": "who owned which partition, from when to when",
    "lag": "how far groups were behind, in messages and seconds, on a grid of moments",
    "stuck": "partitions that do not get on though records wait",
    "resets": "offsets that were set back, removed, or set forth while nobody read, and by whom",
    "growth": "which groups fill __consumer_offsets, and what its partitions look like",
    "groups": "one row for each group: state, members, lag, rebalances",
    "state": "the offsets of groups now, or as of a moment (--at)",
    "restore": "the same as the file that kafka-consumer-groups --reset-offsets --from-file reads",
    "report": "one self-contained HTML page",
    "records": "every record of __consumer_offsets, decoded, those nobody can decode too",
}
STREAMED = ("commits", "rebalances", "lag", "growth", "groups", "stuck")
FORMATS = ("parquet", "json", "csv", "table")
NO_GROUPS = "--from {paths}: there is no __consumer_offsets-N folder in it; no consumer group was ever there, "
NO_GROUPS += "or its logs lie in another of the broker's log.dirs"
_ONE_FILE = ("restore", "report")
# What only some verbs heed: with the others it would be left out without a word.
_OWN: dict[str, tuple[str, ...]] = {
    "at": ("state", "restore"),
    "since": ("commits", "generations", "rebalances", "membership", "lag", "resets", "growth", "records", "report"),
    "until": tuple(verb for verb in VERBS if verb not in ("state", "restore")),
    "topic": ("commits", "membership", "lag", "stuck", "resets", "state", "restore", "records", "report"),
    "limit": tuple(verb for verb in VERBS if verb not in _ONE_FILE),
    "every": ("lag", "growth", "report"),
    "exact": ("lag",),
    "by_date": ("commits", "generations", "rebalances", "membership", "lag", "stuck", "resets", "growth", "records"),
    "now": ("lag",),
    "transactions": ("commits",),
    "lasting": ("stuck", "report"),
    "offsets_retention": ("groups", "report"),
    "execute": ("restore",),
}
_STREAM_ONLY = ("checkpoint", "once", "trigger", "watermark", "as_group", "max_offsets", "on_loss", "compact")
_NOT_STREAMED = ("until", "limit", "exact", "now", "transactions")
_LONGEST_MS = 36_500 * 86_400_000
_MOST = 2**31 - 2
_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:/,]+):(\d{1,5})")
_AGO = re.compile(r"-(\d+)(s|m|h|d)")
_ANY_AGO = re.compile(r"-\d\S*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Moments have a zone; spans are ms. `broker` is None when `paths` are read."""

    verb: str
    paths: tuple[str, ...] = ()
    broker: str | None = None
    to: Path | None = None
    to_uri: str | None = None
    format: str = "table"
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    every_ms: int = 60_000
    every_given: bool = False
    lasting_ms: int = 600_000
    retention_ms: int = 7 * 86_400_000
    exact: bool = False
    now: bool = False
    transactions: bool = False
    on_corrupt: str = "error"
    strict: bool = False
    dedupe_replicas: bool = False
    include_observers: bool = False
    limit: int | None = None
    overwrite: bool = False
    master: str | None = None
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    archive_classes: bool = False
    execute: bool = False
    bootstrap: str | None = None
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    file_system: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    stream: bool = False
    once: bool = False
    trigger_ms: int = 10_000
    checkpoint: Path | None = None
    watermark_ms: int = 600_000
    as_group: str | None = None
    max_offsets: int | None = None
    on_loss: str = "error"
    by_date: bool = False
    compact: int | None = None
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def has_target(self) -> bool:
        """Whether the answer goes to files, and not to the screen."""
        return self.to is not None or self.to_uri is not None

    @property
    def is_one_file(self) -> bool:
        """Whether the answer is a file, and not a folder of tables."""
        return self.verb in _ONE_FILE

    @property
    def access(self) -> Access:
        """The cluster that is read, or that a directory's answer goes to. Raises: UsageError."""
        return access(self.broker or self.bootstrap or "", dict(self.client))

    @property
    def window_ms(self) -> int:
        """How long the windows of `growth` are: an hour unless --every says otherwise."""
        return self.every_ms if self.every_given else 3_600_000


_READS = """\
What is read: __consumer_offsets, once and whole; commits and records with --since begin with the first segment that is
new enough. Besides, of the topics that groups commit:
  lag          a broker is asked for log ends by time, about 100 bytes for each partition and grid point at which it
               had grown: no record is sent; from a directory their time indexes, and 64 KiB around each grid point, or
               the segments whole, for the headers of the batches, where that is less
  report       the same of a broker; from a directory their segments whole
  lag --now    from a broker two log ends of each partition; from a directory as for one grid point
  lag --exact  their records, whole; from a broker, too
  stuck        their segments whole; a broker sends them whole
  groups, restore   log ends only"""


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parser() -> argparse.ArgumentParser:
    """The parser of everything behind `kohort pipeline`."""
    verbs = "\n".join(f"  {verb:12} {meaning}" for verb, meaning in VERBS.items())
    made = _Parser(
        prog="kohort pipeline",
        usage="kohort pipeline VERB --from DIR|HOST:PORT [options]",
        description=f"Questions to the logs of consumer groups, answered with Spark.\n\nverbs:\n{verbs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"{_READS}\n\n"
        "T is ISO 8601 (without a zone: UTC), epoch milliseconds, or -2h ago. SPAN is 30s, 10m, 1h, 7d.\n"
        "Exit codes: 0 done; 1 done with a loss, or the data cannot be read; 2 usage, or something is not installed.",
        allow_abbrev=False,
    )
    made.add_argument("verb", choices=VERBS, metavar="VERB")
    add = made.add_argument
    add(
        "--from",
        dest="source",
        action="append",
        required=True,
        metavar="DIR|HOST:PORT",
        help="log directories (a comma list, or given again), s3:// and the like among them; or a broker",
    )
    add("--to", metavar="PATH|URI", help="where to write, without which the answer goes to standard output")
    add("--format", choices=FORMATS, help="parquet (default with --to), json, csv, or table (default on the screen)")
    add("--overwrite", action="store_true", help="replace what lies at --to")
    add("--limit", type=int, metavar="N", help="rows on the screen (a table: 100)")
    add("--group", action="append", default=[], metavar="GLOB", help="only these groups; may be repeated")
    add("--topic", action="append", default=[], metavar="GLOB", help="only these topics; may be repeated")
    add("--since", metavar="T", help="from this moment on")
    add("--until", metavar="T", help="what was written before this moment")
    add("--at", metavar="T", help="state (now), restore: the moment")
    add("--every", metavar="SPAN", help="lag: the distance of grid points (1m); growth: of windows (1h)")
    add("--exact", action="store_true", help="lag: read the oldest waiting record for its time, not only batch headers")
    add(
        "--transactions",
        action="store_true",
        help="commits: a table of those that were written in transactions too, pending and aborted ones among them",
    )
    add("--now", action="store_true", help="lag: only how it is now")
    add("--for", dest="lasting", metavar="SPAN", help="stuck: standing still for at least so long (10m)")
    add("--offsets-retention", metavar="SPAN", help="groups: offsets.retention.minutes of the broker (7d)")
    add(
        "--on-corrupt",
        choices=("error", "skip"),
        default="error",
        help="what cannot be read: fail, or leave out and say",
    )
    add("--strict", action="store_true", help="exit with 1 when a record could not be decoded")
    add(
        "--dedupe-replicas",
        action="store_true",
        help="several directories: of each partition the one that reaches furthest",
    )
    add("--include-observers", action="store_true", help="also the groups that Spark's own connector makes up to read")
    add("--master", metavar="URL", help=f"Spark's master ({LOCAL}, or what spark-submit or spark-defaults.conf say)")
    add("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's; may be repeated")
    add(
        "--archive-classes",
        action="store_true",
        help="keep the classes that this run loads (in ~/.cache/kohort): later runs start seconds sooner",
    )
    add("--jars", default="", metavar="PATH,..", help="jars for Spark")
    add("--py-files", default="", metavar="PATH,..", help=".py, .zip and .egg files for Spark's workers")
    add("--execute", action="store_true", help="restore: commit the offsets to the group, which must have no members")
    add("--bootstrap", metavar="HOST:PORT", help="the broker for --execute and --as-group, when --from is a directory")
    add(
        "--command-config",
        metavar="FILE",
        help="how the broker is spoken to: settings of a client as Kafka's tools take them (TLS, SASL)",
    )
    add(
        "--fs-config",
        metavar="FILE",
        help="how the file system of a remote directory is spoken to: access_key=..., endpoint_override=... in lines",
    )
    add(
        "--stream",
        action="store_true",
        help=f"go on as the log grows: {', '.join(STREAMED)}; needs --to and --checkpoint",
    )
    add("--checkpoint", metavar="DIR", help="stream: where its position and state are kept")
    add("--once", action="store_true", help="stream: everything that is there now, then end (availableNow)")
    add("--trigger", metavar="SPAN", help="stream: a batch every so often (10s)")
    add("--watermark", metavar="SPAN", help="stream: how late a record may be (10m)")
    add("--as-group", metavar="GROUP", help="stream: commit each batch's end to this group, so that its lag is seen")
    add(
        "--on-loss",
        choices=("error", "continue"),
        help="stream: records or partitions gone that were to be read (error)",
    )
    add("--by-date", action="store_true", help="parquet with --to: a folder for each day, date=2026-03-01")
    add("--compact", type=int, metavar="N", help="stream: before it begins, make one of more than N batches (parquet)")
    add("--max-offsets", type=int, metavar="N", help="stream: about so many records in a batch")
    return made


def read(words: list[str]) -> Command:
    """The command that these words make. Raises: UsageError."""
    given = parser().parse_args(_with_ago(words))
    _check_heeded(given)
    now = datetime.now(UTC)
    file_system = {} if given.fs_config is None else read_settings(given.fs_config, "--fs-config")
    paths, broker, has_groups = _source(",".join(given.source), file_system)
    to_uri = given.to if given.to is not None and _is_elsewhere(given) else None
    to = None if given.to is None or to_uri is not None else place_of("--to", given.to)
    format_ = given.format or ("table" if given.to is None or given.verb in _ONE_FILE else "parquet")
    command = Command(
        verb=given.verb,
        paths=paths,
        broker=broker,
        # What has no name of its own cannot have one beside it.
        to=to if to is None or to.name not in ("", "..") else to.resolve(),
        to_uri=to_uri,
        format=format_,
        groups=tuple(given.group),
        topics=tuple(given.topic),
        since=_moment("--since", given.since, now),
        until=_moment("--until", given.until, now),
        at=_moment("--at", given.at, now),
        every_ms=_span("--every", given.every or "1m"),
        every_given=given.every is not None,
        lasting_ms=_span("--for", given.lasting or "10m"),
        retention_ms=_span("--offsets-retention", given.offsets_retention or "7d"),
        exact=given.exact,
        now=given.now,
        transactions=given.transactions,
        on_corrupt=given.on_corrupt,
        strict=given.strict,
        dedupe_replicas=given.dedupe_replicas,
        include_observers=given.include_observers,
        limit=given.limit,
        overwrite=given.overwrite,
        master=given.master,
        jars=tuple(jar for jar in given.jars.split(",") if jar),
        py_files=_files("--py-files", given.py_files),
        conf=tuple(_setting(text) for text in given.conf),
        archive_classes=given.archive_classes,
        execute=given.execute,
        bootstrap=given.bootstrap or broker,
        client=() if given.command_config is None else tuple(read_settings(given.command_config).items()),
        file_system=tuple(file_system.items()),
        stream=given.stream,
        once=given.once,
        trigger_ms=_span("--trigger", given.trigger or "10s"),
        checkpoint=None if given.checkpoint is None else place_of("--checkpoint", given.checkpoint),
        watermark_ms=_span("--watermark", given.watermark or "10m"),
        as_group=given.as_group,
        max_offsets=given.max_offsets,
        on_loss=given.on_loss or "error",
        by_date=given.by_date,
        compact=given.compact,
        asked_at=now,
    )
    _check(command)
    # A stream may wait for the first group.
    if not has_groups and not command.stream:
        raise UsageError(NO_GROUPS.format(paths=",".join(paths)))
    return command


def parse_moment(text: str, now: datetime) -> datetime:
    """A moment with a zone, of ISO 8601, epoch milliseconds, or a span ago. Raises: ValueError, UsageError."""
    ago = _AGO.fullmatch(text)
    if ago:
        return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    if re.fullmatch(r"\d{9,11}", text):
        # As milliseconds a day in the early seventies, when there was no Kafka.
        raise UsageError(f"{text} looks like seconds; epoch moments are milliseconds: {text}000")
    if re.fullmatch(r"\d{12,}", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _with_ago(words: list[str]) -> list[str]:
    """`--since -2h` as `--since=-2h`: argparse takes a word that begins with `-` for an option."""
    joined: list[str] = []
    for word in words:
        if _ANY_AGO.fullmatch(word) and joined and joined[-1] in ("--since", "--until", "--at"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


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


def _is_elsewhere(given: argparse.Namespace) -> bool:
    """Whether --to is a place that is written to through Hadoop."""
    local = local_path(given.to) is not None or given.to.startswith("file:")
    return not local and not given.stream


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise UsageError(f"--conf {text}: it takes spark.KEY=VALUE")
    return key, value


def _files(option: str, text: str) -> tuple[str, ...]:
    files = tuple(file for file in text.split(",") if file)
    for file in files:
        place = local_path(file)
        if place is not None and not Path(place).exists():
            raise UsageError(f"{option} {file} does not exist")
    return files


def _moment(option: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_moment(text, now)
    except UsageError as error:
        raise UsageError(f"{option} {error}") from None
    except (ValueError, OverflowError, OSError):  # OSError: of the C library, beyond its calendar
        raise UsageError(
            f"{option} {text}: a moment is ISO 8601 (2026-03-01T12:00:00Z), epoch milliseconds, or -2h"
        ) from None


def _span(option: str, text: str) -> int:
    try:
        found = span_ms(text)
    except ValueError:
        raise UsageError(f"{option} {text}: a span is 30s, 10m, 1h or 7d") from None
    if found > _LONGEST_MS:
        raise UsageError(f"{option} {text}: at most a hundred years")
    return found


def _check_heeded(given: argparse.Namespace) -> None:
    """Raises UsageError for an option that the verb does not heed."""
    verb = given.verb
    named = {name for name, value in vars(given).items() if value not in (None, False, [])}
    for name, verbs in _OWN.items():
        if name in named and verb not in verbs:
            raise UsageError(f"{verb} takes no {_flag(name)}; {_flag(name)} is for {_listed(verbs)}")
    for name in _STREAM_ONLY:
        if name in named and not given.stream:
            raise UsageError(f"{_flag(name)} is for --stream")
    for name in (*_NOT_STREAMED, *(() if verb == "lag" else ("since",))):
        if name in named and given.stream:
            raise UsageError(f"--stream takes no {_flag(name)}")
    if given.now and {"since", "until"} & named:
        raise UsageError("--now is this moment; it takes neither --since nor --until")


def _flag(name: str) -> str:
    return "--for" if name == "lasting" else "--" + name.replace("_", "-")


def _listed(words: tuple[str, ...]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _check(command: Command) -> None:
    """Raises UsageError for what cannot be together."""
    verb = command.verb
    if verb == "restore" and command.at is None:
        raise UsageError("restore needs --at T, the moment to look at")
    if command.since is not None and command.until is not None and command.since >= command.until:
        raise UsageError("--since is not before --until")
    if command.format == "parquet" and not command.has_target:
        raise UsageError("--format parquet needs --to PATH")
    if command.format != "parquet" and (command.by_date or command.compact is not None):
        raise UsageError("--by-date and --compact are for tables in parquet, with --to")
    if command.format == "table" and command.has_target and verb not in _ONE_FILE:
        raise UsageError("--format table is for the screen; with --to choose parquet, json or csv")
    if command.format != "table" and verb in _ONE_FILE:
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
    _check_places(command)


def _check_places(command: Command) -> None:
    """Raises UsageError for a place that cannot or must not be written to."""
    if command.to_uri is not None:
        check_remote_target("--to", command.to_uri, command.paths)
    to = command.to
    if to is not None:
        one_file = command.verb in _ONE_FILE
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
    if command.to is None or command.checkpoint is None:
        raise UsageError("--stream needs --to PATH and --checkpoint DIR")
    if command.as_group is not None and command.bootstrap is None:
        raise UsageError("--as-group needs --bootstrap HOST:PORT, the broker to commit to")
