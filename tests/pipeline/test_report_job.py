"""What the report leaves to Spark: a series that is too long is thinned before it is collected."""

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.command_line import read
from pipeline.jobs.inputs import Inputs
from pipeline.jobs.report import _thinned, _timeline, events_of, rows_of
from pipeline.report import POINTS_SHOWN
from tests.pipeline.logs import Log
from tests.pipeline.rows import NOON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_MS = 60_000


def test_a_long_series_keeps_its_peaks_and_its_gaps(spark: "SparkSession"):
    """20,000 minutes: at most 2,000 points, the spike, the trough, the hour nobody knows; a short series whole."""
    series = spark.range(20_000).selectExpr(
        "'long' AS group_id",
        f"timestamp_micros({int(NOON.timestamp()) * 1_000_000} + id * 60000000) AS at",
        "CASE WHEN id = 7777 THEN 99 WHEN id BETWEEN 5000 AND 5060 THEN NULL WHEN id = 12345 THEN 1 ELSE 5 END AS m",
    )
    short = series.where("m = 99 OR m = 1").selectExpr("'short' AS group_id", "at", "m")
    both = series.unionByName(short).selectExpr(
        "group_id", "at", "CAST(m AS bigint) AS lag_messages", "CAST(m AS double) / 2 AS lag_seconds"
    )

    rows = rows_of(_thinned(both, MINUTE_MS))

    long = [row for row in rows if row["group_id"] == "long"]
    assert len(long) <= POINTS_SHOWN
    assert long == sorted(long, key=lambda row: row["at"])
    by_value = {row["lag_messages"]: row["at"] for row in long}
    assert by_value[99] == NOON + timedelta(minutes=7777)
    assert by_value[1] == NOON + timedelta(minutes=12345)
    assert None in by_value
    assert len([row for row in rows if row["group_id"] == "short"]) == 2


def test_findings_are_made_of_ledger_records_alone():
    """A client may write into the topic too: what has its form and not its fields must not end the page."""
    sound = {"kind": "group_removed", "group_id": "g", "at_ms": 1, "version": 1, "by": "expired"}
    ended = {"from_generation": 1, "to_generation": 2, "rebalance_id": "1@1", "first_cause": None, "outcome": "stable"}
    odd = {**sound, **ended, "kind": "rebalance_ended", "further_causes": 5, "members": []}
    rows = [("g", json.dumps(odd)), ("g", json.dumps(sound)), ("h", json.dumps({**sound, "at_ms": "now"}))]
    assert events_of(rows) == {"g": [sound]}
    [line] = _timeline(events_of(rows), 1)
    assert (line["group_id"], line["text"], line["below"]) == ("g", "the group expired with its last offset", ())


def test_what_another_clusters_kohort_wrote_is_not_told_of_this_one(spark: "SparkSession", tmp_path: Path):
    """A mirrored ledger: same groups, another timeline. Where nothing says whose it is, all of it is told."""
    common = {"kind": "group_removed", "group_id": "g", "at_ms": 1, "version": 1, "by": "expired"}
    written = [common, *({**common, "cluster_id": name} for name in ("ours", "theirs", "third"))]
    Log(tmp_path, "__kohort_rebalances", 7).append([(b"g", json.dumps(one).encode()) for one in written])
    Log(tmp_path, "__consumer_offsets", 7)

    def found() -> list[object]:
        with Inputs(spark, read(["report", "--from", str(tmp_path), "--to", "/nowhere/page.html"])) as inputs:
            ledger = inputs.ledger()
            assert ledger is not None
            return [json.loads(row.event).get("cluster_id") for row in ledger.orderBy("log_offset").collect()]

    assert found() == [None, "ours", "theirs", "third"]
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=ours\nnode.id=1\n")
    assert found() == [None, "ours"]
