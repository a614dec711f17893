"""The rebalance ledger of consumer groups (KIP-848), from heartbeats to the records that lie in its topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.groups.ledger.event_records import interrupted
from broker.groups.ledger.group_history import holdings_of
from coordinator.classic.ownership import by_topic
from coordinator.why import cause_words, words
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchTopic
from protocol.records.ledger import KINDS, LedgerMember, decode_whole, encode_value, numbers
from tests.support.ledger_fixture import House

SESSION_MS = 45_000
EVERY_MS = 5_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(
        tmp_path / "data", group_consumer_assignment_interval_ms=0, group_consumer_min_assignment_interval_ms=0
    )
    made.topic("t", 4)
    made.coordinator()
    yield made
    for record in made.log():
        assert record.keys() == KINDS[record["kind"]].__annotations__.keys(), record["kind"]
        for member in record.get("members", ()) if isinstance(record.get("members"), list) else ():
            assert member.keys() == LedgerMember.__annotations__.keys()


def changes(record: dict[str, Any]) -> dict[str, str]:
    return {member["client_id"]: member["change"] for member in record["members"]}


def two_members(house: House) -> None:
    """A group of `a` and `b`, two partitions each."""
    house.beat("a", 0, topics=("t",))
    house.beat("b", 0, topics=("t",))
    house.settle("a", "b")


def test_a_member_that_joins_takes_over_what_the_other_gives_up(house: House):
    house.beat("a", 0, topics=("t",))
    house.beat("b", 0, topics=("t",))
    house.advance(300)
    house.beat("a", owned={"t": [0, 1, 2, 3]})  # learns that it must give two up
    house.advance(2_000)
    in_progress = house.ledger.in_progress("g")
    assert in_progress is not None
    assert (in_progress["phase"], in_progress["missing"][0]["client_id"]) == ("revoke", "a")
    assert in_progress["missing"][0]["for_ms"] == 2_000
    assert words.in_progress(in_progress).endswith("it waits for a (10.0.0.1) to give up what it must")
    house.settle("a", "b")

    first, second = house.ended()
    assert (first["group_type"], first["from_generation"], first["to_generation"]) == ("consumer", 1, 2)
    assert (first["partitions_total"], first["partitions_moved"], changes(first)) == (4, 4, {"a": "joined"})
    assert (second["from_generation"], second["to_generation"], second["outcome"]) == (2, 3, "stable")
    assert (second["first_cause"]["trigger"], second["first_cause"]["client_id"]) == ("member_joined", "b")
    assert changes(second) == {"a": "stayed", "b": "joined"}
    assert (second["partitions_moved"], second["mode"], second["protocol"]) == (2, "cooperative", "uniform")
    assert (second["slowest_to_revoke"]["client_id"], second["slowest_to_revoke"]["after_ms"]) == ("a", 2_000)
    assert second["stopped_ms"] == 2_000
    moved = {(topic, number): (was, now) for topic, number, was, now in second["moves"]}
    assert set(moved.values()) == {("a", "b")}
    told = words.consequences(second)
    assert told == (
        "waited 2.0 s for a to give up what moved; 2 of 4 partitions moved; what moved stood still for 2.0 s at most"
    )
    assert house.ledger.in_progress("g") is None


def test_a_member_that_is_silent_is_told_with_when_it_was_heard_of(house: House):
    two_members(house)
    for _ in range(9):
        house.advance(EVERY_MS)
        house.beat("a")
    house.beat("a")
    ended = house.ended()[-1]
    cause = ended["first_cause"]
    assert (cause["trigger"], cause["client_id"]) == ("session_expired", "b")
    assert cause["detail"]["last_heard_ms"] == cause["detail"]["session_timeout_ms"] == SESSION_MS
    assert cause["detail"]["last_api"] == "ConsumerGroupHeartbeat"
    assert changes(ended) == {"a": "stayed", "b": "expired"}
    assert "was silent for 45.0 s since its ConsumerGroupHeartbeat, its session timeout" in words.causes(ended)


def reads(house: House, client: str, *partitions: int) -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=number) for number in partitions])]
    house.ledger.unread.fetched((client, f"/{house.host}"), topics, lambda topic: topic.topic)
    house.turn()


def test_what_a_silent_member_had_goes_unread_from_its_last_sign_to_the_first_fetch_of_the_other(house: House):
    two_members(house)
    reads(house, "b", *range(4))
    before = [one for one in house.log() if one["kind"] == "partitions_read"]
    for _ in range(9):
        house.advance(EVERY_MS)
        house.beat("a")
    house.advance(400)
    assert [one for one in house.log() if one["kind"] == "partitions_read"] == before
    (lost,) = [one["lost"] for one in house.ended()[-1]["members"] if one["client_id"] == "b"]
    reads(house, "a", *numbers(lost["t"]))
    told = house.log()[-1]
    assert (told["kind"], told["rebalance_id"]) == ("partitions_read", house.ended()[-1]["rebalance_id"])
    assert (told["partitions"], told["still_unread"], told["unread_ms"]) == (2, 0, SESSION_MS + 400)
    assert not house.ledger.unread.waiting


def test_a_partition_that_is_read_before_the_others_have_come_is_told_with_them(house: House):
    house.beat("a", 0, topics=("t",))
    house.settle("a")
    house.beat("b", 0, topics=("t",))
    house.beat("c", 0, topics=("t",))
    house.beat("a", owned={"t": [0, 1, 2, 3]})  # learns that it must give two up
    house.advance(700)
    group = house.broker.groups.leader_of("g").shard.consumer_groups["g"]
    house.beat("a", owned=by_topic(holdings_of(group, house.broker.catalogue.image)["a"].partitions))
    house.beat("b")
    reads(house, "b", *range(4))
    house.advance(300)
    assert not [one for one in house.log() if one["kind"] == "partitions_read"]
    house.settle("a", "b", "c")
    reads(house, "c", *range(4))
    told = house.log()[-1]
    assert (told["kind"], told["rebalance_id"]) == ("partitions_read", house.ended()[-1]["rebalance_id"])
    assert (told["partitions"], told["still_unread"], told["unread_ms"]) == (2, 0, 1_000)
    assert words.unread(told) == f"2 partitions went unread, t-{told['partition']} longest: 1.0 s"


def test_what_nobody_had_is_counted_from_the_last_who_left(house: House):
    house.beat("a", 0, topics=("t",))
    house.settle("a")
    house.beat("a", -1)
    house.advance(60_000)
    house.beat("b", 0, topics=("t",))
    house.settle("b")
    reads(house, "b", *range(4))
    assert (house.log()[-1]["partitions"], house.log()[-1]["unread_ms"]) == (4, 60_000)


def test_a_static_member_that_comes_back_moves_nothing(house: House):
    """No rebalance, one member_replaced; the next rebalance calls nobody new."""
    house.beat("s1", 0, topics=("t",), instance_id="s")
    house.beat("s1", -2, instance_id="s")
    house.advance(4_000)
    house.host = "10.0.0.2"
    house.beat("s2", 0, topics=("t",), instance_id="s")
    replaced = house.log()[-1]
    assert replaced["kind"] == "member_replaced"
    assert (replaced["old_client_host"], replaced["client_host"]) == ("/10.0.0.1", "/10.0.0.2")
    assert replaced["away_ms"] == 4_000
    house.beat("b", 0, topics=("t",))
    house.settle("s2", "b", instances={"s2": "s"})
    ended = house.ended()[-1]
    assert (changes(ended), ended["partitions_moved"]) == ({"s2": "stayed", "b": "joined"}, 2)


def test_a_crash_on_the_way_to_an_epoch_is_told_and_what_came_of_it(house: House):
    house.beat("a", 0, topics=("t",))
    house.beat("b", 0, topics=("t",))
    house.crash()
    house.start()
    house.settle("a", "b")
    outcomes = [(one["outcome"], one["from_generation"], one["to_generation"]) for one in house.ended()]
    assert outcomes == [("stable", 1, 2), ("interrupted", 2, 2), ("stable", 2, 3)]
    assert house.ended()[-1]["first_cause"]["trigger"] == "coordinator_restarted"
    assert house.ended()[-1]["partitions_moved"] is None  # nobody knows what they had


def test_after_a_clean_restart_the_next_move_is_told_against_what_was(house: House):
    two_members(house)
    house.stop()
    house.start()
    house.beat("c", 0, topics=("t",))
    house.settle("a", "b", "c")
    ended = house.ended()[-1]
    assert changes(ended) == {"a": "stayed", "b": "stayed", "c": "joined"}
    assert ended["partitions_moved"] == 1


def test_refused_commits_of_a_stale_epoch_are_counted(house: House):
    two_members(house)
    for _ in range(30):
        answer = house.commit({0: 5}, member_id="b", generation=99, client="b", version=9)
        assert answer.response.topics[0].partitions[0].error_code == ErrorCode.STALE_MEMBER_EPOCH
    house.advance(1_000)
    refused = house.log()[-1]
    assert (refused["kind"], refused["count"], refused["error"]) == ("commits_refused", 30, "STALE_MEMBER_EPOCH")
    assert words.event(refused) == "b's commits were refused 30 times: epoch 99, the group was at 3"


def test_offsets_that_an_administrator_sets_and_the_end_of_the_group(house: House):
    house.beat("a", 0, topics=("t",))
    house.beat("a", -1)
    house.commit({0: 5}, client="admin")
    house.delete_group()
    kinds = [record["kind"] for record in house.log()]
    assert kinds[-3:] == ["offsets_changed", "offsets_changed", "group_removed"]
    assert [one["outcome"] for one in house.ended()] == ["stable", "empty"]
    changed = house.log()[-3]
    assert (changed["group_type"], changed["client_id"]) == ("consumer", "admin")
    assert changed["offsets"] == [{"topic": "t", "partition": 0, "from": None, "to": 5}]
    assert house.log()[-1]["client_id"] == "admin"


def test_a_classic_group_that_goes_over_keeps_its_history(house: House):
    a, _ = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.beat("new", 0, topics=("t",))
    began = house.log()[-1]
    assert (began["kind"], began["cause"]["trigger"], began["from_generation"]) == ("rebalance_began", "migrated", 1)
    assert (
        cause_words.cause(began["cause"]) == "new (10.0.0.1) joined, and the group went over to the consumer protocol"
    )
    assert began["group_type"] == "consumer"
    del a


def test_metrics_count_such_rebalances(house: House):
    two_members(house)
    figures = house.broker.group_figures.groups["g"]
    assert figures.rebalances == {"member_joined": 2}
    assert sum(figures.phase_counts["assign"]) == sum(figures.phase_counts["sync"]) == 2


def test_a_group_s_live_state_has_its_epochs(house: House):
    two_members(house)
    live = house.ledger.live("g")
    assert live is not None
    assert (live["state"], live["generation"], live["target_epoch"], live["group_type"]) == ("Stable", 3, 3, "consumer")
    assert sorted(member["partitions"]["t"] for member in live["members"]) == ["0-1", "2-3"]
    assert {member["epoch"] for member in live["members"]} == {3}


def test_an_epoch_that_everybody_had_reached_before_a_crash_is_told_with_its_members(house: House):
    """The ledger is written after the answers: the end of the rebalance may be missing, and its members be there."""
    two_members(house)
    began = next(one for one in house.log() if one["kind"] == "rebalance_began")
    group = house.broker.groups.leader_of("g").shard.consumer_groups["g"]
    common = {"coordinator_partition": 0, "broker_epoch": 1}

    told = decode_whole(encode_value(interrupted(began, group, house.broker.catalogue.image, common, began["at_ms"])))

    assert changes(told) == {"a": "stayed", "b": "stayed"}
    assert told["to_generation"] == group.epoch


def test_any_offset_that_somebody_sets_is_told(house: House):
    """A mistake of many digits is what one looks for."""
    two_members(house)
    house.beat("a", -1)
    house.beat("b", -1)
    changed = [{"topic": "t", "partition": 0, "from": 1, "to": (1 << 63) - 1}]
    record = {**house.log()[-1], "kind": "offsets_changed", "by": "client", "client_id": "c", "client_host": "/1"}

    assert decode_whole(encode_value({**record, "offsets": changed, "truncated": 0}))["offsets"] == changed
