"""What a verb reads: group records, batch headers, the ledger, and what directories or the broker know besides.

The same for a directory and a live broker. Everything is read at most once: records that several tables need are kept
(in memory, then on disk) for as long as the `with` lasts.
"""

from __future__ import annotations

import fnmatch
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation
from pyspark.storagelevel import StorageLevel

from coordinator.why.terms import plural
from pipeline import decode
from pipeline.command import NO_GROUPS
from pipeline.decode import schemas
from pipeline.errors import UsageError
from pipeline.sources import log_ends, log_growth, plan
from pipeline.sources.fetch_client import TopicNames, denied
from pipeline.sources.log_dir import GROUPS_TOPIC, Partition, clusters_of, is_there
from pipeline.sources.options import parse
from pipeline.transformations.keys import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from pyspark.sql import Column, DataFrame, SparkSession

    from pipeline.command import Command

LEDGER_TOPIC = "__kohort_rebalances"
OBSERVERS = "^spark-kafka-(source|relation)-"
"""Groups that Spark's own connector makes up in order to read."""
_PROBLEMS_SHOWN = 5


class Counts(NamedTuple):
    """Records of `__consumer_offsets` that were read, and those that could not be decoded."""

    read: int
    undecoded: int


class Inputs:
    """The frames of one run."""

    def __init__(self, spark: SparkSession, command: Command) -> None:
        self.spark = spark
        self.command = command
        self._kept: list[DataFrame] = []
        self._whole: DataFrame | None = None
        self._counted: Counts | None = None
        self._observation: Observation | None = None
        self._sources: list[tuple[str, str]] = []  # (topic, records) that were read, for the skipped batches
        self._partitions: list[Partition] | None = None
        self._denied: set[str] = set()  # topics that would have been looked into, and that the broker lets nobody see

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for frame in self._kept:
            frame.unpersist()

    # Group records.

    def records(self, *, uncommitted: bool = False) -> DataFrame:
        """Group records that are asked for, kept: for verbs that look at them several times."""
        return self._chosen(self.all_records(uncommitted=uncommitted))

    def all_records(self, *, uncommitted: bool = False) -> DataFrame:
        """Group records of all groups, kept."""
        if self._whole is None:
            self._whole = self.keep(self._read_records(uncommitted=uncommitted))
            counts = self._whole.agg(F.count(F.lit(1)).alias("n"), F.count_if(F.col("problem").isNotNull()).alias("p"))
            row = counts.first()
            assert row is not None
            self._counted = Counts(row.n, row.p)
        return self._whole

    def records_once(self) -> DataFrame:
        """Group records that are asked for, for a verb that looks at them once: nothing is kept if they go to files."""
        if not self.command.has_target:
            # Rows that are fetched one by one are counted by nobody.
            return self.records()
        self._observation = Observation("records")
        whole = self._read_records(pruned=True).observe(
            self._observation,
            F.count(F.lit(1)).alias("read"),
            F.count_if(F.col("problem").isNotNull()).alias("undecoded"),
        )
        return self._chosen(whole)

    def sourced_records(self) -> DataFrame:
        """Group records that are asked for, of open and aborted transactions too, with the columns `GROUP_SOURCE`."""
        return self._chosen(self._read_records(uncommitted=True, pruned=True, sourced=True))

    def keep(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once."""
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def _read_records(self, *, uncommitted: bool = False, pruned: bool = False, sourced: bool = False) -> DataFrame:
        options = {"records": "group", "topic": GROUPS_TOPIC}
        if uncommitted:
            options["isolationLevel"] = "read_uncommitted"
        if pruned:
            options |= self._time_range()
        if self.command.broker is None and not any(part.topic == GROUPS_TOPIC for part in self.partitions()):
            raise UsageError(NO_GROUPS.format(paths=",".join(self.command.paths)))
        doubled = self._doubled(GROUPS_TOPIC)
        if doubled or sourced:
            options["includeSource"] = "true"
        rows = self._read(options)
        if not doubled:
            return rows
        rows = self._up_to_agreed(rows.withColumn("log", F.lit(GROUPS_TOPIC)), ("log", "log_partition"), "log_offset")
        return decode.dedupe(rows).drop("log", *(() if sourced else schemas.GROUP_SOURCE.names))

    def _chosen(self, rows: DataFrame) -> DataFrame:
        command = self.command
        if not command.include_observers:
            rows = rows.where(~F.coalesce(F.col("group_id").rlike(OBSERVERS), F.lit(False)))
        if command.groups:
            rows = rows.where(matches("group_id", command.groups))
        if command.until is not None and command.verb != "lag":
            rows = rows.where(F.col("logged_at") < moment(command.until))
        return rows

    # Other topics.

    def batches(self, topics: Sequence[str]) -> DataFrame:
        """Batch headers of these topics; an empty frame for none."""
        rows = self._read_topics(topics, records="batch")
        if not any(self._doubled(topic) for topic in topics):
            return rows
        keys = ["topic", "partition", "base_offset", "last_offset"]
        return self._up_to_agreed(rows.dropDuplicates(keys), ("topic", "partition"), "last_offset")

    def growth(self, topics: Sequence[str], moments_ms: Sequence[int]) -> DataFrame:
        """How topics grew between moments, in the columns of batches that lag is made of.

        Of a broker's topics nothing is read for it, of a directory's what lies around the moments; but the headers of
        those whose records are stamped in the future, and of those that are read sooner whole.
        """
        columns = ["topic", "partition", "base_offset", "last_offset", "base_timestamp", "max_timestamp"]
        found, untold = self._growth(topics, moments_ms) if topics else ([], set())
        rows = self.spark.createDataFrame(
            list(found),
            "topic string, partition int, base_offset bigint, last_offset bigint, base_ms bigint, max_ms bigint",
        )
        grown = rows.select(
            *columns[:4], *[F.timestamp_millis(f"{name}_ms").alias(f"{name}_timestamp") for name in ("base", "max")]
        )
        return grown.unionByName(self.batches(sorted(untold)).select(*columns)) if untold else grown

    def _growth(self, topics: Sequence[str], moments_ms: Sequence[int]) -> tuple[list[log_ends.Grown], set[str]]:
        if self.command.broker is not None:
            return log_ends.growth(self.command.access, topics, moments_ms)
        doubled = {topic for topic in topics if self._doubled(topic)}
        wanted = set(topics) - doubled
        found, untold = log_growth.growth([part for part in self.partitions() if part.topic in wanted], moments_ms)
        return found, untold | doubled

    def newest_ms(self, topics: Sequence[str]) -> int:
        """The moment of the newest record of a directory's topics, or a later one."""
        return log_growth.newest_ms(part for part in self.partitions() if part.topic in topics)

    def raw(self, topics: Sequence[str]) -> DataFrame:
        """Records of these topics with their timestamps; an empty frame for none."""
        return self._read_topics(topics, records="raw").select("topic", "partition", "offset", "timestamp")

    def ledger(self) -> DataFrame | None:
        """Events of the rebalance ledger; None when there is none, or none may be seen."""
        if not self.has_ledger():
            return None
        events = decode.ledger_events(self._read({"topic": LEDGER_TOPIC}))
        events = decode.dedupe(events) if self._doubled(LEDGER_TOPIC) else events
        ours = self.cluster_ids()
        if ours:  # in a mirrored topic lie those of another cluster's Kohort; older ones do not say whose they are
            theirs = F.get_json_object("event", "$.cluster_id")
            events = events.where(F.coalesce(theirs.isin(sorted(ours)), F.lit(True)))
        if self.command.until is not None:
            events = events.where(F.coalesce("at", "logged_at") < moment(self.command.until))
        return events.where(matches("group_id", self.command.groups)) if self.command.groups else events

    def has_ledger(self) -> bool:
        """Whether there is a rebalance ledger, as far as may be seen."""
        there = self.topics()
        self._denied |= {LEDGER_TOPIC} & there.denied
        return LEDGER_TOPIC in there.seen

    def _read_topics(self, topics: Sequence[str], *, records: str) -> DataFrame:
        seen = self.topics().seen if topics else frozenset()
        there = [topic for topic in topics if topic in seen]
        if there:
            return self._read({"records": records, "topic": ",".join(there)})
        columns = schemas.ddl(schemas.BATCHES if records == "batch" else schemas.RAW)
        return self.spark.createDataFrame([], columns)

    def _read(self, options: dict[str, str]) -> DataFrame:
        self._sources.append((options["topic"], options.get("records", "raw")))
        reader = self.spark.read.format(self.format)
        return reader.options(**self.where, onCorrupt=self.command.on_corrupt, **options).load()

    @property
    def format(self) -> str:
        """The data source."""
        return "kohort-log" if self.command.broker is None else "kohort-kafka"

    @property
    def where(self) -> dict[str, str]:
        """The options that say where to read."""
        if self.command.broker is not None:
            return {"bootstrap": self.command.broker, **{f"kafka.{key}": text for key, text in self.command.client}}
        more = {"dedupeReplicas": "true"} if self.command.dedupe_replicas else {}
        return {
            "path": ",".join(self.command.paths),
            **more,
            **{f"fs.{key}": text for key, text in self.command.file_system},
        }

    def _time_range(self) -> dict[str, str]:
        bounds = {"startingTimestamp": self.command.since, "endingTimestamp": self.command.until}
        return {name: str(round(at.timestamp() * 1000)) for name, at in bounds.items() if at is not None}

    # What is known besides records.

    def partitions(self) -> list[Partition]:
        """The partitions in the directories."""
        if self._partitions is None:
            self._partitions = plan.choose(parse(self.where))
        return self._partitions

    def topics(self, also: Iterable[str] = ()) -> TopicNames:
        """All topics that are there, internal ones too; and which of those and `also` a broker lets nobody see."""
        if self.command.broker is None:
            return TopicNames(frozenset(partition.topic for partition in self.partitions()), frozenset())
        from pipeline.sources import cluster  # noqa: PLC0415

        return cluster.topics(self.command.access, also=(LEDGER_TOPIC, GROUPS_TOPIC, *also))

    def committed_topics(self, commits: DataFrame) -> list[str]:
        """The topics of these commits that are asked for and there."""
        chosen = commits.select("topic").distinct()
        if self.command.topics:
            chosen = chosen.where(matches("topic", self.command.topics))
        names = {row.topic for row in chosen.where("topic IS NOT NULL").collect()}
        there = self.topics(names)
        self._denied |= names & there.denied
        return sorted(names & there.seen)

    def bounds(self, topics: Iterable[str]) -> DataFrame:
        """(topic, partition, log_start_offset, log_end_offset) of these topics."""
        wanted = set(topics)
        if self.command.broker is not None:
            from pipeline.sources import cluster  # noqa: PLC0415

            rows = cluster.bounds(self.command.access, wanted)
        else:
            copies = self._copies()
            rows = [(*place, *plan.agreed(copies[place])) for place in sorted(copies) if place[0] in wanted]
        columns = "topic string, partition int, log_start_offset bigint, log_end_offset bigint"
        return self.spark.createDataFrame(rows, columns)

    def cleaning(self) -> DataFrame | None:
        """(log_partition, first_dirty_offset, log_start_offset) of `__consumer_offsets`; None where nobody knows."""
        if self.command.broker is not None:
            return None
        rows = [
            (number, _least_cleaned(parts), max(part.log_start_offset for part in parts))
            for (topic, number), parts in self._copies().items()
            if topic == GROUPS_TOPIC
        ]
        columns = "log_partition int, first_dirty_offset bigint, log_start_offset bigint"
        return self.spark.createDataFrame(rows, columns)

    def compacted(self) -> DataFrame | None:
        """(log_partition, first_dirty_offset): how far compaction has come; what was never compacted is at its start.

        The cleaner's checkpoint of a log directory has an entry for each partition that it ever went through. For a
        partition's folder alone, without the directory that it was in, nobody knows.
        """
        if self.command.broker is not None:
            return None
        rows = []
        for (topic, number), parts in self._copies().items():
            dirty = _least_cleaned(parts)
            whole = any(_lies_in_a_log_directory(part) for part in parts)
            if topic == GROUPS_TOPIC and (dirty is not None or whole):
                start = max(part.log_start_offset for part in parts)
                rows.append((number, start if dirty is None else dirty))
        return self.spark.createDataFrame(rows, "log_partition int, first_dirty_offset bigint")

    def topic_ids(self) -> DataFrame:
        """(topic_id, topic) of what lies there now."""
        if self.command.broker is not None:
            from pipeline.sources import cluster  # noqa: PLC0415

            rows = cluster.topic_ids(self.command.access)
        else:
            rows = sorted({(part.topic_id, part.topic) for part in self.partitions() if part.topic_id})
        return self.spark.createDataFrame(rows, "topic_id string, topic string")

    def cluster_ids(self) -> frozenset[str]:
        """The clusters that are read; empty where some directory does not say."""
        if self.command.broker is not None:
            from pipeline.sources import cluster  # noqa: PLC0415

            return cluster.cluster_ids(self.command.access)
        return clusters_of(self.partitions())

    def _copies(self) -> dict[tuple[str, int], list[Partition]]:
        """The copies of each partition in the directories: one, mostly."""
        found: dict[tuple[str, int], list[Partition]] = {}
        for part in self.partitions():
            found.setdefault(part.key, []).append(part)
        return found

    def _up_to_agreed(self, rows: DataFrame, place: tuple[str, str], last: str) -> DataFrame:
        """Without what lies in one copy and is behind what the cluster agreed on: it may be taken back."""
        ends = [(*key, plan.agreed(parts)[1]) for key, parts in self._copies().items() if len(parts) > 1]
        topic, partition = place
        agreed = self.spark.createDataFrame(ends, f"{topic} string, {partition} int, agreed_end bigint")
        known = rows.join(F.broadcast(agreed), [topic, partition], "left")
        within = F.coalesce(F.col(last) < F.col("agreed_end"), F.lit(True))
        return known.where(within).select(*rows.columns)

    def _doubled(self, topic: str) -> bool:
        if self.command.broker is not None or len(self.command.paths) < 2:
            return False
        return any(key[0] == topic for key in plan.overlapping(self.partitions()))

    # What is said at the end.

    def counts(self) -> Counts | None:
        """Of the records that were read; None when Spark did not need to look at them all."""
        if self._counted is None and self._observation is not None:
            found: dict[str, Any] = {}
            observation = self._observation
            # get() waits for ever where an optimizer found that nothing need be read.
            waiting = threading.Thread(target=lambda: found.update(observation.get), daemon=True)
            waiting.start()
            waiting.join(60)
            if found:
                self._counted = Counts(found["read"], found["undecoded"])
        return self._counted

    def undecoded_lines(self) -> list[str]:
        """How many records were undecoded, and the first five."""
        counts = self.counts()
        if counts is None or not counts.undecoded:
            return []
        rows = self._whole if self._whole is not None else self._read_records(pruned=True)
        bad = rows.where("problem IS NOT NULL").orderBy("log_partition", "log_offset").limit(_PROBLEMS_SHOWN)
        lines = [f"{counts.undecoded:,} of {plural(counts.read, 'record')} undecoded"]
        for row in bad.collect():
            lines.append(f"  {GROUPS_TOPIC}-{row.log_partition} offset {row.log_offset}: {row.problem}")
        return lines

    def skipped(self) -> list[str]:
        """A line for each batch that was left out, with `--on-corrupt skip`."""
        if self.command.on_corrupt != "skip":
            return []
        lines = set()
        for topic in {topic for topic, _ in self._sources}:
            options = {"records": "problems", "topic": topic, "onCorrupt": "skip"}
            rows = self.spark.read.format(self.format).options(**self.where, **options).load()
            for row in rows.where("kind = 'skipped'").collect():
                last = "the end" if row.last_offset is None else row.last_offset
                lines.add(
                    f"skipped: {row.topic}-{row.partition} offsets {row.first_offset}-{last}, "
                    f"{row.file} at {row.position}: {row.reason}"
                )
        return sorted(lines)

    def left_out(self) -> list[str]:
        """A line for each topic that lag is not told of, for the broker denies it to be seen."""
        at = str(self.command.broker)
        names = sorted(self._denied - {LEDGER_TOPIC})
        return [f"left out: the log ends and the lag of {name}: {denied(at, 'DESCRIBE', name)}" for name in names]

    def learn_denied(self, now: Inputs) -> list[str]:
        """What was denied to the inputs of a stream's batch and was not yet told, in lines; it counts for these too."""
        if now._denied <= self._denied:
            return []
        self._denied |= now._denied
        return [*now.left_out(), *now.notices()]

    def notices(self) -> list[str]:
        """Half-written tails of the logs that were read: normal where a broker was killed. Of a broker, that nobody may
        know whether there is a ledger: Kafka has none, and answers the same."""
        if self.command.broker is not None:
            if LEDGER_TOPIC not in self._denied:
                return []
            why = denied(self.command.broker, "DESCRIBE", LEDGER_TOPIC)
            return [f"notice: what a rebalance ledger would tell is left out: {why}, if there is one"]
        read = {name for topic, _ in self._sources for name in topic.split(",")}
        lines = []
        for part in self.partitions():
            if part.topic in read and part.segments:
                end = plan.end_of(part)
                if end.torn_bytes:
                    lines.append(
                        f"notice: {part.segments[-1].path} ends with {plural(end.torn_bytes, 'byte')} of an "
                        f"unfinished batch; read up to offset {end.next_offset}"
                    )
        return lines


def _lies_in_a_log_directory(partition: Partition) -> bool:
    above, _, _ = partition.directory.rpartition("/")
    return is_there(partition.files, f"{above or '.'}/meta.properties")


def _least_cleaned(copies: Sequence[Partition]) -> int | None:
    """The first offset from which no record is missing in one of the copies, read together; None: nowhere known."""
    found = [part.first_dirty_offset for part in copies]
    return None if None in found else min(offset for offset in found if offset is not None)


def matches(column: str, globs: Iterable[str]) -> Column:
    """Whether a column matches one of the globs; null does not."""
    patterns = "|".join(fnmatch.translate(glob) for glob in globs)
    # Python ends a pattern with \Z, which Java's regular expressions read as "before a last newline".
    return F.coalesce(F.col(column).rlike("^(?:" + patterns.replace("\\Z", "\\z") + ")"), F.lit(False))
