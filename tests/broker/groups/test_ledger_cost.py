"""What the ledger costs those who do not rebalance, as work: `benchmarks/ledger.py` measures the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.ledger_fixture import House
from tests.support.steps import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_heartbeat_and_a_commit_do_the_same_work_with_the_ledger_and_without(tmp_path: Path):
    """Ledger 1, principle 4: no record for either, and no line of Python that is run for the ledger's sake."""
    with_it, without = (work(tmp_path / word, word) for word in ("true", "false"))

    assert with_it == without
    assert all(lines > 50 for lines in with_it), "nothing was counted"


def work(directory: Path, enabled: str) -> list[int]:
    """Lines of a heartbeat, of a member's commit and of a simple consumer's, to the end of the turn they cause."""
    house = House(directory, kohort_ledger_enable=enabled)
    house.topic("t", 4)
    (member,) = house.stable("a", plan=[{"t": [0, 1, 2, 3]}])
    asked: list[Callable[[], object]] = [
        lambda: house.heartbeat(member, 1),
        lambda: house.commit({0: 5, 1: 5}, member_id=member, generation=1),
        lambda: house.commit({0: 7}, group_id="simple"),
    ]
    for ask in asked:
        ask()  # what is only done once is done
    counted = [lines_of(ask)[0] for ask in asked]
    house.stop()
    return counted
