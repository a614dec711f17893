"""Targets of large groups: computed, and made into records, beside the loop."""

import pytest

from broker.coordinators.batches import RecordEncoder
from coordinator.consumer import target as targets
from coordinator.consumer.inputs import ComputeTarget
from protocol.records.group_records import encode_key, encode_value
from tests.coordinator.consumer.driver import Driver

LARGE = targets.AT_ONCE + 200


@pytest.fixture
def broker():
    """Whose only topic makes its group a large one."""
    return Driver({"t": LARGE})


def test_a_large_target_counts_from_when_it_is_there(broker):
    """Until then its member owns nothing; the driver holds memory to the log."""
    broker.hold_tasks()
    assert broker.join("a") == (1, {})
    broker.run_tasks()

    assert broker.beat("a", owned={}) == (2, {"t": list(range(LARGE))})


def test_nothing_is_prepared_while_a_target_is_on_its_way(broker, monkeypatch):
    """Of ten thousand members each heartbeats meanwhile."""
    built = []
    spec = targets.assignment_spec
    monkeypatch.setattr(targets, "assignment_spec", lambda *given: built.append(given) or spec(*given))
    broker.hold_tasks()

    broker.join("a")
    for _ in range(3):
        broker.beat("a", owned={})

    assert len(built) == len(broker.tasks) == 1


def test_its_records_are_made_in_pieces_and_are_the_same(broker):
    """Only of those whose target is another than it was; their bytes are what they would have been."""
    broker.stable("a", "b")
    broker.hold_tasks()
    broker.join("c")
    (work,) = broker.tasks
    assert isinstance(work, ComputeTarget)

    result = broker.result_of(work)

    changed = {
        member_id for member_id, member in work.spec.members.items() if member.target != result.target[member_id]
    }
    assert result.records.keys() == changed
    plain = [targets.target_record("g", member_id, result.target[member_id]) for member_id in result.records]
    encoder = RecordEncoder(encode_key, encode_value)
    assert encoder.pairs(result.records.values()) == encoder.pairs(plain)


def test_who_left_meanwhile_is_left_out(broker):
    """And whoever has come since waits for the next target."""
    broker.stable("a", "b")
    broker.hold_tasks()
    broker.join("c")
    broker.leave("a")
    broker.join("d")

    broker.run_tasks()

    assert "a" not in broker.group.targets and "d" not in broker.group.targets
    broker.advance(1)
    broker.beat("b", owned=broker.held("b"))
    broker.settle()
    assert sorted(at for member_id in "bcd" for at in broker.held(member_id)["t"]) == list(range(LARGE))
