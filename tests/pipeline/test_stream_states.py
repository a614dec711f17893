"""Streams that tell how things are: groups that changed, partitions that came to be stuck."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.jobs.compaction import compact
from tests.pipeline.logs import T0, Log, commit
from tests.pipeline.test_cli import run
from tests.pipeline.test_streaming import streamed

__all__ = ["run"]
pytestmark = pytest.mark.slow


def test_groups_that_changed_are_told_as_they_are_now(run: Any, tmp_path: Path) -> None:
    """Two groups; then one commits, and its row alone comes again."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    log.append([commit("a", "orders", 0, 5), commit("b", "orders", 0, 6)], timestamps=[T0, T0 + 1000])
    found, _ = streamed(run, "groups", tmp_path / "log", tmp_path / "out")
    assert sorted(row.group_id for row in found.collect()) == ["a", "b"]
    log.append([commit("b", "orders", 1, 9)], timestamps=[T0 + 2000])
    streamed(run, "groups", tmp_path / "log", tmp_path / "out")
    again = SparkSession.builder.getOrCreate().read.parquet(str(tmp_path / "out" / "groups")).where("batch = 1")
    assert [(row.group_id, row.partitions, row.last_commit_at.timestamp() * 1000) for row in again.collect()] == [
        ("b", 2, T0 + 2000)
    ]


def test_a_partition_that_came_to_be_stuck_is_told_once(run: Any, tmp_path: Path) -> None:
    """Records wait and nobody commits: told when it has lasted, and not again while it lasts."""
    orders, log = Log(tmp_path / "log", "orders", 0), Log(tmp_path / "log", "__consumer_offsets", 0)
    log.append([commit("g", "orders", 0, 1)], timestamps=[T0])
    counts = []
    orders.append([(b"k", b"v")], timestamps=[T0])
    orders.append([(b"k", b"v")], timestamps=[T0 + 60_000])
    for minute in (10, 12, 13):
        orders.append([(b"k", b"v")], timestamps=[T0 + minute * 60_000])
        _, _, said = run("stuck", "--from", tmp_path / "log", "--to", tmp_path / "out", "--stream", "--once",
                         "--checkpoint", tmp_path / "cp")  # fmt: skip
        counts.append(said.splitlines()[-1].split()[3])
    assert counts == ["0", "1", "0"]
    [row] = SparkSession.builder.getOrCreate().read.parquet(str(tmp_path / "out" / "stuck_partitions")).collect()
    assert (row.group_id, row.topic, row.partition, row.verdict) == ("g", "orders", 0, "no_owner")


def test_batches_are_laid_out_by_day_and_made_one(run: Any, tmp_path: Path) -> None:
    """Four runs, of which two become one folder; one that was killed while it did that is finished. No row is lost."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    out = tmp_path / "out" / "offset_commits"
    for day in range(4):
        log.append([commit("a", "orders", 0, day)], timestamps=[T0 + day * 86_400_000])
        found, _ = streamed(run, "commits", tmp_path / "log", tmp_path / "out", "--by-date", "--compact", "2")
        assert sorted(row.committed_offset for row in found.collect()) == list(range(day + 1))
    assert [place.name for place in sorted(out.glob("*=*"))] == ["batch=1", "batch=2", "batch=3"]
    assert sorted(place.name for place in out.glob("*/date=*")) == [f"date=2023-11-{14 + day}" for day in range(4)]
    (out / "batch=1").rename(out / "_merged=1")
    (out / "batch=0").mkdir()
    assert compact(SparkSession.builder.getOrCreate(), out, 9, "logged_at") == 0
    assert [place.name for place in sorted(out.glob("*=*"))] == ["batch=1", "batch=2", "batch=3"]
    code, _, err = run("commits", "--from", tmp_path / "log", "--to", tmp_path / "out", "--stream", "--once",
                       "--checkpoint", f"{tmp_path / 'out'}.cp")  # fmt: skip
    assert code == 2
    assert "was begun with --by-date" in err
