"""The ledger was not written for a while: that is said, and filled with what generations tell."""

from __future__ import annotations

from coordinator.why.gaps import GAP, has_gap, newest_generation, with_gaps
from tests.coordinator.why.records import MINUTE, NOW, Record, cause, rebalance


def ledger(at_ms: int, from_generation: int) -> list[Record]:
    numbers = {"from_generation": from_generation, "to_generation": from_generation + 1}
    began, ended = rebalance(at_ms, cause("member_joined"), **numbers)
    return [began | {"from_generation": from_generation, "generation": from_generation},
            ended | {"generation": from_generation + 1}]  # fmt: skip


def inferred(at_ms: int, generation: int) -> Record:
    return {"kind": "rebalance_ended", "source": "inferred", "at_ms": at_ms, "generation": generation}


def told(records: list[Record]) -> list[tuple[str, int]]:
    return [
        (GAP if record["kind"] == GAP else record.get("source", "ledger"), record["generation"]) for record in records
    ]


def test_a_whole_history_has_no_gap():
    records = [*ledger(NOW, 0), *ledger(NOW + MINUTE, 1)]
    assert not has_gap(records)
    assert with_gaps(records, [inferred(NOW, 1), inferred(NOW + MINUTE, 2)]) == records


def test_commits_that_were_refused_before_a_rebalance_and_counted_after_it_end_no_ledger():
    refused = {"kind": "commits_refused", "at_ms": NOW + 50, "generation": 0}
    records = [*ledger(NOW, 0), refused]
    assert newest_generation(records) == 1
    assert with_gaps(records, [inferred(NOW + 100, 1)]) == records


def test_what_came_after_the_ledger_s_end_is_inferred():
    records = [*ledger(NOW, 2), *ledger(NOW + MINUTE, 3)]
    later = [inferred(NOW + 9 * MINUTE, 6), inferred(NOW + 10 * MINUTE, 7)]
    found = with_gaps(records, [inferred(NOW, 3), inferred(NOW + MINUTE, 4), *later])
    assert told(found)[4:] == [(GAP, 7), ("inferred", 6), ("inferred", 7)]
    assert (found[4]["from_generation"], found[4]["until_ms"]) == (4, None)


def test_a_gap_between_records_is_filled_and_named():
    records = [*ledger(NOW, 2), *ledger(NOW + 9 * MINUTE, 5)]
    assert has_gap(records)
    found = with_gaps(records, [inferred(NOW, 3), inferred(NOW + 5 * MINUTE, 5), inferred(NOW + 9 * MINUTE, 6)])
    assert told(found) == [("ledger", 2), ("ledger", 3), (GAP, 5), ("inferred", 5), ("ledger", 5), ("ledger", 6)]
    assert (found[2]["from_ms"], found[2]["until_ms"]) == (records[1]["at_ms"], NOW + 9 * MINUTE)


def test_a_group_that_was_made_anew_without_a_ledger_is_told():
    """Its generations begin again, so that only their times say that they are later."""
    records = ledger(NOW, 5)
    found = with_gaps(records, [inferred(NOW + 60 * MINUTE, 1)])
    assert told(found)[2:] == [(GAP, 1), ("inferred", 1)]


def test_epochs_that_one_target_answered_are_no_gap():
    """A superseded rebalance of a consumer group: the next begins at the epoch that further causes had raised it to."""
    began, ended = ledger(NOW, 2)
    superseded = ended | {"outcome": "superseded", "to_generation": 2, "generation": 5, "group_type": "consumer"}
    again = began | {"from_generation": 4, "generation": 5}
    assert not has_gap([began | {"generation": 3}, superseded, again, ended | {"generation": 5}])
