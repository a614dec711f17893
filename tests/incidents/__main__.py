"""`make incidents`: the corpus played, and a table of what was found, missed and falsely accused.

`make incidents ARGS="'killed*' 'twin*'"` plays a part; `--no-report` leaves out the pipeline's report, whose Spark job
takes longer than most incidents.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from tests.clients import harness
from tests.incidents.corpus import CORPUS, Incident
from tests.incidents.score import Score, score
from tests.incidents.stage import Diagnosis, staged

SURFACES = ("cli", "http", "pipeline")


def played(
    incident: Incident, directory: Path, report: Callable[[Path, int], Diagnosis] | None = None
) -> dict[str, Score]:
    """The scores by surface. `report`: reads the broker's files afterwards, since some moment."""
    spawning = harness.spawner(directory, lambda client: harness.java_classes(directory, client))
    spawn = next(spawning)
    try:
        with staged(directory, spawn) as stage:
            incident.play(stage)
            diagnoses = stage.diagnose()
            for surface, diagnosis in diagnoses.items():
                print(f"  {surface}: {', '.join(sorted(diagnosis.said))}", file=sys.stderr)
            print(diagnoses["cli"].text, file=sys.stderr)
        scores = {surface: score(incident, diagnosis) for surface, diagnosis in diagnoses.items()}
        if report is not None:
            told = report(stage.broker.data, stage.since_ms)
            print(f"  report: {', '.join(sorted(told.said))}", file=sys.stderr)
            scores["report"] = score(incident, told, findings_alone=True)
        return scores
    finally:
        next(spawning, None)


def main(patterns: list[str]) -> int:
    """Play those that match (all without any). Exit code 1 unless every diagnosis is right."""
    report = None
    if "--no-report" in patterns:
        patterns.remove("--no-report")
    else:
        from tests.incidents.reporting import reported as report
    chosen = [one for one in CORPUS.values() if not patterns or any(fnmatchcase(one.name, each) for each in patterns)]
    found = missed = false = 0
    for incident in chosen:
        began = time.monotonic()
        print(f"== {incident.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="incident-") as directory:
            try:
                scores = played(incident, Path(directory), report)
            except Exception:
                traceback.print_exc()
                scores = {surface: Score(("could not be played",), ()) for surface in SURFACES}
        wrong = sorted({f"{one} ({surface})" for surface, each in scores.items() for one in each.missed})
        accused = sorted({f"{one} ({surface})" for surface, each in scores.items() for one in each.false})
        found += not wrong
        missed += bool(wrong)
        false += bool(accused)
        verdict = "right" if not wrong and not accused else "WRONG"
        more = (f"; missed {', '.join(wrong)}" if wrong else "") + (
            f"; falsely {', '.join(accused)}" if accused else ""
        )
        print(f"{verdict}  {incident.name} ({time.monotonic() - began:.0f} s){more}", flush=True)
    print(f"{len(chosen)} incidents: {found} found, {missed} missed, {false} with a false accusation")
    return int(missed + false > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
