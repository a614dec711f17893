"""The pure shard in virtual time: thousands of seeded histories of a few milliseconds each, under auditors. CR09.

`make simulation SHARDS=100000` plays so many; KOHORT_SHARD_HISTORIES=classic/17 plays one again. docs/simulation.md
says what happens in them, and lists the faults that the auditors must find.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from coordinator.consumer import heartbeat
from coordinator.consumer.settled import settled_heartbeat
from tests.simulation.shard.faults import PLANTED
from tests.simulation.shard.history import KINDS, play
from tests.support.broker_process import ROOT

BLOCK = 100
ENOUGH = 600
"""Histories within which a planted fault must be found. The rarest was found by the 228th."""


def blocks() -> list[tuple[str, int, int]]:
    """(kind, first seed, one past the last): a few, more in CI, or what the environment says."""
    named = os.environ.get("KOHORT_SHARD_HISTORIES") or ("2400" if os.environ.get("CI") else "81")
    kind, slash, number = named.partition("/")
    if slash:
        return [(kind, int(number), int(number) + 1)]
    each = max(int(named) // len(KINDS), 1)
    return [(kind, first, min(first + BLOCK, each)) for kind in KINDS for first in range(0, each, BLOCK)]


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"{block[0]}-{block[1]}-{block[2] - 1}")
def test_histories_of_one_group(block):
    """Everybody who lives finds its place in the end, and nothing that must not be was on the way."""
    kind, first, end = block
    for seed in range(first, end):
        play(f"{kind}/{seed}")


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name):
    """By some history, and not by the one before the fault was planted."""
    kind = name.partition("/")[0]
    with PLANTED[name]():
        for seed in range(ENOUGH):
            try:
                play(f"{kind}/{seed}")
            except Exception:
                break
        else:
            pytest.fail(f"{name} was not found in {ENOUGH} histories")
    play(f"{kind}/{seed}")


@pytest.mark.parametrize("seed", ["classic/4", "consumer/400020", "migrating/4"])
def test_a_history_is_its_seed(seed):
    """Played again, in a process whose sets have another order, it is the same: or no failure could be looked into."""
    once, again = (_played_with(order, seed) for order in ("1", "3"))

    assert once.count("\n") > 100 and once == again


def _played_with(order: str, seed: str) -> str:
    """The inputs of a history and what came of them, a line each."""
    environment = {**os.environ, "PYTHONHASHSEED": order}
    command = [sys.executable, "-m", "tests.simulation.shard.steps", seed]
    return subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_page_lists_every_planted_fault():
    """docs/simulation.md: by name, with what it is."""
    page = (ROOT / "docs" / "simulation.md").read_text()
    missing = [name for name in PLANTED if f"`{name.partition('/')[2]}`" not in page]

    assert not missing


def test_a_heartbeat_that_says_nothing_new_comes_to_what_looking_would(monkeypatch):
    """`settled_heartbeat` answers what the whole rule would have answered, wherever histories come by."""
    answered = 0

    def both(view, request, now_ms):
        nonlocal answered
        settled = settled_heartbeat(view, request, now_ms)
        if settled is not None:
            answered += 1
            assert settled == heartbeat.looked_at(view, request, now_ms)
        return settled

    monkeypatch.setattr(heartbeat, "settled_heartbeat", both)
    for kind in ("consumer", "migrating"):
        for seed in range(20):
            play(f"{kind}/{seed}")
    assert answered > 500
