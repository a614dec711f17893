"""The soak of `make test-all`, ten minutes of it; `make soak HOURS=8` for more. And what it calls growth."""

import os
import subprocess
import sys

import pytest

from tests.soak import __main__ as soak
from tests.soak.measures import MEGABYTE, Measure, grown
from tests.support.broker_process import ROOT

HOURS = os.environ.get("KOHORT_SOAK_HOURS")


def measures(*memory_megabytes: int, folders: int = 100) -> list[Measure]:
    return [Measure(megabytes * MEGABYTE, 120, 4, folders) for megabytes in memory_megabytes]


def test_growth_is_more_than_what_comes_and_goes():
    steady = measures(100, 120, 110, 125, 150, 90)
    assert grown(steady) == []
    assert len(grown([*steady, *measures(200)])) == 1
    assert len(grown([*steady, *measures(100, folders=101)])) == 1


def test_what_was_seen_is_told_when_a_round_breaks_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def run(self: soak.Soak, _seconds: float, _clients: tuple[str, ...]) -> None:
        self.rounds, self.measures = 4, measures(100, 100, 100, 900)
        raise OSError("the topic could not be deleted")

    monkeypatch.setattr(soak.Soak, "run", run)
    monkeypatch.setattr(sys, "argv", ["soak", "--seed", "1"])
    assert soak.main() == 1
    told = capsys.readouterr().out
    assert "WRONG: ended in round 4" in told and "the topic could not be deleted" in told
    assert "memory_bytes has grown" in told


@pytest.mark.slow
@pytest.mark.skipif(not HOURS, reason="ten minutes: make test-all")
def test_a_broker_among_real_and_hostile_clients_and_troubles_stays_as_it_is():
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--hours", HOURS or ""],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-3_000:]
