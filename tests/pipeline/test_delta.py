"""Tables of Delta, written and read in a Spark of their own with Delta's own jars: `make test-all`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.capture import unpack
from tests.support.broker_process import ROOT, need

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("KOHORT_DELTA"), reason="half a minute of another Spark: make test-all"),
]
SCRIPT = """
import sys

from pipeline import cli, session

source, folder = sys.argv[1:]
spark = session.build(quiet=True, delta=True)
spark.sparkContext.setLogLevel("OFF")
session.build = lambda **_: spark
type(spark).stop = lambda _: None


def count(table):
    return spark.read.format("delta").load(f"{folder}/{table}").count()


def versions(table):
    return spark.sql(f"DESCRIBE HISTORY delta.`{folder}/{table}`").count()


words = ["--from", source, "--format", "delta", "--to"]
assert cli.main(["commits", *words, f"{folder}/rest", "--by-date"]) == 0
assert cli.main(["commits", *words, f"{folder}/rest", "--by-date"]) == 2
once, rows = versions("rest/offset_commits"), count("rest/offset_commits")
assert cli.main(["commits", *words, f"{folder}/rest", "--by-date", "--overwrite"]) == 0
assert (versions("rest/offset_commits"), count("rest/offset_commits")) == (once + 1, rows)

live = ["commits", *words, f"{folder}/live", "--checkpoint", f"{folder}/c", "--stream", "--once"]
assert cli.main([*live, "--max-offsets", "40"]) == 0
assert count("live/offset_commits") == rows > 0
assert versions("live/offset_commits") > 2

from pathlib import Path  # a run that was killed between the sink and the checkpoint

[last] = sorted(Path(folder, "c", "commits").glob("[0-9]*"), key=lambda place: int(place.name))[-1:]
last.unlink()
last.with_name(f".{last.name}.crc").unlink()
assert cli.main(live) == 0
assert count("live/offset_commits") == rows, "a batch that was run again is there once"
print("ROWS", rows)
"""


def test_a_table_gets_versions_and_a_stream_adds_each_batch_once(tmp_path: Path) -> None:
    need("java", "mvn")
    source, _ = unpack("kohort", tmp_path)
    words = [sys.executable, "-c", SCRIPT, str(source), str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ROWS" in done.stdout
