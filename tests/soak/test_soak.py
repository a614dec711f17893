"""The soak of `make test-all`, ten minutes of it; `make soak HOURS=8` for more. And what it calls growth."""

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from itertools import islice

import pytest

from tests.soak import __main__ as soak
from tests.soak.measures import MEGABYTE, Measure, grown
from tests.support.broker_process import ROOT

HOURS = os.environ.get("KOHORT_SOAK_HOURS")


def measures(*memory_megabytes: float, folders: int = 100, pid: int = 1) -> list[Measure]:
    return [Measure(int(megabytes * MEGABYTE), 120, 4, folders, pid) for megabytes in memory_megabytes]


def descriptors(counts: Iterable[int], pid: int = 1) -> list[Measure]:
    return [Measure(100 * MEGABYTE, count, 4, 100, pid) for count in counts]


def test_growth_is_more_than_what_comes_and_goes():
    steady = measures(100, 120, 110, 125, 150, 90)
    assert grown(steady) == []
    assert len(grown([*steady, *measures(300)])) == 1
    assert len(grown([*steady, *measures(100, folders=101)])) == 1


def test_a_process_is_compared_with_itself():
    """One that has just begun is smaller than one that has lived, and says nothing about it."""
    young = [one for pid in range(1, 9) for one in measures(40, 45, 45, pid=pid)]
    assert grown([*young, *measures(40, 90, 130, 130, 125, 128, 140, pid=9)]) == []
    (told,) = grown([*young, *measures(40, 60, 60, 60, 180, 60, pid=9)])
    assert told.startswith("memory_bytes has grown to") and "in process 9 of 9, after 6 rounds" in told


def test_growth_that_restarts_hide_shows_in_a_long_life():
    """What leaks 1.5 MB a round has leaked 6 MB when it is restarted after four."""
    restarted = [one for pid in range(1, 9) for one in measures(*(40 + 1.5 * at for at in range(4)), pid=pid)]
    assert grown(restarted) == []
    (told,) = grown([*restarted, *measures(*(40 + 1.5 * at for at in range(64)), pid=9)])
    assert "in process 9 of 9, after 64 rounds" in told


def test_slow_growth_is_seen_under_what_comes_and_goes():
    """300 KB a round in 128 rounds, while every other round has up to 30 MB more."""
    chance = random.Random(1)
    comes_and_goes = [chance.choice((0, 30 * chance.random())) for _ in range(128)]
    assert grown(measures(*(100 + more for more in comes_and_goes))) == []
    (told,) = grown(measures(*(100 + more + 0.3 * at for at, more in enumerate(comes_and_goes))))
    assert "memory_bytes grows on" in told


def test_a_heap_that_fills_its_holes_is_no_growth():
    assert grown(measures(*(130 - 30 * 0.97**at for at in range(128)))) == []


def test_a_descriptor_lost_in_every_other_round_is_seen():
    assert grown(descriptors(120 + at % 7 for at in range(64))) == []
    (told,) = grown(descriptors(120 + at % 7 + at // 2 for at in range(64)))
    assert "descriptors grows on" in told


def test_what_every_start_reads_must_not_grow():
    """Each process is steady, and each begins with 3 MB more than the one before."""
    (told,) = grown([one for pid in range(1, 33) for one in measures(*[40 + 3 * pid] * 6, pid=pid)])
    assert "from start to start" in told


def test_lives_become_longer():
    assert list(islice(soak.growing_lives(), 12)) == [1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 1, 2]


def test_what_was_seen_is_told_when_a_round_breaks_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def run(self: soak.Soak, _seconds: float, _clients: tuple[str, ...]) -> None:
        self.rounds, self.measures = 4, measures(100, 100, 100, 900)
        self.stalls = {"Fetch": soak.STALL_MS + 1, "Produce": soak.STALL_MS}
        raise OSError("the topic could not be deleted")

    monkeypatch.setattr(soak.Soak, "run", run)
    monkeypatch.setattr(sys, "argv", ["soak", "--seed", "1"])
    assert soak.main() == 1
    told = capsys.readouterr().out
    assert "WRONG: ended in round 4" in told and "the topic could not be deleted" in told
    assert "memory_bytes has grown" in told
    assert "WRONG: Fetch held the loop" in told and "Produce held" not in told


def soaked(*words: str, planted: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.soak", *words],
        cwd=ROOT,
        env={**os.environ, "KOHORT_SOAK_PLANTED": planted},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not HOURS, reason="ten minutes: make test-all")
def test_a_broker_among_real_and_hostile_clients_and_troubles_stays_as_it_is():
    ended = soaked("--hours", HOURS or "")
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-3_000:]


@pytest.mark.slow
@pytest.mark.skipif(not HOURS, reason="two minutes each: make test-all")
@pytest.mark.parametrize(("planted", "said"), [("memory", "memory_bytes has grown"), ("descriptors", "descriptors ")])
def test_a_planted_leak_is_seen(planted: str, said: str):
    """In a life of some short rounds, of a broker that is otherwise well."""
    words = (
        "--hours",
        "0.03",
        "--seed",
        "1",
        "--life",
        "100",
        "--trouble-seconds",
        "1",
        "--client",
        "confluent",
        "--client",
        "confluent_848",
    )
    ended = soaked(*words, planted=planted)
    wrong = [line for line in ended.stdout.splitlines() if line.startswith("WRONG")]
    assert ended.returncode == 1, ended.stdout[-6_000:]
    assert [said in line for line in wrong] == [True], ended.stdout[-6_000:]
