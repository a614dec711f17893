"""Format `kohort-log`: segment files of Kohort or Apache Kafka as a Spark data source, for batch and streaming reads.

    spark.read.format("kohort-log").option("path", "/var/lib/kafka/data").option("topic", "orders").load()

docs/pipeline.md lists options and columns. The driver lists directories and makes a plan; each task reads byte ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from pipeline.decode.schemas import ddl
from pipeline.errors import UsageError
from pipeline.sources import plan
from pipeline.sources.log_stream import LogStreamReader
from pipeline.sources.log_task import Task
from pipeline.sources.options import Options, parse
from pipeline.sources.plan import Narrowing
from pipeline.sources.pushdown import narrow
from pipeline.sources.read import read_splits, schema_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


class KohortLog(DataSource):
    """The data source; see the module."""

    @classmethod
    def name(cls) -> str:
        """What follows `format(`."""
        return "kohort-log"

    def schema(self) -> str:
        """The columns, in Spark's words; depends on the options. Raises: UsageError."""
        return ddl(schema_of(parse(self.options)))

    def reader(self, schema: StructType) -> LogReader:
        """For `spark.read`."""
        return LogReader(parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """For `spark.readStream`. Raises: UsageError."""
        options = parse(self.options)
        if options.records == "problems":
            raise UsageError(f"records={options.records} cannot be streamed")
        return LogStreamReader(options)


class Narrowed(Protocol):
    """A reader that keeps what filters leave."""

    options: Options
    narrowing: Narrowing


class PushFilters:
    """Takes what spares reading from a query's filters; all of them are handed back, so Spark filters the rows.

    Spark refuses a reader that has the method `pushFilters` where pushdown is off, which is the default. It looks at
    the function behind the method; with the base class's there, a reader works both ways.
    """

    def __init__(self, reader: Narrowed) -> None:
        self.reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Called only where pushdown is on."""
        self.reader.narrowing = narrow(filters, self.reader.options.records)
        return filters


class LogReader(DataSourceReader):
    """A batch read: planned once, when the query is."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.narrowing = Narrowing()
        # An attribute, and one that passes for the base class's method: see `PushFilters`.
        self.pushFilters = PushFilters(self)  # type: ignore[method-assign]  # on purpose

    def partitions(self) -> Sequence[InputPartition]:
        """One per task. Raises: UsageError, DataError."""
        return [Task(splits) for splits in plan.plan(self.options, self.narrowing)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task, as Arrow record batches."""
        if not isinstance(partition, Task):
            return iter(())  # Spark's stand-in for a plan without tasks: all logs are empty.
        return read_splits(partition.splits, self.options)
