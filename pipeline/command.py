"""A command of `kohort pipeline`, as a value, and the options that say its fields."""

# ruff: noqa: RUF009  an option makes a field, as `dataclasses.field` does
from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pipeline import options as values
from pipeline.errors import UsageError
from pipeline.options import option, options_of
from pipeline.session import LOCAL
from pipeline.sources.access import Access, access, read_settings

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
_OFFSETS = "__consumer_offsets once, whole"
_NEWER = "__consumer_offsets once; with --since from the first segment that is new enough"
READS = {
    "commits": _NEWER,
    "commits --transactions": "twice more, whole",
    "generations": _OFFSETS,
    "rebalances": f"{_OFFSETS}, and the rebalance ledger, where there is one",
    "membership": _OFFSETS,
    "lag": f"{_OFFSETS}; of the topics that groups commit a broker is asked for log ends by time, about 100 bytes for "
    "each partition and grid point at which it had grown: no record is sent; from a directory their time indexes, and "
    "64 KiB around each grid point, or the segments whole, for the headers of the batches, where that is less",
    "lag --now": "from a broker two log ends of each partition; from a directory as for one grid point",
    "lag --exact": "the records of those topics too, whole, also from a broker",
    "stuck": f"{_OFFSETS}, and the segments of the topics that groups commit, whole: a broker sends them whole",
    "resets": _OFFSETS,
    "growth": "__consumer_offsets twice, whole",
    "groups": f"{_OFFSETS}, and the rebalance ledger; of the topics that groups commit log ends only",
    "state": _OFFSETS,
    "restore": f"{_OFFSETS}; of the topics that groups commit log ends only",
    "report": f"{_OFFSETS}, and the rebalance ledger; of the topics that groups commit what lag asks of a broker; from "
    "a directory their segments whole, for the headers of the batches",
    "records": _NEWER,
}
"""What each verb reads, by verb or by verb and option: what --help says of its cost."""
NO_GROUPS = "--from {paths}: there is no __consumer_offsets-N folder in it; no consumer group was ever there, "
NO_GROUPS += "or its logs lie in another of the broker's log.dirs"
ONE_FILE = ("restore", "report")
STREAMED = ("commits", "rebalances", "lag", "growth", "groups", "stuck")
_UNTIL = tuple(verb for verb in VERBS if verb not in ("state", "restore"))
_ON_SCREEN = tuple(verb for verb in VERBS if verb not in ONE_FILE)
_SINCE = ("commits", "generations", "rebalances", "membership", "lag", "resets", "growth", "records", "report")
_TOPIC = ("commits", "membership", "lag", "stuck", "resets", "state", "restore", "records", "report")
_BY_DATE = ("commits", "generations", "rebalances", "membership", "lag", "stuck", "resets", "growth", "records")


def _format(text: str) -> str:
    if text == "iceberg":
        raise UsageError("--format iceberg: there is no Iceberg for Spark 4.2; parquet and delta are written")
    return text


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Moments have a zone; spans are ms. `broker` is None when `paths` are read; `little`: small ones."""

    verb: str
    paths: tuple[str, ...] = option(
        "--from", "log directories (a comma list, or given again), s3:// and the like among them; or a broker",
        "DIR|HOST:PORT", read=None, default=(), action="append", required=True,
    )  # fmt: skip
    broker: str | None = None
    to: Path | None = option(
        "--to", "where to write, without which the answer goes to standard output", "PATH|URI", read=None
    )
    to_uri: str | None = None
    format: str = option(
        "--format", "parquet (default with --to), json, csv, delta (Delta tables), or table (default on the screen)",
        read=None, default="table", choices=("parquet", "json", "csv", "delta", "table"), type=_format,
    )  # fmt: skip
    overwrite: bool = option("--overwrite", "replace what lies at --to")
    limit: int | None = option(
        "--limit", "rows on the screen (a table: 100)", "N", verbs=_ON_SCREEN, stream=False, type=int
    )
    groups: tuple[str, ...] = option(
        "--group", "only these groups; may be repeated", "GLOB", read=values.names, default=(), action="append"
    )
    topics: tuple[str, ...] = option(
        "--topic", "only these topics; may be repeated", "GLOB", read=values.names, verbs=_TOPIC, default=(),
        action="append",
    )  # fmt: skip
    since: datetime | None = option("--since", "from this moment on", "T", read=values.moment, verbs=_SINCE)
    until: datetime | None = option(
        "--until", "what was written before this moment", "T", read=values.moment, verbs=_UNTIL, stream=False
    )
    at: datetime | None = option(
        "--at", "state (now), restore: the moment", "T", read=values.moment, verbs=("state", "restore")
    )
    every_ms: int | None = option(
        "--every", "lag: the distance of grid points (1m); growth: of windows (1h)", "SPAN", read=values.span,
        verbs=("lag", "growth", "report"),
    )  # fmt: skip
    exact: bool = option(
        "--exact", "lag: read the oldest waiting record for its time, not only batch headers", verbs=("lag",),
        stream=False,
    )  # fmt: skip
    now: bool = option("--now", "lag: only how it is now", verbs=("lag",), stream=False)
    transactions: bool = option(
        "--transactions",
        "commits: a table of those that were written in transactions too, pending and aborted ones among them",
        verbs=("commits",), stream=False,
    )  # fmt: skip
    lasting_ms: int = option(
        "--for", "stuck: standing still for at least so long (10m)", "SPAN", read=values.span,
        verbs=("stuck", "report"), default=600_000,
    )  # fmt: skip
    retention_ms: int = option(
        "--offsets-retention", "groups: offsets.retention.minutes of the broker (7d)", "SPAN", read=values.span,
        verbs=("groups", "report"), default=7 * 86_400_000,
    )  # fmt: skip
    on_corrupt: str = option(
        "--on-corrupt", "what cannot be read: fail, or leave out and say", choices=("error", "skip"), default="error"
    )
    strict: bool = option("--strict", "exit with 1 when a record could not be decoded")
    dedupe_replicas: bool = option(
        "--dedupe-replicas", "several directories: of each partition the one that reaches furthest"
    )
    include_observers: bool = option(
        "--include-observers", "also the groups that Spark's own connector makes up to read"
    )
    master: str | None = option(
        "--master", f"Spark's master ({LOCAL}, or what spark-submit or spark-defaults.conf say)", "URL"
    )
    conf: tuple[tuple[str, str], ...] = option(
        "--conf", "a setting of Spark's; may be repeated", "KEY=VALUE", read=values.settings, default=(),
        action="append",
    )  # fmt: skip
    archive_classes: bool = option(
        "--archive-classes",
        "keep the classes that this run loads (in ~/.cache/kohort): later runs start seconds sooner",
    )
    jars: tuple[str, ...] = option("--jars", "jars for Spark", "PATH,..", read=values.comma_list, default=())
    py_files: tuple[str, ...] = option(
        "--py-files", ".py, .zip and .egg files for Spark's workers", "PATH,..", read=values.files, default=()
    )
    execute: bool = option(
        "--execute", "restore: commit the offsets to the group, which must have no members", verbs=("restore",)
    )
    bootstrap: str | None = option(
        "--bootstrap", "the broker for --execute and --as-group, when --from is a directory", "HOST:PORT", read=None
    )
    client: tuple[tuple[str, str], ...] = option(
        "--command-config",
        "how the broker is spoken to: settings of a client as Kafka's tools take them (TLS, SASL)",
        "FILE", read=lambda _flag, path, _now: tuple(read_settings(path).items()), default=(), repr=False,
    )  # fmt: skip
    file_system: tuple[tuple[str, str], ...] = option(
        "--fs-config",
        "how the file system of a remote directory is spoken to: access_key=..., endpoint_override=... in lines",
        "FILE", read=None, default=(), repr=False,
    )  # fmt: skip
    stream: bool = option("--stream", f"go on as the log grows: {', '.join(STREAMED)}; needs --to and --checkpoint")
    checkpoint: Path | None = option(
        "--checkpoint", "stream: where its position and state are kept", "DIR", read=values.place, stream=True
    )
    once: bool = option("--once", "stream: everything that is there now, then end (availableNow)", stream=True)
    trigger_ms: int = option(
        "--trigger", "stream: a batch every so often (10s)", "SPAN", read=values.span, stream=True, default=10_000
    )
    watermark_ms: int = option(
        "--watermark", "stream: how late a record may be (10m)", "SPAN", read=values.span, stream=True, default=600_000
    )
    as_group: str | None = option(
        "--as-group", "stream: commit each batch's end to this group, so that its lag is seen", "GROUP", stream=True
    )
    on_loss: str = option(
        "--on-loss", "stream: records or partitions gone that were to be read (error)",
        choices=("error", "continue"), stream=True, default="error",
    )  # fmt: skip
    by_date: bool = option(
        "--by-date", "parquet and delta with --to: a folder for each day, date=2026-03-01", verbs=_BY_DATE
    )
    compact: int | None = option(
        "--compact", "stream: before it begins, make one of more than N batches (parquet)", "N", stream=True, type=int
    )
    max_offsets: int | None = option(
        "--max-offsets", "stream: about so many records in a batch", "N", stream=True, type=int
    )
    little: bool = False
    requested_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def has_target(self) -> bool:
        """Whether the answer goes to files, and not to the screen."""
        return self.to is not None or self.to_uri is not None

    @property
    def is_one_file(self) -> bool:
        """Whether the answer is a file, and not a folder of tables."""
        return self.verb in ONE_FILE

    @property
    def access(self) -> Access:
        """The cluster that is read, or that a directory's answer goes to. Raises: UsageError."""
        return access(self.broker or self.bootstrap or "", dict(self.client))

    @property
    def window_ms(self) -> int:
        """How long the windows of `growth` are: an hour unless --every says otherwise."""
        return 3_600_000 if self.every_ms is None else self.every_ms

    @property
    def step_ms(self) -> int:
        """How far apart the grid points of `lag` are: a minute unless --every says otherwise."""
        return 60_000 if self.every_ms is None else self.every_ms


OPTIONS = options_of(Command)
"""By the fields that they say."""
