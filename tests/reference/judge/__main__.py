"""`make judge`: the scorecard. Words select scenarios: `python -m tests.reference.judge 'J*' S03 --keep DIRECTORY`."""

import argparse
import contextlib
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from tests.reference.judge import catalog, compare
from tests.reference.judge.run import run

parser = argparse.ArgumentParser(prog="make judge", description="Kohort's answers beside Apache Kafka's")
parser.add_argument("scenarios", nargs="*", default=["*"], help="patterns of scenario ids")
parser.add_argument("--keep", help="an empty directory for data and logs of both brokers, kept afterwards")
options = parser.parse_args()

chosen = [
    s
    for s in catalog.everything()
    if any(fnmatchcase(s.id, p) for p in options.scenarios) or (s.first and "main" in s.acts)
]
rows = compare.listed()
place = contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="judge-")
with place as directory:
    result = run(Path(directory), chosen, rows)
if options.scenarios != ["*"]:
    result.verdict.stale.clear()  # A part of the scenarios cannot tell.
print(result.report())
sys.exit(bool(result.verdict.unlisted or result.verdict.stale or result.broken))
