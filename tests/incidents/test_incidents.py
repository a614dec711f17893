"""Some of the corpus in CI; `make incidents` plays all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.incidents.__main__ import SURFACES, played
from tests.incidents.corpus import CORPUS, Incident
from tests.incidents.score import Score, score
from tests.incidents.stage import Diagnosis


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in CORPUS.values() if one.cheap])
def test_what_is_said_of_an_incident_is_right(name: str, tmp_path: Path):
    assert played(CORPUS[name], tmp_path) == dict.fromkeys(SURFACES, Score((), ()))


def test_what_was_missed_and_who_was_accused_falsely_is_counted():
    incident = Incident(
        "x", lambda stage: None, ("cause:a:*", "verdict:died:b"), ("verdict:hung:*",), ("finding:may:*",)
    )
    said = {"cause:a:c", "verdict:hung:b", "finding:may:x", "finding:storm:"}
    assert score(incident, Diagnosis(said)) == Score(("verdict:died:b",), ("finding:storm:", "verdict:hung:b"))
    assert score(incident, Diagnosis({"cause:a:c", "verdict:died:b"})).right
