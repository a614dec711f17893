"""What the ledger is told of consumer groups: each way to a new epoch has its cause, and its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.cause import TRIGGERS
from protocol.errors import ErrorCode as E
from tests.coordinator.consumer.driver import REBALANCE, SESSION, Driver
from tests.coordinator.consumer.test_moving import Mixed


def began(broker: Driver) -> list[tuple[str, str | None]]:
    """Triggers and members of what began."""
    return [
        (event.facts["trigger"], event.facts["member_id"]) for event in broker.events if event.kind == "rebalance_began"
    ]


def ended(broker: Driver) -> list[tuple[str, int, int]]:
    """Outcome, from and to."""
    return [
        (event.facts["outcome"], event.facts["from_generation"], event.facts["to_generation"])
        for event in broker.events
        if event.kind == "rebalance_ended"
    ]


def last(broker: Driver, kind: str = "rebalance_ended") -> Any:
    return next(event for event in reversed(broker.events) if event.kind == kind)


def test_a_first_member_is_at_its_epoch_at_once():
    broker = Driver()
    broker.join("a")
    assert began(broker) == [("member_joined", "a")]
    assert ended(broker) == [("stable", 1, 2)]
    facts = last(broker).facts
    assert (facts["duration_ms"], facts["stopped_ms"], facts["protocol"]) == (0, 0, "uniform")


def test_a_rebalance_lasts_until_the_last_member_is_there_and_names_who_was_waited_for():
    """The worked example of 11.11, with time between its steps."""
    broker = Driver()
    broker.stable("a")
    broker.advance(1_000)
    broker.join("b")
    assert began(broker) == [("member_joined", "b")]
    broker.advance(200)
    broker.beat("a")  # is told to give 2 and 3 up
    broker.advance(3_000)
    broker.beat("b")
    assert ended(broker) == []
    broker.beat("a", owned={"t": [0, 1]})
    broker.advance(500)
    broker.beat("b")

    assert ended(broker) == [("stable", 2, 3)]
    facts = last(broker).facts
    assert (facts["slowest_to_revoke"]["member_id"], facts["slowest_to_revoke"]["after_ms"]) == ("a", 3_000)
    assert (facts["slowest_to_sync"]["member_id"], facts["slowest_to_sync"]["after_ms"]) == ("b", 3_700)
    assert (facts["stopped_ms"], facts["duration_ms"]) == (3_500, 3_700)  # of 2 and 3, which nobody read
    assert broker.group.tracking.rebalance is None


def test_what_raises_the_epoch_before_its_target_is_a_further_cause_and_later_supersedes():
    broker = Driver(interval_ms=1_000)
    broker.stable("a")
    broker.join("b")
    broker.join("c")  # within the interval: no target yet
    assert began(broker) == [("member_joined", "b")]
    broker.advance(1_000)
    broker.beat("a")
    assert broker.group.target_epoch == broker.group.epoch == 4
    broker.advance(1_000)
    broker.join("d")

    assert began(broker) == [("member_joined", "b"), ("member_joined", "d")]
    assert ended(broker) == [("superseded", 2, 2)]
    told = last(broker)
    assert [cause.member_id for cause in told.epochs.further_causes] == ["c"]
    assert told.facts["by"] == broker.group.tracking.rebalance.rebalance_id  # type: ignore[union-attr]
    broker.settle()
    assert ended(broker)[-1] == ("stable", 4, 5)


def test_a_heartbeat_that_changes_nothing_leaves_the_very_same_group():
    """Nothing that the ledger is told of costs a group in which nothing happens."""
    broker = Driver()
    broker.stable("a", "b")
    group = broker.group
    broker.beat("a", owned=broker.held("a"))
    assert broker.group is group


def test_refused_records_leave_the_history_as_it_was():
    broker = Driver()
    broker.stable("a")
    tracking = broker.group.tracking
    broker.fail_appends(E.NOT_COORDINATOR)
    broker.join("b")
    assert broker.group.tracking == tracking


def test_the_rest_of_a_way_that_a_restart_cut_off_is_told():
    broker = Driver()
    broker.stable("a")
    broker.join("b")
    broker.beat("a")
    broker.events.clear()
    broker.reload()
    assert began(broker) == [("coordinator_restarted", None)]
    assert last(broker, "rebalance_began").facts["from_generation"] == 2
    broker.settle()
    assert ended(broker) == [("stable", 2, 3)]


def test_a_group_that_was_stable_has_nothing_to_tell_after_a_restart():
    broker = Driver()
    broker.stable("a", "b")
    broker.events.clear()
    broker.reload()
    assert broker.kinds() == ["coordinator_loaded"]


def _subscription(broker: Driver) -> None:
    broker.beat("a", names=("t", "u"))


def _topic_grows(broker: Driver) -> None:
    broker.with_topics({"t": 6, "u": 2})
    broker.beat("a")


def _regex(broker: Driver) -> None:
    broker.beat("a", regex="u.*")


def _slow(broker: Driver) -> None:
    broker.join("c")
    broker.beat("b")
    for _ in range(2):
        broker.advance(REBALANCE // 2)
        for member_id in broker.group.members:
            broker.beat(member_id, owned={"t": [2, 3]} if member_id == "b" else None)


def _replaced(broker: Driver) -> None:
    broker.join("s1", instance_id="s")
    broker.settle()
    broker.leave("s1", "s", epoch=-2)
    broker.join("s2", ("t", "u"), instance_id="s")


def _assignor(broker: Driver) -> None:
    broker.beat("a", assignor="range")


def _restart(broker: Driver) -> None:
    broker.join("c")
    broker.reload()


def _classic_is_late(broker: Mixed, waits_for: str) -> None:
    broker.classic_join(new_id="k")
    if waits_for == "join":
        for _ in range(3):
            broker.beat("a", owned=broker.held("a"))
            broker.beat("b", owned=broker.held("b"))
            broker.classic_join("k", owned=broker.held("k"))
        epoch = broker.member("k").epoch
        broker.classic_sync("k", epoch)
        broker.join("c")
    for _ in range(6):
        for member_id in ("a", "b"):
            broker.beat(member_id)
        broker.classic_beat("k", broker.member("k").epoch)
        broker.advance(5_000)


PATHS: list[tuple[str, str | None, Callable[[Mixed], object]]] = [
    ("member_joined", "c", lambda broker: broker.join("c")),
    ("member_left", "b", lambda broker: broker.leave("b")),
    ("session_expired", "b", lambda broker: (broker.advance(SESSION - 1), broker.beat("a"), broker.advance(1))),
    ("subscription_changed", "a", _subscription),
    ("partitions_changed", None, _topic_grows),
    ("regex_changed", "a", _regex),
    ("rebalance_timeout", "b", _slow),
    ("static_replaced", "s2", _replaced),
    ("assignor_changed", "a", _assignor),
    ("member_removed", "b", lambda broker: broker.leave_group(("b", None), reason="member was removed by an admin")),
    ("poll_timeout", "b", lambda broker: broker.leave_group(("b", None), reason="consumer poll timeout has expired.")),
    ("coordinator_restarted", None, _restart),
    ("join_timeout", "k", lambda broker: _classic_is_late(broker, "join")),
    ("sync_timeout", "k", lambda broker: _classic_is_late(broker, "sync")),
]


@pytest.mark.parametrize(("trigger", "member_id", "happens"), PATHS, ids=[path[0] for path in PATHS])
def test_every_way_to_a_new_epoch_has_its_cause(
    trigger: str, member_id: str | None, happens: Callable[[Mixed], object]
):
    broker = Mixed({"t": 4, "u": 2})
    broker.stable("a", "b")
    happens(broker)
    rebalance = broker.group.tracking.rebalance
    further = [] if rebalance is None else [(one.trigger, one.member_id) for one in rebalance.further_causes]
    for event in broker.events:
        if event.kind == "rebalance_ended":
            further += [(one.trigger, one.member_id) for one in event.epochs.further_causes]
    assert (trigger, member_id) in began(broker) + further


def test_every_trigger_of_such_groups_has_a_path():
    of_classic = {"leader_rejoined", "cooperative_followup", "append_failed", "over_capacity"}
    assert {path[0] for path in PATHS} | of_classic | {"migrated"} == TRIGGERS


def test_a_topic_that_was_made_anew_is_told_as_that():
    broker = Driver({"t": 4})
    broker.stable("a")
    before = broker.topics.topic_id
    broker.with_topics({"t": 4})
    broker.topics.topic_id = lambda name: b"anew".ljust(16, b"\0") if name == "t" else before(name)  # type: ignore[method-assign]
    broker.checks = False
    broker.beat("a")
    assert last(broker, "rebalance_began").facts["made_anew"] == ["t"]


def test_what_a_pattern_has_come_to_stand_for_is_the_cause():
    broker = Driver({"t1": 1})
    broker.join("a", None, regex="t.*")
    broker.settle()
    assert began(broker) == [("member_joined", "a")]  # its pattern was looked up after it had joined
    broker.events.clear()
    broker.with_topics({"t1": 1, "t2": 1})
    broker.advance(11_000)
    broker.beat("a")
    assert began(broker) == [("regex_changed", None)]
    assert last(broker, "rebalance_began").facts["regexes"] == {"t.*": {"added": ["t2"], "removed": []}}


def test_a_silent_member_is_told_with_its_timeout_and_what_it_had_is_nobodys():
    broker = Driver()
    broker.stable("a", "b")
    broker.advance(SESSION - 1)
    broker.beat("a")
    broker.advance(1)
    facts = last(broker, "rebalance_began").facts
    assert (facts["session_timeout_ms"], facts["last_heard_ms"]) == (SESSION, None)  # the edge knows
    broker.advance(2_000)
    broker.beat("a")
    assert ended(broker) == [("stable", 3, 4)]
    assert last(broker).facts["stopped_ms"] == 2_000


def test_who_is_refused_because_another_holds_its_instance_id_is_told():
    broker = Driver()
    broker.join("a", instance_id="s", client_id="first")
    assert broker.join("b", instance_id="s", client_id="second") == E.UNRELEASED_INSTANCE_ID
    facts = last(broker, "member_fenced").facts
    assert (facts["client_id"], facts["holder_client_id"], facts["api"]) == (
        "second",
        "first",
        "ConsumerGroupHeartbeat",
    )


def test_the_last_one_leaves_an_empty_group():
    broker = Driver()
    broker.stable("a")
    broker.leave("a")
    assert (began(broker), ended(broker)) == ([("member_left", "a")], [("empty", 2, 3)])


def test_a_group_that_goes_over_to_the_new_protocol_and_back_says_so():
    """11.8: the rebalance that went on in the classic group is superseded, and the one that goes on here too."""
    broker = Mixed()
    broker.classic_group("old")
    broker.classic_join(new_id="other")
    broker.events.clear()
    broker.join("a")
    superseded, migrated = [event for event in broker.events if event.kind.startswith("rebalance_")]
    assert (superseded.facts["outcome"], superseded.group_type) == ("superseded", "classic")
    assert migrated.facts["rebalance_id"] == superseded.facts["by"]
    facts = migrated.facts
    assert (facts["trigger"], facts["because"], facts["member_id"]) == ("migrated", "member_joined", "a")
    assert (facts["old"], facts["new"]) == ("classic", "consumer")
    broker.events.clear()

    broker.leave("a")
    superseded, migrated = [event for event in broker.events if event.kind.startswith("rebalance_")]
    assert (superseded.facts["outcome"], superseded.group_type) == ("superseded", "consumer")
    assert (migrated.group_type, migrated.facts["rebalance_id"]) == ("classic", superseded.facts["by"])
    facts = migrated.facts
    assert (facts["trigger"], facts["because"], facts["member_id"]) == ("migrated", "member_left", "a")


def test_a_classic_process_that_takes_the_last_place_without_a_rebalance_is_told():
    """K69."""
    broker = Mixed()
    broker.stable("a", instance_id="i")
    broker.leave("a", "i", epoch=-2)
    broker.classic_join(instance_id="i", new_id="old")
    facts = last(broker, "member_replaced").facts
    assert (facts["old_member_id"], facts["new_member_id"]) == ("a", "old")
    assert began(broker) == []
