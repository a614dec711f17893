"""What a streaming job remembers from one batch to the next, in the checkpoint: rows that later ones are seen against.

Batch N reads what batch N-1 kept and keeps its own, so a batch that is run again after a crash finds what it found the
first time. A rebalance is only seen between two records, and a lag needs the newest commit: such tables are made by the
same transformations as at rest, of what was kept and what is new.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


STATE_FOLDER = "carry"
"""Its name in the checkpoint, which earlier versions wrote too; `state`, beside it, is Spark's own."""


class StreamState:
    """A folder with one sub-folder a batch; the last two are there."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def load(self, batch: int) -> tuple[DataFrame | None, dict[str, int]]:
        """(rows, facts) that the batch before this one kept."""
        earlier = [number for number in self._batches() if number < batch]
        if not earlier:
            return None, {}
        place = self._folder / str(max(earlier))
        facts: dict[str, int] = json.loads((place / "facts.json").read_text())
        return self._spark.read.parquet(str(place / "rows")), facts

    def keep(self, rows: DataFrame, facts: dict[str, int], batch: int) -> None:
        """Keep rows and facts for the batch behind this one."""
        partial = self._folder / f"{batch}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        rows.write.parquet(str(partial / "rows"))
        (partial / "facts.json").write_text(json.dumps(facts))
        place = self._folder / str(batch)
        shutil.rmtree(place, ignore_errors=True)  # of a run that died before the batch was done
        partial.rename(place)
        for number in self._batches():
            # The one before may be wanted again: this batch is not in the checkpoint yet.
            if number < batch - 1:
                shutil.rmtree(self._folder / str(number), ignore_errors=True)

    def _batches(self) -> list[int]:
        if not self._folder.exists():
            return []
        return [int(place.name) for place in self._folder.iterdir() if place.name.isdigit()]
