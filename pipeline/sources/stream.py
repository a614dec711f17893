"""The streaming reader that files and live brokers share: positions, admission, what data loss means.

A position is flat, `{"<topic>-<partition>": next offset, ...}`: Spark stores it as JSON whose values must be plain. A
partition that appears later starts at its log start. The end of a batch is where a partition's last complete record
batch ended when it was asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from coordinator.why.terms import plural
from pipeline.errors import DataError
from pipeline.sources.admission import admit
from pipeline.sources.options import Options

Position = dict[str, int]
_GO_ON = "failOnDataLoss=false (--on-loss continue) goes on"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is the same for every source; below are the questions that each answers for itself."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.target: Position | None = None

    @abstractmethod
    def bounds(self) -> dict[str, tuple[int, int]]:
        """(log start, end) of every partition that was asked for. Raises: DataError."""

    @abstractmethod
    def first(self) -> Position:
        """Where `startingOffsets` begins. Raises: DataError."""

    @abstractmethod
    def round_up(self, name: str, start: int, target: int) -> int:
        """The end of the record batch that holds the offset before `target`."""

    @abstractmethod
    def tasks(self, ranges: dict[str, tuple[int, int]]) -> Sequence[InputPartition]:
        """What reads these offsets."""

    def initialOffset(self) -> Position:  # noqa: N802  Spark's name
        """Where a query without a checkpoint starts."""
        return self.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, or everything."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:  # noqa: N802
        """How far the next batch goes. Raises: DataError when records are gone that were still to be read."""
        bounds = self.bounds()
        self._check(start, bounds)
        ends = {name: end for name, (_, end) in bounds.items()}
        if self.target is not None:
            ends = {name: min(end, self.target[name]) for name, end in ends.items() if name in self.target}
        begins = {name: max(start.get(name, 0), bounds[name][0]) for name in ends}
        # A position never falls, and partitions that are not there any more keep theirs.
        latest = dict(start) | {name: max(ends[name], start.get(name, 0)) for name in ends}
        if not isinstance(limit, ReadMaxRows):
            return latest
        waiting = {name: max(latest[name] - begins[name], 0) for name in ends}
        for name, share in admit(waiting, limit.max_rows).items():
            if share < waiting[name]:
                end = (
                    self.round_up(name, begins[name], begins[name] + share) if share else start.get(name, begins[name])
                )
                latest[name] = min(max(end, start.get(name, 0)), latest[name])
        return latest

    def _check(self, start: Position, bounds: dict[str, tuple[int, int]]) -> None:
        for name, offset in start.items():
            if name not in bounds:
                if self.options.fail_on_data_loss:
                    raise DataError(f"{name} is gone, and the query had read it up to {offset}; {_GO_ON}")
                continue
            low, high = bounds[name]
            if offset > high:
                raise DataError(
                    f"{name} ends at {high}, but the query had read it up to {offset}: the log was truncated"
                )
            if offset < low and self.options.fail_on_data_loss:
                raise DataError(
                    f"{name} starts at {low}, but the query had read it only up to {offset}: "
                    f"{plural(low - offset, 'offset is', 'offsets are')} lost; {_GO_ON} at {low}"
                )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the target, beyond which this run never reads."""
        self.target = {name: end for name, (_, end) in self.bounds().items()}

    def reportLatestOffset(self) -> Position | None:  # noqa: N802
        """The ends as they are now, for the query's progress."""
        return {name: end for name, (_, end) in self.bounds().items()} or None

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        """The tasks of a batch; one that is run again reads the same offsets."""
        ranges = {name: (start.get(name, 0), offset) for name, offset in end.items() if offset > start.get(name, 0)}
        return self.tasks(ranges)

    @abstractmethod
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task, as Arrow record batches."""

    def commit(self, end: Position) -> None:
        """Nothing: the position lies in Spark's checkpoint. `group_commit` shows it to the world."""
