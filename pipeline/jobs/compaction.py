"""A streamed table's many small batches made one, between two runs; what a run may do again is left alone.

The merged rows lie in `_merged=N`, which readers do not see, until the batches up to N are gone; then they are
`batch=N`. A run that was killed in between is finished by the next.
"""

from __future__ import annotations

import shutil
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from pipeline.jobs.output import save

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def compact(spark: SparkSession, folder: Path, most: int, date: str | None) -> int:
    """Merge batches where there are more than `most`; returns how many. `date`: as in `output.save`.

    The last one stays: Spark may run it again. No query may be writing there.
    """
    for merged in sorted(folder.glob("_merged=*")):
        if merged.suffix == ".partial":
            shutil.rmtree(merged)
        else:
            _finish(folder, merged)
    numbers = _numbers(folder)
    if len(numbers) <= most:
        return 0
    old = numbers[:-1]
    merged = folder / f"_merged={old[-1]}"
    partial = merged.with_suffix(".partial")
    # One by one: together their days would be folders that contradict one another.
    batches = [spark.read.parquet(str(folder / f"batch={number}")) for number in old]
    rows = reduce(DataFrame.unionByName, [batch.drop("date") if date is not None else batch for batch in batches])
    save(rows.coalesce(1), "parquet", str(partial), date)
    partial.rename(merged)
    _finish(folder, merged)
    return len(old)


def _finish(folder: Path, merged: Path) -> None:
    last = int(merged.name.partition("=")[2])
    for number in _numbers(folder):
        if number <= last:
            shutil.rmtree(folder / f"batch={number}")
    merged.rename(folder / f"batch={last}")


def _numbers(folder: Path) -> list[int]:
    return sorted(int(place.name.partition("=")[2]) for place in folder.glob("batch=*"))
