"""The main job on real input, and on more executors than one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline import oracle
from tests.pipeline.capture import unpack
from tests.pipeline.main_job import SETTINGS, compare, have_work_done, rows_of
from tests.support.broker_process import ROOT, Kohort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Other JVMs beside the session of the tests would take its memory and both cores.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


def check(said: dict[str, object], tables: dict[str, list[dict[str, object]]]) -> None:
    for question, (theirs, ours) in compare(said, tables).items():
        assert ours == theirs, question


def test_a_directory_and_a_live_broker_say_what_the_clients_said(spark: "SparkSession", tmp_path: Path):
    """The broker runs, clients rebalance, read and commit; its directory, itself, and its directory once it stopped."""
    with Kohort(tmp_path / "broker", SETTINGS) as broker:
        said = have_work_done(broker, tmp_path)
        at_rest, live = rows_of(spark, str(broker.data)), rows_of(spark, broker.address)
        check(said, at_rest)
        check(said, live)
        assert {row["source"] for row in at_rest["rebalances"]} >= {"ledger"}
        assert at_rest["rebalances"] == live["rebalances"] or _sorted(at_rest) == _sorted(live)
        broker.stop()
        check(said, rows_of(spark, str(broker.data)))


def _sorted(tables: dict[str, list[dict[str, object]]]) -> list[str]:
    return sorted(map(str, tables["rebalances"]))


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kohort", "pipeline", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.long
def test_two_executors_say_what_one_says(tmp_path: Path):
    """`local-cluster[2,1,1024]`, executors and workers in processes of their own, and `local`: the oracle's commits."""
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    rows = oracle.group_records(oracle.LogDirectory(directory).records(committed=True))
    names = ("log_partition", "log_offset", "group_id", "topic", "partition", "committed_offset")
    expected = sorted(tuple(row[name] for name in names) for row in oracle.offset_commits(rows))
    printed = []
    for master in ("local-cluster[2,1,1024]", "local[2]"):
        ended = run(["commits", "--from", str(directory), "--format", "json", "--master", master])
        assert ended.returncode == 0, ended.stderr[-3000:]
        printed.append(sorted(ended.stdout.splitlines()))
        found = sorted(tuple(json.loads(line)[name] for name in names) for line in printed[-1])
        assert found == expected
    assert printed[0] == printed[1]


@pytest.mark.long
def test_the_report_is_one_command(tmp_path: Path):
    """`kohort pipeline report --from DIR --to PAGE`; what stands there already is not overwritten unasked."""
    directory, _ = unpack("kohort", tmp_path)
    page = tmp_path / "report.html"

    made = run(["report", "--from", str(directory), "--to", str(page)])
    again = run(["report", "--from", str(directory), "--to", str(page)])

    assert made.returncode == 0, made.stderr[-3000:]
    text = page.read_text()
    assert "librd" in text
    assert "Worst lag over time" in text
    assert not (tmp_path / "report.html.partial").exists()
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
