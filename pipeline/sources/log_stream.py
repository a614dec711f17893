"""The streaming reader of `kohort-log`: segment files that grow, roll and are cleaned while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from pipeline.errors import DataError
from pipeline.sources import plan
from pipeline.sources.log_dir import Partition
from pipeline.sources.log_task import Task
from pipeline.sources.read import read_splits
from pipeline.sources.segments import steps
from pipeline.sources.stream import Position, StreamReader


def name_of(partition: Partition) -> str:
    """The partition's name in a position."""
    return f"{partition.topic}-{partition.number}"


class LogStreamReader(StreamReader):
    """A batch ends in front of a record batch that is not whole, or whose CRC is wrong: it is still being written."""

    def _partitions(self) -> dict[str, Partition]:
        found: dict[str, Partition] = {}
        for partition in plan.choose(self.options):
            name = name_of(partition)
            if name in found:
                raise DataError(
                    f"{name} lies in {found[name].directory} and in {partition.directory}: "
                    "a stream needs one, or dedupeReplicas=true"
                )
            found[name] = partition
        return found

    def bounds(self) -> dict[str, tuple[int, int]]:
        """See `StreamReader`."""
        ends = {}
        for name, partition in self._partitions().items():
            found = plan.range_of(partition, self.options, start_offset=0, check_last_crc=True)
            ends[name] = (partition.log_start_offset, min(found.end_offset, found.end.next_offset))
        return ends

    def first(self) -> Position:
        """See `StreamReader`."""
        return {
            name: plan.range_of(partition, self.options, check_last_crc=True).start_offset
            for name, partition in self._partitions().items()
        }

    def round_up(self, name: str, start: int, target: int) -> int:
        """See `StreamReader`."""
        partition = self._partitions()[name]
        for segment in partition.segments:
            if segment.next_offset is not None and segment.next_offset < target:
                continue
            for step in steps(segment.path, plan.position_of(segment, target - 1), None, segment.files):
                if step.last_offset >= target - 1:
                    return step.last_offset + 1
        return target

    def tasks(self, ranges: dict[str, tuple[int, int]]) -> Sequence[InputPartition]:
        """See `StreamReader`."""
        splits: list[plan.Split] = []
        for name, partition in self._partitions().items():
            if name in ranges:
                start, end = ranges[name]
                found = plan.range_of(partition, self.options, start_offset=start, end_offset=end, check_last_crc=True)
                splits += plan.split(found, self.options)
        return [Task(task) for task in plan.pack(splits, self.options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """See `StreamReader`."""
        assert isinstance(partition, Task), f"no task of this source: {partition!r}"
        return read_splits(partition.splits, self.options)
