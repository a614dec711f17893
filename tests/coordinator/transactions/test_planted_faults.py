"""Faults that transaction coordinators have had, built in again: what watches over the histories must find each.

KAFKA-19999: a marker that comes again after a lost answer is refused, and its transaction hangs for good.
KAFKA-19367: fencing an open transaction bumps the epoch twice.
KAFKA-18660: the end of a transaction in the last epoch takes no new producer id.
KAFKA-20090: nor does fencing there, and the epoch after the last one is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from coordinator.outcome import Outcome
from coordinator.transactions import end_transaction, ending, markers, rules
from coordinator.transactions.inputs import MarkersWritten
from coordinator.transactions.transaction import LARGEST_EPOCH
from coordinator.transactions.transitions import decided_with_bump
from coordinator.values import altered
from protocol.errors import ErrorCode
from tests.coordinator.transactions.driver import Driver
from tests.coordinator.transactions.test_histories import STEPS, World

Plant = Callable[[pytest.MonkeyPatch], None]


def hangs_where_a_marker_is_refused(patch: pytest.MonkeyPatch) -> None:
    """The partition refuses a marker that it has, and the coordinator takes that for the end of its duty."""

    def give_up(view, result, now_ms):
        if ErrorCode.INVALID_PRODUCER_EPOCH in result.errors.values():
            return Outcome(view.transaction)
        return markers.markers_written(view, result, now_ms)

    patch.setitem(rules.RULES, MarkersWritten, give_up)
    made = Driver.__init__

    def strict(self, *args, **more):
        made(self, *args, **more)
        self.strict_partitions = True

    patch.setattr(Driver, "__init__", strict)


def bumps_twice(patch: pytest.MonkeyPatch) -> None:
    """The fence bumps, and the abort that follows bumps what the fence has bumped."""

    def twice(transaction, *args, **more):
        fenced = altered(transaction, producer_epoch=min(transaction.producer_epoch + 1, LARGEST_EPOCH))
        return decided_with_bump(fenced, *args, **more)

    patch.setattr(ending, "decided_with_bump", twice)


def overflows_at_the_end(patch: pytest.MonkeyPatch) -> None:
    """EndTxn in the last epoch goes on with the same id."""
    patch.setattr(end_transaction, "decided_with_bump", _without_a_new_id)


def overflows_at_the_fence(patch: pytest.MonkeyPatch) -> None:
    """An abort of the broker's own in the last epoch goes on with the same id."""
    patch.setattr(ending, "decided_with_bump", _without_a_new_id)


def _without_a_new_id(transaction, settings, now_ms, *, next_id=-1, **more):
    return decided_with_bump(transaction, settings, now_ms, **more)


PLANTS: dict[Plant, str] = {
    hangs_where_a_marker_is_refused: "it hangs",
    bumps_twice: "an epoch rose twice",
    overflows_at_the_end: "a client was given the epoch that is for fencing|the last epoch has no successor",
    overflows_at_the_fence: "the last epoch has no successor",
}


def play(seeds: int) -> None:
    """The histories, always the same ones."""
    for seed in range(seeds):
        World(random.Random(seed)).play(STEPS)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_fault_that_is_built_in_again_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch):
    """KAFKA-19999, KAFKA-19367, KAFKA-18660, KAFKA-20090."""
    plant(monkeypatch)

    with pytest.raises(AssertionError, match=PLANTS[plant]):
        play(300)


def test_a_partition_with_the_fault_does_not_hang_this_coordinator():
    """KAFKA-19999: the second marker is refused; the first is in, so the transaction is over."""
    broker = Driver()
    broker.strict_partitions = True
    broker.open("t-0")
    broker.lost_answers.add(("t", 0))

    broker.end(commit=True)
    broker.advance(1_000)

    assert broker.state == "CompleteCommit"
    assert broker.last("marker_abandoned")["partition"] == "t-0"
