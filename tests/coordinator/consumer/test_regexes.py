"""Subscriptions by regular expression. Ids are those of docs/scenarios."""

from __future__ import annotations

import contextlib
import time

import pytest

from coordinator.consumer.answers import Refused
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.consumer.inputs import RegexesResolved, ResolveRegexes
from coordinator.consumer.regexes import compiled, matching
from coordinator.offsets.inputs import DeleteOffsets
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.coordinator.consumer.driver import Driver

E = ErrorCode
TOPICS = {"pt1": 2, "pt2": 2, "other": 1}

ACCEPTED = [
    r"\d\w\s\b",
    r"[[:alpha:]]",
    r"\pL",
    r"\p{Lu}",
    r"(?P<n>a)",
    r"(?<n>a)",
    r"(?i)a",
    r"(?m)a",
    r"(?s)a",
    r"(?U)a",
    r"a*?",
    r"\Qa.\E",
    r"\Aa\z",
    r"\x41",
    r"\x{41}",
    r"\101",
    r"a{0,1000}",
    r"a{",
    r"a{,2}",
    r"[a-z&&[^b]]",
    r"(?i)A[[:digit:]]\.v\d+",
    r"\\C",
]
REFUSED = [
    r"a(?!b)",
    r"(?=a)",
    r"(?<=a)b",
    r"(?<!a)b",
    r"(a)\1",
    r"(?>a)",
    r"a++",
    r"a**",
    r"(?x)a",
    r"\Z",
    r"\h",
    r"\R",
    r"\X",
    r"\C",
    r"\\\C",
    r"\G",
    r"\e",
    r"\cA",
    r"\uFFFF",
    r"(?<n>a)\k<n>",
    r"\p{IsAlphabetic}",
    r"a{1001}",
    r"a{2,1}",
    r"(a",
    r"[a",
    "a\\",
]


@pytest.mark.parametrize("regex", ["", *ACCEPTED])
def test_k46_what_re2_takes(regex: str):
    """K46, 11.9."""
    compiled(regex)


@pytest.mark.parametrize("regex", REFUSED)
def test_k46_what_it_refuses_it_gives_a_reason_for(regex: str):
    """K46: INVALID_REGULAR_EXPRESSION."""
    with pytest.raises(Refused) as refused:
        compiled(regex)
    assert refused.value.error is E.INVALID_REGULAR_EXPRESSION
    assert repr(regex) in str(refused.value)
    assert len(str(refused.value)) > len(regex) + 30


def test_k47_the_whole_name_is_matched():
    """K47."""
    assert matching("pt", TOPICS) == set()
    assert matching("pt.", TOPICS) == {"pt1", "pt2"}
    assert matching("PT.", TOPICS) == set()
    assert matching("a[a-z&&[^b]]", ["ab]", "a&]"]) == {"ab]", "a&]"}


@pytest.mark.parametrize("regex", [r"(a*)*b", r"(a|aa)+$", r"(x+x+)+y", "(" * 900 + "a" + ")" * 900, "(a{30}){30}"])
def test_a_hostile_expression_costs_nobody_anything(regex: str):
    """11.9: its time is linear in what it matches."""
    names = ["a" * 249, "x" * 249, *(f"topic-{number}" for number in range(1_000))]
    began = time.process_time()
    with contextlib.suppress(Refused):
        matching(regex, names)
    assert time.process_time() - began < 1


def test_k45_an_expression_that_is_none_makes_no_group():
    """K45: with a reason."""
    broker = Driver(TOPICS)
    answer = broker.join("a", None, regex="(a")
    assert answer == E.INVALID_REGULAR_EXPRESSION
    assert "missing )" in (answer.message or "")
    assert not broker.log
    assert not broker.shard.consumer_groups
    broker.join("a", None, regex="pt.")
    assert broker.beat("a", regex="[") == E.INVALID_REGULAR_EXPRESSION
    assert broker.member("a").regex == "pt."


def test_k48_a_first_join_is_answered_before_the_expression_is_looked_up():
    """K48: epoch 1 and nothing; resolved, the group has epoch 2, and the next heartbeat the partitions."""
    broker = Driver(TOPICS)
    broker.hold_tasks()
    assert broker.join("a", None, regex="pt.") == (1, {})
    assert broker.written() == ["5", "8"]
    broker.run_tasks()
    assert broker.written() == ["16", "3"]
    assert broker.group.epoch == 2
    assert broker.beat("a") == (2, {"pt1": [0, 1], "pt2": [0, 1]})


def test_k49_a_new_topic_is_found_ten_seconds_after_the_last_look_up():
    """K49: by the first heartbeat then; nothing is looked up for one that matches nothing new until the interval."""
    broker = Driver(TOPICS)
    broker.join("a", None, regex="pt.")
    broker.settle()
    broker.with_topics({**TOPICS, "pt3": 1})
    broker.advance(10_000)
    broker.beat("a")
    assert broker.group.epoch == 2
    broker.advance(1)
    broker.beat("a")
    assert broker.group.epoch == 3
    assert broker.beat("a") == (3, {"pt1": [0, 1], "pt2": [0, 1], "pt3": [0]})
    broker.hold_tasks()
    broker.advance(40_000)
    broker.beat("a")
    assert not broker.tasks


def test_all_are_looked_up_again_when_the_interval_has_passed():
    """11.9: every ten minutes by default."""
    broker = Driver(TOPICS, session_timeout_ms=1_000_000)
    broker.join("a", None, regex="pt.")
    broker.hold_tasks()
    broker.advance(599_999)
    broker.beat("a")
    assert not broker.tasks
    broker.advance(1)
    broker.beat("a")
    assert len(broker.tasks) == 1
    broker.beat("a")
    assert len(broker.tasks) == 1
    broker.run_tasks()
    assert broker.written() == ["16"]
    assert broker.group.epoch == 2


def test_k50_a_known_expression_bumps_at_once_and_a_new_one_when_it_is_looked_up():
    """K50."""
    broker = Driver(TOPICS)
    broker.join("a", None, regex="pt.")
    broker.settle()
    broker.hold_tasks()
    assert broker.join("b", None, regex="pt.").epoch == 3
    assert "16" not in broker.written()
    assert not broker.tasks
    epoch = broker.group.epoch
    broker.join("c", None, regex="oth.*")
    assert broker.group.epoch == epoch
    broker.advance(10_001)
    broker.beat("c")
    broker.run_tasks()
    assert broker.group.epoch == epoch + 1


def test_k51_an_expression_goes_with_its_last_subscriber():
    """K51: who leaves, and who changes its mind."""
    broker = Driver(TOPICS)
    broker.join("a", None, regex="pt.")
    broker.join("b", None, regex="pt.")
    broker.leave("b")
    assert "-16" not in broker.written()
    broker.beat("a", regex="", names=["other"])
    assert broker.written()[:3] == ["5", "-16", "3"]
    assert not broker.group.regexes
    broker.beat("a", regex="pt.")
    broker.leave("a")
    assert broker.written() == ["-8", "-7", "-5", "-16", "3", "6"]


def test_a_result_for_an_expression_that_nobody_uses_any_more_is_dropped():
    """11.9: only what still has subscribers is written."""
    broker = Driver(TOPICS)
    broker.hold_tasks()
    broker.join("a", None, regex="pt.")
    broker.beat("a", regex="oth.*")
    broker.run_tasks()
    assert not broker.group.regexes
    broker.beat("a")
    assert set(broker.group.regexes) == {"oth.*"}


def test_a_look_up_that_failed_is_asked_for_again():
    """And one that never came back, after a minute."""
    broker = Driver(TOPICS, session_timeout_ms=1_000_000)
    broker.hold_tasks()
    broker.join("a", None, regex="pt.")
    broker.tasks.clear()
    broker.feed(RegexesResolved("g", None))
    broker.beat("a")
    assert len(broker.tasks) == 1
    broker.tasks.clear()
    broker.advance(59_999)
    broker.beat("a")
    assert not broker.tasks
    broker.advance(1)
    broker.beat("a")
    assert [type(task) for task in broker.tasks] == [ResolveRegexes]
    broker.run_tasks()
    broker.feed(RegexesResolved("nobody", {"pt.": frozenset()}, 1))


def test_k52_what_the_one_who_asked_may_not_know_of_is_left_out():
    """K52."""
    broker = Driver(TOPICS)
    broker.hidden["shy"] = {"pt2"}
    broker.join("a", None, regex="pt.", who="shy")
    assert broker.group.regexes["pt."].topics == {"pt1"}


def test_k53_names_and_an_expression_are_a_union():
    """K53: and offsets of both are in use."""
    broker = Driver(TOPICS)
    broker.join("a", ["other"], regex="pt1")
    broker.settle()
    assert broker.held("a") == {"other": [0], "pt1": [0, 1]}
    broker.commit("a", broker.member("a").epoch, {"other": {0: 1}, "pt1": {0: 1}})
    asked = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("other", "pt1", "pt2")
    ]
    answer = broker.ask(DeleteOffsets("g", asked, None))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.NONE,
    ]


def test_k53_a_topic_that_one_names_beside_everybodys_expression_is_that_ones():
    """K53, 11.4: with a name beside it the subscriptions differ, whatever the expression matches."""
    broker = Driver({"pt1": 2, "pt2": 2, "other": 2})
    broker.settings = altered(broker.settings, assignors=ASSIGNORS)
    broker.join("a", [], regex="pt.")
    broker.join("b", ["other"], regex="pt.")
    broker.advance(1_000)
    broker.settle("a", "b")
    broker.settle("a", "b")
    assert broker.held("b")["other"] == [0, 1]
    assert "other" not in broker.held("a")
    assert sum(map(len, [*broker.held("a").values(), *broker.held("b").values()])) == 6


def test_a_deleted_topic_drops_out_before_the_next_look_up():
    """11.9: by the metadata."""
    broker = Driver(TOPICS)
    broker.join("a", None, regex="pt.")
    broker.settle()
    broker.with_topics({"pt1": 2, "other": 1})
    assert broker.beat("a", owned={"pt1": [0, 1]}) == (3, {"pt1": [0, 1]})
    assert broker.group.regexes["pt."].topics == {"pt1", "pt2"}
