"""`make judge`: the scorecard. Words select scenarios: `python -m tests.reference.judge 'J*' S03 --keep DIRECTORY`."""

import argparse
import contextlib
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from tests.reference.judge import catalog, compare
from tests.reference.judge.known import KNOWN, Known
from tests.reference.judge.run import run
from tests.reference.judge.versions import judging

parser = argparse.ArgumentParser(prog="make judge", description="Kohort's answers beside Apache Kafka's")
parser.add_argument("scenarios", nargs="*", default=["*"], help="patterns of scenario ids")
parser.add_argument("--keep", help="an empty directory for data and logs of both brokers, kept afterwards")
parser.add_argument(
    "--write", action="store_true", help="write known.txt anew: what a row fits is known from now on; read it then"
)
options = parser.parse_args()

chosen = [
    s
    for s in catalog.everything()
    if any(fnmatchcase(s.id, p) for p in options.scenarios) or (s.first and "main" in s.acts)
]
rules = compare.Rules.of(judging())
if options.write:
    rules = compare.Rules(rules.rows, by=rules.by)
place = contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="judge-")
with place as directory:
    result = run(Path(directory), chosen, rules)
if options.scenarios != ["*"]:
    result.verdict.stale.clear()  # A part of the scenarios cannot tell.
print(result.report())
if options.write:
    known = Known.read(KNOWN.read_text())
    known.rewrite(rules.wide(result.verdict), {scenario.id for scenario in chosen}, rules.by)
    KNOWN.write_text(known.text())
sys.exit(bool(result.verdict.unlisted or result.verdict.stale or result.verdict.gone or result.broken))
