"""The main job, end to end: real clients work and rebalance, the pipeline reads, both say the same.

`python -m tests.pipeline.main_job [PAGE.html]` (`make pipeline-demo`) starts a Kohort, has clients at work for twenty
seconds, reads its directory and the live broker, prints each comparison, and writes the report.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.clients import harness
from tests.pipeline.at_work import at_work
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
SETTINGS: Mapping[str, object] = {**QUICK_GROUPS, "num.partitions": 6, "offsets.topic.num.partitions": 5}
VERBS = ("state", "generations", "commits", "rebalances", "membership", "lag")


def rows_of(spark: SparkSession, source: str) -> dict[str, Rows]:
    """The tables of a directory or a broker (host:port), through the jobs of the command line, by verb."""
    import importlib

    from pipeline.command_line import read
    from pipeline.jobs.inputs import Inputs

    out: dict[str, Rows] = {}
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    for verb in VERBS:
        more = {"state": ["--at", soon], "lag": ["--now"]}.get(verb, [])
        with Inputs(spark, read([verb, "--from", source, *more])) as inputs:
            table = importlib.import_module(f"pipeline.jobs.{verb}").tables(inputs)[0]
            out[verb] = table.frame.toArrow().to_pylist()
    return out


def compare(said: Mapping[str, Any], tables: Mapping[str, Rows]) -> dict[str, tuple[Any, Any]]:
    """What the clients said and what the tables say, side by side, by question."""
    state: dict[str, dict[str, dict[str, int]]] = {}
    for row in tables["state"]:
        of_topic = state.setdefault(row["group_id"], {}).setdefault(row["topic"], {})
        of_topic[str(row["partition"])] = row["committed_offset"]
    told = {
        (group, generation, member): tuple(partitions)
        for group, entries in said["owners"].items()
        for generation, member, partitions in entries
    }
    owners = {
        (row["group_id"], row["generation"], member["member_id"]): tuple(
            sorted(part["partition"] for part in member["assigned"])
        )
        for row in tables["generations"]
        for member in row["members"]
        if member["assigned"] is not None
    }
    acknowledged = {(group, *pair) for group, pairs in said["acknowledged"].items() for pair in map(tuple, pairs)}
    commits = {(row["group_id"], row["partition"], row["committed_offset"]) for row in tables["commits"]}
    expected_lag = {
        (group, int(partition)): max(0, said["written"][partition] - offset)
        for group, topics in said["committed"].items()
        for partition, offset in topics.get("orders", {}).items()
    }
    lag = {(row["group_id"], row["partition"]): row["lag_messages"] for row in tables["lag"]}
    ends = {str(row["partition"]): row["log_end_offset"] for row in tables["lag"] if row["group_id"] in said["owners"]}
    reached = {(group, generation) for group, generation, _ in told}
    steps = {(row["group_id"], row["to_generation"]) for row in tables["rebalances"]}
    return {
        "offsets that groups have committed": (
            {group: topics for group, topics in said["committed"].items() if topics},
            state,
        ),
        "partitions that each member had in each generation": (told, {place: owners.get(place) for place in told}),
        "commits that members were told are kept, not found": (set(), acknowledged - commits),
        "messages that each group has still to read": (expected_lag, lag),
        "records in each partition": (said["written"], ends),
        "members that are told to own a partition twice": ([], _overlaps(tables["membership"])),
        "generations that members were told of, without a rebalance": (set(), reached - steps),
    }


def _overlaps(spans: Rows) -> Rows:
    """Spans of one partition that overlap in time."""
    wrong = []
    places: dict[tuple[str, str, int], Rows] = {}
    for row in spans:
        places.setdefault((row["group_id"], row["topic"], row["partition"]), []).append(row)
    for rows in places.values():
        rows.sort(key=lambda row: row["owned_from"])
        for earlier, later in pairwise(rows):
            if earlier["owned_to"] is None or earlier["owned_to"] > later["owned_from"]:
                wrong.append(later)
    return wrong


def have_work_done(broker: BrokerProcess, scratch: Path) -> dict[str, Any]:
    """Clients at work on a running broker; what they said."""
    spawner = harness.spawner(scratch, lambda _: "")
    try:
        return at_work(broker.address, next(spawner))
    finally:
        next(spawner, None)


def main() -> int:
    """Everything in one command; exit code 1 when a number differs."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    from pipeline.session import build, check_environment

    check_environment()
    scratch = Path(tempfile.mkdtemp(prefix="kohort-demo-"))
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "report.html")
    print("starting a broker; clients work for twenty seconds", flush=True)
    wrong = 0
    with Kohort(scratch / "broker", SETTINGS) as broker:
        said = have_work_done(broker, scratch)
        spark = build(master="local[2]", name="kohort pipeline demo")
        spark.sparkContext.setLogLevel("OFF")
        for source in (str(broker.data), broker.address):
            print(f"\nthe pipeline on {source}", flush=True)
            for question, (theirs, ours) in compare(said, rows_of(spark, source)).items():
                same = theirs == ours
                wrong += not same
                print(f"  {'same' if same else 'DIFFERENT'}: {question}", flush=True)
                if not same:
                    print(f"    clients:  {theirs}\n    pipeline: {ours}")
        from pipeline.command_line import read
        from pipeline.jobs import report
        from pipeline.jobs.inputs import Inputs

        began = time.monotonic()
        with Inputs(spark, read(["report", "--from", str(broker.data), "--to", str(page), "--overwrite"])) as inputs:
            groups = report.execute(inputs)
        print(f"\n{page}: {groups} groups, made in {time.monotonic() - began:.0f} s")
        spark.stop()
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
