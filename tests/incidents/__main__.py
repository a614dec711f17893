"""`make incidents`: the corpus played, and a table of what was found, missed and falsely accused.

`make incidents ARGS="'killed*' 'twin*'"` plays a part; `--no-report` leaves out the pipeline's report. `--kept DIR`
leaves there what the report reads, and with `--only-report` what lies there is scored, and nothing played.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.clients import harness
from tests.incidents.corpus import CORPUS, Incident
from tests.incidents.kept import keep
from tests.incidents.score import Score, score
from tests.incidents.stage import staged

SURFACES = ("cli", "http", "pipeline")
NUMBERS = {name: number for number, name in enumerate(CORPUS)}


def played(incident: Incident, directory: Path, kept: Path | None = None) -> dict[str, Score]:
    """The scores by surface. `kept`: where its files are left."""
    number = NUMBERS[incident.name]
    spawning = harness.spawner(directory, lambda client: harness.java_classes(directory, client))
    spawn = next(spawning)
    try:
        with staged(directory, spawn, number=number) as stage:
            incident.play(stage)
            diagnoses = stage.diagnose()
            for surface, diagnosis in diagnoses.items():
                print(f"  {surface}: {', '.join(sorted(diagnosis.said))}", file=sys.stderr)
            print(diagnoses["cli"].text, file=sys.stderr)
            if kept is not None:
                stage.forget_the_setting()
        if kept is not None:
            keep(stage, kept, incident.name, number, alone=incident.alone)
        return {surface: score(incident, diagnosis) for surface, diagnosis in diagnoses.items()}
    finally:
        next(spawning, None)


def all_played(chosen: Sequence[Incident], kept: Path | None) -> Iterator[tuple[str, dict[str, Score]]]:
    """One after the other."""
    for incident in chosen:
        print(f"== {incident.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="incident-") as directory:
            try:
                yield incident.name, played(incident, Path(directory), kept)
            except Exception:
                traceback.print_exc()
                yield incident.name, {surface: Score(("could not be played",), ()) for surface in SURFACES}


def all_reported(kept: Path) -> Iterator[tuple[str, dict[str, Score]]]:
    """What the report says of those that were kept."""
    from tests.incidents.reporting import reported

    for name, told in reported(kept):
        print(f"  report of {name}: {', '.join(sorted(told.said))}", file=sys.stderr, flush=True)
        yield name, {"report": score(CORPUS[name], told)}


class Table:
    """Says what is right and what is not, and counts."""

    def __init__(self) -> None:
        self._missed: dict[str, bool] = {}
        self._false: dict[str, bool] = {}

    def add(self, name: str, scores: dict[str, Score], took_s: float) -> None:
        """One more line."""
        wrong = sorted({f"{one} ({surface})" for surface, each in scores.items() for one in each.missed})
        accused = sorted({f"{one} ({surface})" for surface, each in scores.items() for one in each.false})
        self._missed[name] = bool(wrong) or self._missed.get(name, False)
        self._false[name] = bool(accused) or self._false.get(name, False)
        verdict = "right" if not wrong and not accused else "WRONG"
        more = (f"; missed {', '.join(wrong)}" if wrong else "") + (
            f"; falsely {', '.join(accused)}" if accused else ""
        )
        print(f"{verdict}  {name} on {', '.join(scores)} ({took_s:.0f} s){more}", flush=True)

    def total(self) -> int:
        """Exit code 1 unless every diagnosis is right."""
        missed, false = sum(self._missed.values()), sum(self._false.values())
        count = len(self._missed)
        print(f"{count} incidents: {count - missed} found, {missed} missed, {false} with a false accusation")
        return int(missed + false > 0)


def main(words: list[str]) -> int:
    """Play those that match (all without any). Exit code 1 unless every diagnosis is right."""
    parser = argparse.ArgumentParser(prog="make incidents")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--no-report", action="store_true")
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument("--kept", type=Path)
    asked = parser.parse_args(words)
    chosen = [
        one
        for one in CORPUS.values()
        if not asked.patterns or any(fnmatchcase(one.name, each) for each in asked.patterns)
    ]
    table = Table()
    with tempfile.TemporaryDirectory(prefix="incidents-") as own:
        kept = asked.kept or (None if asked.no_report else Path(own))
        rows = [] if asked.only_report else [all_played(chosen, kept)]
        rows += [all_reported(kept)] if kept is not None and not asked.no_report else []
        for each in rows:
            began = time.monotonic()
            for name, scores in each:
                table.add(name, scores, time.monotonic() - began)
                began = time.monotonic()
    return table.total()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
