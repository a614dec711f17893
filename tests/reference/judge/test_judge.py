"""The judge: Kohort answers as Apache Kafka does, or `docs/unsupported.md` says where not and why (`make judge`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.records import group_records as g
from protocol.registry import APIS
from tests.reference.judge import catalog, compare, offsets_log
from tests.reference.judge.play import Names, Step, Transcript
from tests.reference.judge.random_run import KINDS, history
from tests.reference.judge.run import Result, run
from tests.support.broker_process import need

# What these answer without SASL is an error; these have none to give, up to the version that has.
NEVER_RIGHT = {
    "SaslHandshake",
    "SaslAuthenticate",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    "UnregisterBroker",
    "DescribeAcls",  # there is no authorizer
    "GetTelemetrySubscriptions",  # its right answer is a note: it is made up anew each time
}
NEVER_WRONG = {"ListGroups", "DescribeLogDirs", "ListPartitionReassignments"}
NOT_YET_WRONG = {
    *(("DescribeGroups", v) for v in range(6)),
    *(("ApiVersions", v) for v in range(3)),
    ("DescribeCluster", 0),
    ("FindCoordinator", 0),
    ("ListConfigResources", 0),
    *(("ListTransactions", v) for v in range(2)),
    *(("OffsetFetch", v) for v in range(1, 8)),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    need("java", "mvn")
    found = run(tmp_path_factory.mktemp("judge"), catalog.everything(), compare.listed())
    print(found.report())
    yield found


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_every_difference_is_listed(result: Result) -> None:
    assert [str(difference) for difference in result.verdict.unlisted] == []


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_random_histories_are_answered_as_by_kafka(tmp_path: Path) -> None:
    """A few of each kind; `make judge-random` plays as many as one likes."""
    need("java", "mvn")
    found = run(tmp_path, [history(kind, seed) for kind in KINDS for seed in range(10)], compare.listed(), threads=1)
    assert [str(difference) for difference in found.verdict.unlisted] == []
    assert found.broken == {}


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_no_row_is_stale(result: Result) -> None:
    assert result.verdict.stale == []


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_every_version_is_asked_in_an_ordinary_way_and_in_a_wrong_one(result: Result) -> None:
    counts = compare.coverage(result.transcripts.values())
    every = {(api.name, v) for api in APIS.values() for v in range(api.served[0], api.served[1] + 1)}
    assert {key for key in every if not counts[key][0]} == {key for key in every if key[0] in NEVER_RIGHT}
    assert {key for key in every if not counts[key][1]} == {key for key in every if key[0] in NEVER_WRONG} | {
        key for key in every if key in NOT_YET_WRONG
    }


def test_there_are_three_hundred_scenarios() -> None:
    assert len(catalog.everything()) >= 300


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_every_scenario_plays_to_its_end(result: Result) -> None:
    assert result.broken == {}


def test_a_difference_is_found_field_by_field() -> None:
    """The judge itself: one other field, one field more, one step less; what is listed is not reported."""

    def transcript(*outcomes: object) -> Transcript:
        return Transcript([Step("a", "Heartbeat", 4, outcome) for outcome in outcomes])

    theirs = transcript({"error_code": 0, "list": [1, 2]}, {"error_code": 0}, {"error_code": 0})
    ours = transcript({"error_code": 25, "list": [1]}, {"error_code": 0, "more": 1})

    found = compare.differences("X01", theirs, ours)

    assert [(d.step, d.field) for d in found] == [(1, "error_code"), (1, "list.1"), (2, "more"), (3, "step")]
    table = f"{compare.HEADING}\n\n| S | A | F | W |\n|---|---|---|---|\n"
    rows = compare.listed(table + "| `X*` | `Heartbeat` | `list.* more` | because |\n| `Y01` | `*` | `*` | old |\n")
    verdict = compare.Verdict(found, rows)
    assert [d.field for d in verdict.unlisted] == ["error_code", "step"]
    assert [row.reason for row in verdict.stale] == ["old"]


def test_a_row_may_name_the_two_values() -> None:
    """What differs otherwise in the same field, once listed, is told."""
    found = [compare.Difference("X01", "Heartbeat", 4, "error_code", 25, ours, 1) for ours in (0, 27)]
    table = f"{compare.HEADING}\n\n| S | A | F | W |\n|---|---|---|---|\n"
    rows = compare.listed(table + "| `X*` | `*` | `error_code=25/0` | because |\n")
    assert compare.Verdict(found, rows).unlisted == found[1:]


def test_after_a_step_that_one_broker_alone_has_the_rest_is_compared() -> None:
    """An answer that Kafka never gives does not hide what follows it."""

    def transcript(*steps: tuple[str, int]) -> Transcript:
        return Transcript([Step(actor, "SyncGroup", 5, {"error_code": code}) for actor, code in steps])

    found = compare.differences("X01", transcript(("a", 0), ("c", 0)), transcript(("a", 0), ("b", 27), ("c", 25)))
    assert [(d.step, d.field, d.kafka) for d in found] == [(2, "step", compare.MISSING), (3, "error_code", 0)]


def test_one_record_more_or_less_is_one_difference() -> None:
    """What follows it is compared with what it is; so is one that has the same key and another value."""

    def records(*values: tuple[str, int]) -> list[dict[str, Any]]:
        return [{"type": 1, "key": ["g", topic, 0], "value": {"offset": offset}} for topic, offset in values]

    theirs = records(("t", 1), ("t", 2), ("u", 3), ("t", 4), ("v", 5))

    def told(*values: tuple[str, int]) -> list[tuple[str, int]]:
        return [(d.field, d.step) for d in compare.record_differences("X", theirs, records(*values))]

    assert told(("t", 1), ("u", 3), ("t", 4), ("v", 5)) == [("outcome", 2)]
    assert told(("w", 0), ("t", 1), ("t", 2), ("u", 3), ("t", 4), ("v", 5)) == [("outcome", 1)]
    assert told(("t", 1), ("t", 2), ("u", 9), ("t", 4), ("v", 5)) == [("value.offset", 3)]
    assert told(("t", 1), ("u", 9), ("t", 4), ("v", 5)) == [("outcome", 2), ("value.offset", 3)]


def test_records_of_one_kind_of_several_members_have_no_order() -> None:
    """They have that of a hash map in Kafka; what is of one member, or of two kinds, stays as it was written."""
    of_a, of_b = (g.ConsumerGroupCurrentMemberAssignmentKey("X01.g", member) for member in "ab")
    subscribed = g.ConsumerGroupMemberMetadataKey("X01.g", "a")

    def plain(*keys: g.GroupKey) -> list[str]:
        written: list[offsets_log.Entry] = [(key, None) for key in keys]
        return [f"{r['type']} {r['key'][-1]}" for r in offsets_log.plain(written, Names("X01.", "X01."), expiry=True)]

    assert plain(of_b, of_a, subscribed) == plain(of_a, of_b, subscribed) == ["8 a", "8 b", "5 a"]
    assert plain(subscribed, of_b, of_a) == ["5 a", "8 a", "8 b"]


def test_none_in_a_list_is_not_nothing() -> None:
    theirs, ours = (Transcript([Step("a", "Heartbeat", 4, {"list": some})]) for some in ([None], []))
    assert [(d.field, d.kafka, d.kohort) for d in compare.differences("X", theirs, ours)] == [
        ("list.0", None, compare.MISSING)
    ]


def test_the_list_can_be_read() -> None:
    assert all(row.reason for row in compare.listed())
    assert {word for row in compare.listed() for word in row.answers if word.isalpha()} <= {
        *(api.name for api in APIS.values()),
        "record",
        "note",
    }
