"""`groups` and `stuck` as streams: they tell how things are, so each batch looks at the logs as the verbs do at rest.

A stream of records says when there is something to look at, and which groups may have changed. `__consumer_offsets` is
compacted, and is read whole for it; a partition that stands still shows in nothing but the growth of its topic.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as in all of Spark's documentation

from pipeline.jobs import groups, stuck
from pipeline.jobs.inputs import Inputs
from pipeline.jobs.stream_state import StreamState
from pipeline.transformations.keys import PAIR

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

_STOP = (*PAIR, "stuck_since")


def tell_groups(inputs: Inputs, write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Of each batch the rows of the groups that have records in it, as they are now."""

    def each(fresh: DataFrame, batch: int) -> None:
        changed = fresh.where("group_id IS NOT NULL").select("group_id").distinct()
        with _now(inputs) as now:
            write(groups.found(now).join(changed, "group_id", "left_semi"), batch)
            say_denied(inputs, now)

    return each


def tell_stuck(
    inputs: Inputs, write: Callable[[DataFrame, int], None], state_folder: Path
) -> Callable[[DataFrame, int], None]:
    """The rows of partitions that are stuck now and were not at the batch before, or got on in between."""
    state = StreamState(inputs.spark, state_folder)

    def each(_fresh: DataFrame, batch: int) -> None:
        told, _ = state.load(batch)
        with _now(inputs) as now:
            table = now.keep(stuck.found(now))
            write(table if told is None else table.join(told, list(_STOP), "left_anti"), batch)
            state.keep(table.select(*[F.col(name) for name in _STOP]), {}, batch)
            say_denied(inputs, now)

    return each


def say_denied(inputs: Inputs, now: Inputs) -> None:
    """Once, of each topic: what a batch, which looked with inputs of its own, was not let see."""
    for line in inputs.learn_denied(now):
        print(line, file=sys.stderr)


def _now(inputs: Inputs) -> Inputs:
    return Inputs(inputs.spark, replace(inputs.command, requested_at=datetime.now(UTC)))
