"""Runs of very many histories: what they write down, and where they go on. The histories here are a line each."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.simulation import long_run as module
from tests.simulation.long_run import Block, Endless, Ledger, Line, long_run, tree

WANTED = [Block("odd", 0, 11), Block("even", 0, 11)]
ALL = {(kind, seed) for kind in ("odd", "even") for seed in range(12)}


def play(kind: str, seed: int) -> None:
    """One history fails."""
    assert (kind, seed) != ("even", 7), "seven is odd"


def play_until_stopped(kind: str, seed: int) -> None:
    """Somebody ends the process while it plays 3."""
    if (kind, seed) == ("odd", 3):
        os.kill(os.getpid(), signal.SIGTERM)


def play_and_die(kind: str, seed: int) -> None:
    """As a fault of an extension would."""
    if (kind, seed) == ("odd", 3):
        os._exit(9)


def played(ledger: Ledger) -> list[tuple[str, int]]:
    return sorted(
        (line.block.kind, seed) for line in ledger.lines() for seed in range(line.block.first, line.block.last + 1)
    )


def test_a_run_goes_on_behind_a_failure_and_keeps_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All are played once, and one is found."""
    ledger = Ledger(tmp_path / "build" / "played")

    assert long_run(play, WANTED, ledger, processes=2, each=5) == 1

    assert played(ledger) == sorted(ALL)
    assert [(line.block.kind, line.failed) for line in ledger.lines() if line.failed] == [("even", (7,))]
    assert {line.tree for line in ledger.lines()} == {tree()}
    assert "seven is odd" in (ledger.failures / f"even-7-{tree()}.txt").read_text()
    assert "24 histories, 1 failed (even/7; " in capsys.readouterr().out


def test_a_run_goes_on_where_one_was_stopped(tmp_path: Path) -> None:
    """What the first has played the second does not."""
    ledger = Ledger(tmp_path / "played")
    long_run(play_until_stopped, WANTED[:1], ledger, processes=1, each=12)
    assert played(ledger) == [("odd", seed) for seed in range(4)]

    assert long_run(play, WANTED, ledger, processes=1, each=12) == 1

    assert played(ledger) == sorted(ALL)


def test_a_process_that_dies_is_told_of_and_its_seeds_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are played by the next run."""
    ledger = Ledger(tmp_path / "played")

    assert long_run(play_and_die, WANTED[:1], ledger, processes=1, each=6) == 1

    assert list(ledger.missing(WANTED[:1])) == [Block("odd", 0, 5)]
    assert "not played to its end: odd 0 5 ended with 9" in capsys.readouterr().out


def test_what_is_missing_is_what_no_tree_has_played(tmp_path: Path) -> None:
    """Whatever the pieces were."""
    ledger = Ledger(tmp_path / "played")
    for first, last in ((20, 29), (0, 4), (8, 9), (8, 12)):
        ledger.write(Line("abc", Block("odd", first, last), (), 1))

    assert list(ledger.missing([Block("odd", 2, 24), Block("even", 3, 3)])) == [
        Block("odd", 5, 7),
        Block("odd", 13, 19),
        Block("even", 3, 3),
    ]


def test_one_ledger_is_written_by_one_run(tmp_path: Path) -> None:
    """Two would play the same."""
    ledger = Ledger(tmp_path / "played")

    class Nested(Ledger):
        def lines(self) -> list[Line]:
            long_run(play, WANTED, ledger, processes=1)
            raise AssertionError("the second run began")

    with pytest.raises(SystemExit, match="another run writes"):
        long_run(play, WANTED, Nested(ledger.path), processes=1)


def test_a_history_without_an_end_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of CPU: a machine that is busy is no fault."""
    monkeypatch.setattr(module, "MOST_CPU_S", 0.05)
    ledger = Ledger(tmp_path / "played")

    def endless(kind: str, seed: int) -> None:
        while seed == 1:
            pass

    handlers = {sign: signal.getsignal(sign) for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGPROF)}
    try:
        module._play_block(endless, Block("odd", 0, 2), ledger, "abc")
    finally:
        for sign, handler in handlers.items():
            signal.signal(sign, handler)

    assert [(line.block, line.failed) for line in ledger.lines()] == [(Block("odd", 0, 2), (1,))]
    assert Endless.__name__ in (ledger.failures / "odd-1-abc.txt").read_text()
