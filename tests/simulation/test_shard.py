"""The pure shard in virtual time: thousands of seeded histories of a few milliseconds each, under auditors. CR09.

`make simulation SHARDS=100000` plays so many; KOHORT_SHARD_HISTORIES=classic/17 plays one again. docs/simulation.md
says what happens in them, and lists the faults that the auditors must find.
"""

from __future__ import annotations

import os

import pytest

from coordinator.consumer import heartbeat
from coordinator.consumer.settled import settled_heartbeat
from tests.simulation.shard.faults import PLANTED
from tests.simulation.shard.history import KINDS, play

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


def test_a_history_is_its_seed():
    """Played again it is the same, step by step: or no failure could be looked into."""
    from tests.simulation.shard.history import History

    def steps(seed: str) -> list[tuple[int, str]]:
        history = History(seed)
        seen = []
        handled = history.auditor.handled
        history.auditor.handled = lambda event, outcome: (  # type: ignore[method-assign]
            seen.append((history.clock.now_ms, type(event).__name__)),
            handled(event, outcome),
        )
        history.play()
        return seen

    for kind in KINDS:
        once, again = steps(f"{kind}/4"), steps(f"{kind}/4")
        assert len(once) > 100 and once == again


def test_the_page_lists_every_planted_fault():
    """docs/simulation.md: by name, with what it is."""
    from tests.support.broker_process import ROOT

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
