"""The judge: Kohort answers as Apache Kafka does, or `docs/unsupported.md` says where not and why (`make judge`)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records import group_records as g
from protocol.registry import APIS
from tests.reference.judge import catalog, compare, offsets_log
from tests.reference.judge.known import KNOWN, Known
from tests.reference.judge.play import Names, Scenario, Script, Step, Transcript
from tests.reference.judge.random_run import KINDS, history
from tests.reference.judge.run import Result, run
from tests.reference.judge.versions import LAST, NEWEST, VERSIONS, is_known, is_since
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
    found = run(tmp_path_factory.mktemp("judge"), catalog.everything(), compare.Rules.of(NEWEST))
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
    histories = [history(kind, seed) for kind in KINDS for seed in range(10)]
    found = run(tmp_path, histories, compare.Rules.of(NEWEST), threads=1)
    assert [str(difference) for difference in found.verdict.unlisted] == []
    assert found.broken == {}


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_no_row_is_stale(result: Result) -> None:
    assert result.verdict.stale == []


@pytest.mark.slow
@pytest.mark.xdist_group("judge")
def test_every_known_difference_is_still_there(result: Result) -> None:
    assert result.verdict.gone == []


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


@pytest.mark.long
@pytest.mark.xdist_group("judge")
@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_an_older_kafka_judges_too(tmp_path: Path, version: str) -> None:
    """Everything that it knows: what differs is so of the newest too, or a row says what has changed since."""
    need("java", "mvn")
    found = run(tmp_path, catalog.everything(), compare.Rules.of(version))
    print(found.report())
    assert [str(difference) for difference in found.verdict.unlisted] == []
    assert (found.broken, found.verdict.stale, found.verdict.gone) == ({}, [], [])


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
    verdict = compare.Verdict(found, compare.Rules(rows))
    assert [d.field for d in verdict.unlisted] == ["error_code", "step"]
    assert [row.reason for row in verdict.stale] == ["old"]


def test_a_row_may_name_the_two_values() -> None:
    """What differs otherwise in the same field, once listed, is told."""
    found = [compare.Difference("X01", "Heartbeat", 4, "error_code", 25, ours, 1) for ours in (0, 27)]
    table = f"{compare.HEADING}\n\n| S | A | F | W |\n|---|---|---|---|\n"
    rows = compare.listed(table + "| `X*` | `*` | `error_code=25/0` | because |\n")
    assert compare.Verdict(found, compare.Rules(rows)).unlisted == found[1:]


def test_after_a_step_that_one_broker_alone_has_the_rest_is_compared() -> None:
    """An answer that Kafka never gives does not hide what follows it."""

    def transcript(*steps: tuple[str, int]) -> Transcript:
        return Transcript([Step(actor, "SyncGroup", 5, {"error_code": code}) for actor, code in steps])

    found = compare.differences("X01", transcript(("a", 0), ("c", 0)), transcript(("a", 0), ("b", 27), ("c", 25)))
    assert [(d.step, d.field, d.kafka) for d in found] == [(2, "step", compare.MISSING), (3, "error_code", 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_row_takes_an_answer_that_is_not_known(version: str) -> None:
    """Each row of each field is given an answer that it fits and nobody has seen. Only what says ours takes it."""
    rules = compare.Rules.of(version)
    made_up = [(row, pattern, _made_up(row, pattern)) for row in rules.rows for pattern in row.fields]
    assert [(row.scenarios, pattern) for row, pattern, one in made_up if not row.fits(one)] == []
    taken = {pattern for row, pattern, one in made_up if rules.row_of(one) is not None}
    assert {pattern for pattern in taken if "=" in pattern and "*" in pattern.rpartition("/")[2]} == set()
    assert {pattern for pattern in taken if "=" not in pattern} == {p for p in taken if p.endswith(compare.WORDS)}


def _made_up(row: compare.Listed, pattern: str) -> compare.Difference:
    """A difference that one row and one of its fields fit, its values in no answer."""
    field, _, values = pattern.partition("=")
    kafka, _, ours = values.rpartition("/")
    kafka, ours = (text.replace("(not?there)", compare.MISSING).replace("?", " ") for text in (kafka, ours))
    return compare.Difference(
        row.scenarios[0].replace("*", "made-up"),
        row.answers[0],
        1,
        field.replace("*", "made.up.").replace("?", "0").rstrip("."),
        kafka.replace("*", "made up"),
        ours.replace("*", "made up"),
        1,
    )


def test_another_fault_in_an_answer_that_differs_as_listed_is_told() -> None:
    """What a static member that joins again is answered differs, and not by an error that nobody knows at epoch 999."""

    def heartbeat(error_code: int, epoch: int, assignment: list[int] | None) -> Transcript:
        outcome = {"error_code": error_code, "member_epoch": epoch, "assignment": assignment}
        return Transcript([Step("a", "ConsumerGroupHeartbeat", 1, outcome)] * 4)

    found = compare.differences("K39-static-again", heartbeat(0, 3, [0]), heartbeat(-1, 999, None))

    assert len(found) == 12
    assert compare.Verdict(found, compare.Rules.of(NEWEST)).unlisted == found


@pytest.mark.parametrize("scenario", ["K39-static-again", "K69-static-moves"])
def test_a_wrong_record_of_a_group_whose_records_differ_as_listed_is_told(scenario: str) -> None:
    theirs = [{"type": 5, "key": [f"{scenario}.g", member], "value": {"instance_id": "i"}} for member in "abc"]
    ours = [{"type": 3, "key": ["another"], "value": {"epoch": -7}, "value_version": 9}]

    found = compare.record_differences(scenario, theirs, ours)

    assert len(found) == 4
    assert compare.Verdict(found, compare.Rules.of(NEWEST)).unlisted == found


def test_null_in_the_place_of_a_list_that_differs_as_listed_is_told() -> None:
    """The cluster's dynamic defaults are empty here, and so a list without entries; None is none."""
    theirs = {"min.insync.replicas": {"value": "1", "read_only": False, "config_source": 3, "is_sensitive": False}}
    found = [compare.Difference("DescribeConfigs-v4", "DescribeConfigs", 4, "results.0.configs", theirs, None, 6)]
    assert compare.Verdict(found, compare.Rules.of(NEWEST)).unlisted == found


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


def test_what_is_known_is_read_as_it_is_written() -> None:
    """By values, place and version of Kafka; what is known of a scenario that was played, and was not seen, is told."""
    seen = [compare.Difference("X01", "Fetch", 4, "topics.0", None, {"a": "b: c / d"}, step) for step in (1, 2)]
    known = Known()
    known.rewrite(seen, {"X01"}, NEWEST)
    known.rewrite(seen[:1], {"X01"}, "4.3.1")
    known = Known.read(known.text())

    assert [(known.has(one, NEWEST), known.has(one, "4.3.1")) for one in seen] == [(True, True), (True, False)]
    assert not known.has(replace(seen[0], kohort=None), NEWEST)
    assert not known.has(replace(seen[0], version=5), NEWEST)
    assert known.gone([], {"X02"}, NEWEST) == []
    assert [line.split()[0] for line in known.gone(seen[1:], {"X01"}, NEWEST)] == ["X01/1/4"]
    known.rewrite([], {"X01"}, NEWEST)
    assert not known.has(seen[0], NEWEST)


def test_what_is_known_anywhere_needs_no_place() -> None:
    difference = compare.Difference("X01", "ApiVersions", 4, "a", 0, 1, 3)
    known = Known.read("ApiVersions a\n  kafka  0\n  kohort 1\n  4.4.0: *\n")
    known.rewrite([difference], {"X01"}, NEWEST)
    assert known.text() == "ApiVersions a\n  kafka  0\n  kohort 1\n  4.4.0: *\n"
    assert known.has(difference, NEWEST)
    assert known.gone([], {"X01"}, NEWEST) == []


def test_the_file_of_what_is_known_is_in_order() -> None:
    text = KNOWN.read_text()
    assert Known.read(text).text() == text


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_an_older_kafka_is_not_asked_what_it_does_not_know(version: str) -> None:
    """The table names real APIs, and versions that are served here; what it does not name is asked as ever."""
    served = {api.name: api.served for api in APIS.values()}
    assert {name for name, last in LAST[version].items() if not -1 <= last < served[name][1]} == set()
    for name, last in LAST[version].items():
        asked = range(served[name][0], served[name][1] + 1)
        assert [v for v in asked if is_known(name, v, version)] == [v for v in asked if v <= last]
        assert all(is_known(name, v, NEWEST) for v in asked)
    assert is_known("JoinGroup", 9, version)


def test_a_scenario_of_a_newer_kafka_is_left_out() -> None:
    assert [[is_since(since, by) for by in VERSIONS] for since in VERSIONS] == [
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]
    [newest] = [one for one in catalog.everything() if one.since == NEWEST]
    assert newest.id == "Produce-decompressed"


def test_a_scenario_ends_at_a_request_that_this_kafka_does_not_know() -> None:
    """Nothing of that is in its transcript, and what it would do in a later life is not played."""

    def act(script: Script) -> None:
        script.note("before", 1)
        script.client().call(TxnOffsetCommitRequest(), 6)
        script.note("behind", 2)

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        script = Script(Scenario("X01", {"main": act, "later": act}), address, 0, "4.3.1")
        for stage in ("main", "later"):
            script.play(stage)

    assert script.cut_at == "TxnOffsetCommit v6"
    assert [step.actor for step in script.transcript.steps] == ["before"]
    assert script.transcript.broke == ""


def test_the_list_can_be_read() -> None:
    rows = compare.listed() + compare.listed_of_older()
    assert all(row.reason for row in rows)
    assert {version for row in compare.listed_of_older() for version in row.versions} <= {*VERSIONS} - {NEWEST}
    assert {word for row in rows for word in row.answers if word.isalpha()} <= {
        *(api.name for api in APIS.values()),
        "record",
        "note",
    }
