"""What a task of `kohort-log` is told to read, in batches and in streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.sources.plan import Split


class Task(InputPartition):
    """The splits of one task."""

    def __init__(self, splits: Sequence[Split]) -> None:
        super().__init__(0)
        self.splits = list(splits)
