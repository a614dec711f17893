"""Format `kohort-kafka`: a live broker, Kohort or Apache Kafka, read with Fetch. Needs no jar, joins no group.

    spark.read.format("kohort-kafka").option("bootstrap", "localhost:9092").option("topic", "orders").load()

Sees internal topics, which Spark's own connector silently leaves out, and reads many partitions in one task. Options
and columns are those of `kohort-log`, where they make sense: docs/pipeline.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from pipeline.decode.schemas import ddl
from pipeline.errors import UsageError
from pipeline.sources.fetch_client import Leader
from pipeline.sources.fetch_read import LiveSplit, bounds, pack, ranges, read_live, wanted
from pipeline.sources.log_source import PushFilters
from pipeline.sources.options import KNOWN_TO_KAFKA, Options, parse
from pipeline.sources.plan import Narrowing
from pipeline.sources.read import schema_of
from pipeline.sources.stream import Position, StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class LiveTask(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: Sequence[LiveSplit]) -> None:
        super().__init__(0)
        self.splits = list(splits)


class KohortKafka(DataSource):
    """The data source; see the module."""

    @classmethod
    def name(cls) -> str:
        """What follows `format(`."""
        return "kohort-kafka"

    def _options(self) -> Options:
        return parse(self.options, KNOWN_TO_KAFKA)

    def schema(self) -> str:
        """The columns, in Spark's words; depends on the options. Raises: UsageError."""
        return ddl(schema_of(self._options()))

    def reader(self, schema: StructType) -> LiveReader:
        """For `spark.read`."""
        return LiveReader(self._options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """For `spark.readStream`. Raises: UsageError."""
        options = self._options()
        # A limit may end between the records of a batch, whose header would come with both halves.
        limited = options.records == "batch" and options.max_offsets_per_trigger is not None
        if options.records == "problems" or limited:
            raise UsageError(f"records={options.records} cannot be streamed")
        return LiveStreamReader(options)


class LiveReader(DataSourceReader):
    """A batch read up to what the end is when the query is planned."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.narrowing = Narrowing()
        self.pushFilters = PushFilters(self)  # type: ignore[method-assign]  # on purpose

    def partitions(self) -> Sequence[InputPartition]:
        """One per task. Raises: UsageError, DataError."""
        splits = ranges(self.options, self.narrowing)
        return [LiveTask(task) for task in pack(splits, self.options.split_offsets)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task, as Arrow record batches."""
        if not isinstance(partition, LiveTask):
            return iter(())  # Spark's stand-in for a plan without tasks: there is nothing to read.
        return read_live(partition.splits, self.options)


class LiveStreamReader(StreamReader):
    """A stream; a batch's end need not be that of a record batch, for a broker cuts where it is asked to."""

    def _leaders(self) -> dict[str, Leader]:
        return {f"{one.topic}-{one.partition}": one for one in wanted(self.options)}

    def bounds(self) -> dict[str, tuple[int, int]]:
        """See `StreamReader`."""
        found = self._leaders()
        known = bounds(self.options, list(found.values()))
        return {name: known[one.topic, one.partition] for name, one in found.items()}

    def first(self) -> Position:
        """See `StreamReader`."""
        starts = {name: low for name, (low, _) in self.bounds().items()}
        if self.options.starting_offsets == "latest":
            return {name: high for name, (_, high) in self.bounds().items()}
        return starts | {f"{one.leader.topic}-{one.leader.partition}": one.start_offset for one in ranges(self.options)}

    def round_up(self, name: str, start: int, target: int) -> int:
        """See `StreamReader`."""
        return target

    def tasks(self, ranges: dict[str, tuple[int, int]]) -> Sequence[InputPartition]:
        """See `StreamReader`."""
        found = self._leaders()
        splits = [LiveSplit(found[name], *ranges[name]) for name in sorted(ranges) if name in found]
        return [LiveTask(task) for task in pack(splits, self.options.split_offsets)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """See `StreamReader`."""
        assert isinstance(partition, LiveTask), f"no task of this source: {partition!r}"
        return read_live(partition.splits, self.options)
