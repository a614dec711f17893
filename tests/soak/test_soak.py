"""The soak of `make test-all`, ten minutes of it; `make soak HOURS=8` for more. And what it calls growth."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.loop.loop_runtime import LoopRuntime
from tests.fuzz.doors import DOORS
from tests.soak import __main__ as soak
from tests.soak.anatomy import anatomy
from tests.soak.hostile import KINDS
from tests.soak.measures import MEGABYTE, Measure, grown, measure, peak_bytes
from tests.support.broker_process import ROOT, eventually

HOURS = os.environ.get("KOHORT_SOAK_HOURS")
USED = 30 * MEGABYTE


def used(*megabytes: float, folders: int = 100, pid: int = 1) -> list[Measure]:
    return [Measure(200 * MEGABYTE, int(one * MEGABYTE), 0, 120, 4, folders, pid) for one in megabytes]


def descriptors(counts: Iterable[int], pid: int = 1) -> list[Measure]:
    return [Measure(100 * MEGABYTE, USED, 0, count, 4, 100, pid) for count in counts]


def test_growth_is_more_than_what_comes_and_goes():
    steady = used(30, 40, 35, 45, 50, 30)
    assert grown(steady) == []
    assert len(grown([*steady, *used(80)])) == 1
    assert len(grown([*steady, *used(30, folders=101)])) == 1


def test_a_process_is_compared_with_itself():
    """One that has just begun is smaller than one that has lived, and says nothing about it."""
    young = [one for pid in range(1, 9) for one in used(10, 15, 15, pid=pid)]
    assert grown([*young, *used(10, 40, 50, 60, 55, 58, 70, pid=9)]) == []
    (told,) = grown([*young, *used(10, 30, 30, 30, 80, 30, pid=9)])
    assert told.startswith("used_bytes has grown to") and "in process 9 of 9, after 6 rounds" in told


def test_growth_that_restarts_hide_shows_in_a_long_life():
    """What leaks 400 KB a round has leaked 1.6 MB when it is restarted after four."""
    restarted = [one for pid in range(1, 9) for one in used(*(30 + 0.4 * at for at in range(4)), pid=pid)]
    assert grown(restarted) == []
    (told,) = grown([*restarted, *used(*(30 + 0.4 * at for at in range(64)), pid=9)])
    assert "in process 9 of 9, after 64 rounds" in told


def test_slow_growth_is_seen_under_what_comes_and_goes():
    """100 KB a round in 128 rounds, while every other round has up to 10 MB more."""
    chance = random.Random(1)
    comes_and_goes = [chance.choice((0, 10 * chance.random())) for _ in range(128)]
    assert grown(used(*(30 + more for more in comes_and_goes))) == []
    (told,) = grown(used(*(30 + more + 0.1 * at for at, more in enumerate(comes_and_goes))))
    assert "used_bytes grows on" in told


def test_what_fills_up_is_no_growth():
    assert grown(used(*(40 - 20 * 0.97**at for at in range(128)))) == []


def test_holes_are_no_growth():
    """A process grew while what was in use stood still, less and less. One that grows on as at first is told."""
    seen = [225, 241, 299, 351, 350, 359, 388, 390, 406, 419, *[430] * 4, 442, *[446] * 4, *[463] * 3]
    assert grown([Measure(of * MEGABYTE, USED, (of - 70) * MEGABYTE, 120, 4, 100, 1) for of in seen]) == []
    on = range(225, 600, 15)
    (told,) = grown([Measure(of * MEGABYTE, USED, (of - 70) * MEGABYTE, 120, 4, 100, 1) for of in on])
    assert told.startswith("memory_bytes grows on")
    # Every fourteenth of 151 rounds.
    long = (240, 257, 265, 300, 297, 292, 308, 319, 314, 289)
    resident = (118, 140, 203, *(megabytes for megabytes in long for _ in range(14)))
    assert grown([Measure(of * MEGABYTE, USED, (of - 70) * MEGABYTE, 120, 4, 100, 1) for of in resident]) == []


def test_what_is_neither_in_use_nor_a_hole_is_growth():
    """Whoever maps memory past the allocators is seen as one who never gives back what they gave."""
    (told,) = grown([Measure((100 + of) * MEGABYTE, USED, 40 * MEGABYTE, 120, 4, 100, 1) for of in range(16)])
    assert told.startswith("other_bytes grows on")
    (told,) = grown([Measure(of * MEGABYTE, USED, 40 * MEGABYTE, 120, 4, 100, 1) for of in (100, 100, 100, 130)])
    assert told.startswith("other_bytes has grown")


def test_what_fills_holes_is_growth():
    """The process stays as large as it is, and 200 KB of what is in use are not given back in a round."""
    assert grown(used(*(30 + at % 3 for at in range(64)))) == []
    (told,) = grown(used(*(30 + 0.2 * at for at in range(64))))
    assert told.startswith("used_bytes grows on")
    (told,) = grown(used(30, 31, 30, 30, 60))
    assert told.startswith("used_bytes has grown")


def test_a_descriptor_lost_in_every_other_round_is_seen():
    assert grown(descriptors(120 + at % 7 for at in range(64))) == []
    (told,) = grown(descriptors(120 + at % 7 + at // 2 for at in range(64)))
    assert "descriptors grows on" in told


def threads(counts: Iterable[int], pid: int = 1) -> list[Measure]:
    return [Measure(100 * MEGABYTE, USED, 0, 120, count, 100, pid) for count in counts]


def test_a_thread_that_does_not_end_is_seen():
    """Two more are no growth, three are."""
    assert grown(threads([1, 1, 1, *[3] * 20])) == []
    (told,) = grown(threads([1, 1, 1, *[4] * 20]))
    assert told.startswith("threads has grown to 4: 3 is what it may be")
    # One in six rounds, in a life of 36.
    (told,) = grown(threads(7 + at // 6 for at in range(36)))
    assert told.startswith("threads has grown")


def test_threads_are_counted_in_the_process(tmp_path: Path):
    """Of the broker, as the system knows them: one that was started there, and not before, is one more."""
    code = (
        "import sys, threading\n"
        "for _ in sys.stdin:\n"
        " threading.Thread(target=threading.Event().wait, daemon=True).start(); print('here', flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        broker: Any = SimpleNamespace(pid=process.pid, data=tmp_path)
        found: list[int] = []
        for _ in range(4):
            process.stdin.write(b"one more\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"here\n"
            found.append(measure(broker, replace(anatomy(), workers=0)).threads)
        assert measure(broker, replace(anatomy(), workers=3)).threads == 2
        process.kill()
    assert found == [2, 3, 4, 5]


def test_threads_that_the_broker_keeps_for_work_are_told_apart():
    """Each comes when all others work, and stays, however many rounds that takes."""
    before = anatomy().workers
    runtime = LoopRuntime.create()
    end = threading.Event()
    try:
        for _ in range(3):
            runtime.in_thread(end.wait, bool, repr)
        assert anatomy().workers == before + 3
    finally:
        end.set()
        runtime.close()
    assert anatomy().workers == before


def test_what_every_start_reads_must_not_grow():
    """Each process is steady, and each begins with 3 MB more than the one before."""
    (told,) = grown([one for pid in range(1, 33) for one in used(*[20 + 3 * pid] * 6, pid=pid)])
    assert "from start to start" in told


def test_lives_become_longer():
    assert list(islice(soak.growing_lives(), 12)) == [1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 1, 2]


class Told:
    """A worker, by what it has told: that it was given a partition, and read it from its first record on."""

    killed_at = None

    def __init__(self, name: str, generation: int, partition: int) -> None:
        self.name, self.client = name, "java"
        owned = {"event": "assigned", "partitions": [partition], "generation": generation, "t": 0}
        read = {"event": "read", "partition": partition, "first": 0, "last": 0, "t": 1}
        self.events = [owned, read]


def test_two_owners_of_a_partition_in_one_generation_are_seen():
    """Though each of them reads what it must."""
    written = {0: 1, 1: 1}
    alone: Any = [Told("a", 1, 0), Told("b", 1, 1), Told("c", 2, 0)]
    assert soak.check_group(alone, written) == 2
    with pytest.raises(AssertionError, match="partition 0 belongs to a and d in generation 1"):
        soak.check_group([*alone, *cast("Any", [Told("d", 1, 0)])], written)


def test_hostile_clients_come_before_and_behind_each_lock():
    """TLS and SASL, before and after who comes is known."""
    assert {door for door, way in KINDS if way == "inside"} == set(DOORS)
    before = {(door, way) for door, way in KINDS if way != "inside"}
    assert {door for door, way in before if way == "stranger"} == set(DOORS) - {"PLAINTEXT"}
    assert {door for door, way in before if way == "shaking hands"} == {door for door in DOORS if "SSL" in door}
    assert {door for door, way in before if way == "logging in"} == {door for door in DOORS if "SASL" in door}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_who_is_hostile_ends_with_the_soak():
    """By SIGTERM too, of which no `finally` hears: it would ask a broker that is gone as fast as it can, for ever."""
    code = (
        "import multiprocessing as m; from tests.soak.hostile import DOORS, KINDS, Attack, life\n"
        "if __name__ == '__main__':\n"
        " c = m.get_context('spawn')\n"
        " attack = Attack(dict.fromkeys(DOORS, 9), '', [0] * len(KINDS), c.Event(), c.Event(), c.Event())\n"
        " p = c.Process(target=life, args=(attack, 1), daemon=True); p.start(); print(p.pid, flush=True); p.join()"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.terminate()
    try:
        eventually(lambda: _has_ended(pid), what="the hostile process has ended")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    """Also when nobody has asked for its exit code yet, as who inherits orphans may not for minutes."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_kind_of_hostile_client_that_never_came_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = soak.Soak(tmp_path, 1, repeat(1))
    for at in range(1, len(KINDS)):
        run.attack.made[at] = 1
    assert not run.report()
    assert run.wrong == ["nobody was hostile at PLAINTEXT inside"]
    run.wrong.clear()
    run.attack.made[0] = 1
    assert run.report()
    assert "PLAINTEXT inside 1" in capsys.readouterr().out


def test_a_process_that_was_too_large_for_a_moment_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each has its own bound, and is looked at before the next one begins, or at the end."""
    run = soak.Soak(tmp_path, 1, repeat(1))
    bounds: list[int] = []
    monkeypatch.setattr(soak, "peak_bytes", lambda _broker: run.bound_bytes + (len(bounds) in (3, 20)))
    monkeypatch.setattr(soak, "stalls", lambda _broker: {})
    monkeypatch.setattr(soak.Troubled, "restart", lambda _self, *, kill: None)
    for _ in range(20):
        bounds.append(run.bound_bytes)
        run.kill()
    assert set(bounds) == set(soak.MEMORY_BYTES)
    assert run.wrong == [f"round 0: {bounds[at] + 1} bytes of memory, {bounds[at]} may be" for at in (2, 19)]


def test_the_most_that_a_process_has_had_is_measured():
    """And not what it has now."""
    code = "held = bytearray(b'x') * (64 << 20); del held; print('let go', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"let go\n"
        broker: Any = SimpleNamespace(pid=process.pid)
        assert 64 * MEGABYTE < peak_bytes(broker) < 96 * MEGABYTE
        process.kill()


def test_what_was_seen_is_told_when_a_round_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def run(self: soak.Soak, _seconds: float, _clients: tuple[str, ...]) -> None:
        self.rounds, self.measures = 4, used(100, 100, 100, 900)
        self.stalls = {"Fetch": soak.STALL_MS + 1, "Produce": soak.STALL_MS}
        raise OSError("the topic could not be deleted")

    monkeypatch.setattr(soak.Soak, "run", run)
    monkeypatch.setattr(sys, "argv", ["soak", "--seed", "1"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert soak.main() == 1
    told = capsys.readouterr().out
    assert "WRONG: ended in round 4" in told and "the topic could not be deleted" in told
    assert "used_bytes has grown" in told
    assert "WRONG: Fetch held the loop" in told and "Produce held" not in told
    (kept,) = tmp_path.iterdir()
    assert f"logs and data: {kept}" in told


def soaked(directory: Path, *words: str, planted: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.soak", *words],
        cwd=ROOT,
        env={**os.environ, "KOHORT_SOAK_PLANTED": planted, "TMPDIR": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not HOURS, reason="ten minutes: make test-all")
def test_a_broker_among_real_and_hostile_clients_and_troubles_stays_as_it_is(tmp_path: Path):
    ended = soaked(tmp_path, "--hours", HOURS or "")
    assert ended.returncode == 0, ended.stdout[-6_000:] + ended.stderr[-3_000:]


@pytest.mark.slow
@pytest.mark.skipif(not HOURS, reason="two minutes each: make test-all")
@pytest.mark.parametrize(
    ("planted", "said", "perhaps"),
    [
        ("memory", {"used_bytes"}, set()),
        ("objects", {"used_bytes"}, set()),
        ("descriptors", {"descriptors"}, set()),
        ("threads", {"threads"}, {"other_bytes", "used_bytes"}),  # each has a stack
    ],
)
def test_a_planted_leak_is_seen(tmp_path: Path, planted: str, said: set[str], perhaps: set[str]):
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
    ended = soaked(tmp_path, *words, planted=planted)
    wrong = {line.split()[1] for line in ended.stdout.splitlines() if line.startswith("WRONG")}
    assert ended.returncode == 1, ended.stdout[-6_000:]
    assert said <= wrong <= said | perhaps, ended.stdout[-6_000:]
