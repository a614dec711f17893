"""The rebalance ledger, from requests to the records that lie in its topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.catalogue.internal_topics import LEDGER_TOPIC, OFFSETS_TOPIC
from broker.groups.ledger.event_records import record_of
from broker.groups.ledger.group_history import GroupHistory
from broker.handlers import metadata as metadata_handlers
from broker.partitions import PartitionFailed
from coordinator.events import DepartureTraced, GroupEvent
from coordinator.routing import partition_for
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from protocol.records.ledger import KINDS, RECORD_MAX_BYTES, LedgerMember, decode_value, encode_value
from storage.errors import StorageError
from tests.support.ledger_fixture import SESSION_MS, House

ALL = {"t": [0, 1, 2, 3]}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "data")
    made.topic("t", 4)
    yield made
    for record in made.log():
        declared = KINDS[record["kind"]].__annotations__
        inherited = KINDS[record["kind"]].__mro__
        assert record.keys() == declared.keys(), (record["kind"], inherited)
        for member in record.get("members", ()) if isinstance(record.get("members"), list) else ():
            assert member.keys() == LedgerMember.__annotations__.keys()


def kinds(house: House) -> list[str]:
    return [record["kind"] for record in house.log()]


def only(house: House, kind: str) -> dict[str, Any]:
    (record,) = [record for record in house.log() if record["kind"] == kind]
    return record


def changes(record: dict[str, Any]) -> dict[str, str]:
    return {member["client_id"]: member["change"] for member in record["members"]}


def test_rl01_the_first_member_of_a_group(house: House):
    """RL01: began by member_joined a, ended 0 -> 1 stable, members [a joined], moved = all."""
    [a] = house.stable("a", plan=[ALL])

    began, ended = house.log()
    assert (began["kind"], began["state_before"], began["members_before"]) == ("rebalance_began", "Empty", 0)
    assert (began["cause"]["trigger"], began["cause"]["client_id"]) == ("member_joined", "a")
    assert (ended["outcome"], ended["from_generation"], ended["to_generation"]) == ("stable", 0, 1)
    assert ended["rebalance_id"] == began["rebalance_id"] == f"0@{began['at_ms']}"
    (member,) = ended["members"]
    assert (member["change"], member["partitions"], member["gained"], member["lost"]) == (
        "joined",
        {"t": "0-3"},
        {"t": "0-3"},
        {},
    )
    assert (ended["partitions_total"], ended["partitions_moved"], ended["partitions_unassigned"]) == (4, 4, 0)
    assert ended["moves"] == [["t", number, None, a] for number in range(4)]
    assert (ended["group_type"], ended["coordinator_partition"], ended["version"]) == ("classic", 3, 1)
    assert ended["broker_epoch"] == house.broker.catalogue.broker_epoch


def test_rl02_what_a_member_that_leaves_had_goes_to_the_others(house: House):
    """RL02: first cause member_left b with its text, lost of b = gained of a."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.leave(b, reason="the consumer is being closed", client="b")
    house.join(a, client="a")
    house.share([a], 2, [ALL])

    ended = house.ended()[-1]
    assert (ended["from_generation"], ended["to_generation"]) == (1, 2)
    assert (ended["first_cause"]["trigger"], ended["first_cause"]["client_id"]) == ("member_left", "b")
    assert ended["first_cause"]["reason"] == "the consumer is being closed"
    assert changes(ended) == {"a": "stayed", "b": "left"}
    by_client = {member["client_id"]: member for member in ended["members"]}
    assert by_client["b"]["lost"] == by_client["a"]["gained"] == {"t": "2-3"}
    assert ended["moves"] == [["t", 2, b, a], ["t", 3, b, a]]
    assert ended["stopped_ms"] == 0
    assert ended["imbalance"] == 0


def test_rl03_a_member_that_falls_silent(house: House):
    """RL03: session_expired with last_heard_ms >= the timeout and < timeout + 1 s."""
    a, _ = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    for _ in range(4):
        house.advance(SESSION_MS // 3)
        house.heartbeat(a, 1)

    cause = [record for record in house.log() if record["kind"] == "rebalance_began"][-1]["cause"]
    assert (cause["trigger"], cause["client_id"], cause["client_host"]) == ("session_expired", "b", "/10.0.0.1")
    assert SESSION_MS <= cause["detail"]["last_heard_ms"] < SESSION_MS + 1_000
    assert cause["detail"]["last_api"] == "SyncGroup"


def test_rl05_who_does_not_rejoin_is_told_with_when_it_was_heard_of(house: House):
    """RL05: join_timeout with last_heard_ms, change expired, slowest_to_join null."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}], session_ms=60_000)
    house.join(a, client="a", session_ms=60_000, topics=("t", "u"))
    house.advance(30_000)
    house.share([a], 2, [ALL])

    ended = house.ended()[-1]
    (cause,) = ended["further_causes"]
    assert (cause["trigger"], cause["member_id"]) == ("join_timeout", b)
    assert cause["detail"] == {"rebalance_timeout_ms": 30_000, "last_heard_ms": 30_000}
    assert changes(ended) == {"a": "stayed", "b": "expired"}
    assert ended["slowest_to_join"] is None
    assert ended["stopped_ms"] == 30_000


def test_rl06_a_superseded_rebalance_tells_of_no_members(house: House):
    """RL06: the first is superseded by the next, whose record tells who went in between."""
    house.coordinator()
    joins = [house.join(client=client, session_ms=60_000) for client in ("a", "b")]
    house.advance(6_000)
    a, b = (joined.response.member_id for joined in joins)
    house.sync(a, 1, {a: {"t": [0, 1]}, b: {"t": [2, 3]}})
    house.advance(30_000)
    house.join(a, client="a", session_ms=60_000)
    house.share([a], 2, [ALL])

    first, second = house.ended()
    assert (first["outcome"], first["by"], first["members"]) == ("superseded", second["rebalance_id"], [])
    assert second["first_cause"]["trigger"] == "sync_timeout"
    assert (second["outcome"], changes(second)) == ("stable", {"a": "joined", "b": "expired"})
    assert second["partitions_moved"] == 4


def test_rl07_rl08_phases_and_the_slowest(house: House):
    """RL07, RL08: who was waited for, and that a leader's planning is its own phase."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.join(a, client="a", topics=("t", "u"))
    house.advance(3_000)
    house.join(b, client="b")
    house.advance(2_000)
    house.share([a, b], 2, [ALL, {}])

    ended = house.ended()[-1]
    assert [ended[name] for name in ("join_ms", "assign_ms", "sync_ms", "duration_ms")] == [3_000, 2_000, 0, 5_000]
    assert (ended["slowest_to_join"]["client_id"], ended["slowest_to_join"]["after_ms"]) == ("b", 3_000)
    assert ended["stopped_ms"] == 5_000
    assert {m["client_id"]: (m["joined_after_ms"], m["synced_after_ms"]) for m in ended["members"]} == {
        "a": (0, 5_000),
        "b": (3_000, 5_000),
    }


def test_rl11_a_static_member_that_comes_back_in_time(house: House):
    """RL11: no rebalance, one member_replaced with away_ms."""
    house.coordinator()
    house.join(client="s", instance_id="s")
    house.advance(6_000)
    old_id = next(iter(house.ledger.live("g")["members"]))["member_id"]
    house.sync(old_id, 1, {old_id: ALL}, instance_id="s")
    house.advance(4_000)
    came = house.join(client="s2", instance_id="s")

    replaced = only(house, "member_replaced")
    assert kinds(house) == ["rebalance_began", "rebalance_ended", "member_replaced"]
    assert (replaced["old_member_id"], replaced["new_member_id"]) == (old_id, came.response.member_id)
    assert (replaced["old_client_id"], replaced["client_id"], replaced["away_ms"]) == ("s", "s2", 4_000)


def test_rl12_a_second_process_with_the_same_instance_id(house: House):
    """RL12: member_fenced naming both hosts."""
    house.coordinator()
    house.join(client="s", instance_id="s")
    house.advance(6_000)
    old_id = next(iter(house.ledger.live("g")["members"]))["member_id"]
    house.sync(old_id, 1, {old_id: ALL}, instance_id="s")
    house.host = "10.0.0.2"
    new_id = house.join(client="s", instance_id="s").response.member_id
    house.host = "10.0.0.3"
    house.heartbeat(old_id, 1, instance_id="s")

    fenced = only(house, "member_fenced")
    assert (fenced["refused_member_id"], fenced["holder_member_id"]) == (old_id, new_id)
    assert (fenced["client_host"], fenced["holder_client_host"], fenced["api"]) == (
        "/10.0.0.3",
        "/10.0.0.2",  # the process that took the instance over, and not the one that first joined
        "Heartbeat",
    )


def test_what_happens_to_a_static_member_names_the_process_that_had_moved(house: House):
    """A pod that came back on another host and was killed there; DescribeGroups still tells the first host."""
    house.coordinator()
    house.host = "10.0.0.2"
    house.join(client="pod-7", instance_id="pod-7")
    house.advance(6_000)
    first_id = next(iter(house.ledger.live("g")["members"]))["member_id"]
    house.sync(first_id, 1, {first_id: ALL}, instance_id="pod-7")
    house.host = "10.0.0.3"
    house.join(client="pod-7b", instance_id="pod-7")
    (live,) = house.ledger.live("g")["members"]
    assert (live["client_id"], live["client_host"]) == ("pod-7b", "/10.0.0.3")
    house.advance(SESSION_MS)

    ended = house.ended()[-1]
    cause = ended["first_cause"]
    assert (cause["trigger"], cause["client_id"], cause["client_host"]) == ("session_expired", "pod-7b", "/10.0.0.3")
    assert [member["client_host"] for member in ended["members"]] == ["/10.0.0.3"]
    described = house.broker.groups.leader_of("g").shard.groups["g"]
    assert described.members == {}


def test_rl13_a_cooperative_rebalance_in_two_rounds(house: House):
    """RL13: the second is a follow-up of the first, moves are counted once, who keeps all does not stand still."""
    sticky = {"protocol": "cooperative-sticky"}
    [a] = house.stable("a", plan=[ALL], owned={}, **sticky)
    came = house.join(client="b", owned={}, **sticky)
    house.advance(500)
    house.join(a, client="a", owned=ALL, **sticky)
    b = came.response.member_id
    house.share([a, b], 2, [{"t": [0, 1]}, {}])
    house.join(a, client="a", owned={"t": [0, 1]}, **sticky)
    house.advance(700)
    house.join(b, client="b", owned={}, **sticky)
    house.share([a, b], 3, [{"t": [0, 1]}, {"t": [2, 3]}])

    first, second = house.ended()[1:]
    assert (second["first_cause"]["trigger"], second["first_cause"]["detail"]) == (
        "cooperative_followup",
        {"follows": first["rebalance_id"]},
    )
    assert first["moves"] == [["t", 2, a, None], ["t", 3, a, None]]
    assert second["moves"] == [["t", 2, None, b], ["t", 3, None, b]]
    assert (first["stopped_ms"], second["stopped_ms"]) == (0, 0)  # a lost two, at once; b gained them, at once
    assert first["mode"] == "cooperative"


def test_rl14_refused_commits_are_counted(house: House):
    """RL14: 30 commits of a stale generation in a second make one record with the count."""
    [a] = house.stable("a", plan=[ALL])
    for _ in range(30):
        answer = house.commit({0: 5}, member_id=a, generation=4, client="late")
        assert answer.response.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        house.advance(30)
    assert "commits_refused" not in kinds(house)
    house.advance(1_000)

    refused = only(house, "commits_refused")
    assert (refused["count"], refused["error"], refused["request_generation"], refused["generation"]) == (
        30,
        "ILLEGAL_GENERATION",
        4,
        1,
    )
    assert (refused["member_id"], refused["client_id"], refused["client_host"], refused["topics"]) == (
        a,
        "late",
        "/10.0.0.1",
        ["t"],
    )


def test_who_may_not_join_is_told_with_what_it_offers_and_what_would_do(house: House):
    house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    for _ in range(3):
        answer = house.join(client="new", protocol="roundrobin")
        assert answer.response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    house.advance(1_000)
    refused = only(house, "joins_refused")
    assert refused["count"] >= 3
    assert (refused["error"], refused["client_id"]) == ("INCONSISTENT_GROUP_PROTOCOL", "new")
    assert (refused["protocols"], refused["group_protocols"]) == (["roundrobin"], ["range"])
    assert [one["rule"] for one in house.ledger.findings("g") if one["severity"] == "warning"] == ["refused_joins"]


def test_a_full_group_says_whom_it_turned_away(tmp_path: Path):
    house = House(tmp_path / "data", group_max_size=1)
    house.topic("t", 4)
    house.stable("a", plan=[ALL])
    assert house.join(client="new").response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    house.advance(1_000)
    (found,) = [one for one in house.ledger.findings("g") if one["rule"] == "refused_joins"]
    assert found["says"] == "new (10.0.0.1) cannot join: the group is full (group.max.size)"


def test_records_of_another_cluster_and_torn_ones_are_passed_over(tmp_path: Path):
    """A mirrored topic: its groups may have our groups' names. An older record does not say whose it is."""
    house = House(tmp_path / "data")
    house.topic("t", 4)
    house.stable("a", plan=[ALL])
    began, ended = house.log()
    assert began["cluster_id"] == "AAAAAAAAAAAAAAAAAAAAAA"
    foreign = [
        encode_value({**one, "cluster_id": "BBBBBBBBBBBBBBBBBBBBBB", "generation": 99}) for one in (began, ended)
    ]
    older = {name: content for name, content in ended.items() if name != "cluster_id"}
    values = [*foreign, encode_value(ended)[:-20], b"", encode_value({**ended, "version": 99}), encode_value(older)]
    partition = house.broker.partitions.get(LEDGER_TOPIC, partition_for("g", 4))
    assert partition is not None
    partition.append(encode_batch([Record(at, ended["at_ms"], b"g", one, ()) for at, one in enumerate(values)]))
    assert house.ledger.records("g") == [began, ended, older]
    house.crash()
    house.start()  # it reads what was told before
    house.turn()
    assert house.ledger.records("g")[:3] == [began, ended, older]


def test_rl15_offsets_that_an_administrator_sets(house: House):
    """RL15: from and to per partition and the client's host; a simple consumer's own commits are not told."""
    [a] = house.stable("a", plan=[ALL])
    house.commit({0: 10, 1: 20}, member_id=a, generation=1)
    house.leave(a)
    house.host = "10.0.0.9"
    house.commit({0: 3, 2: 7}, client="admin")
    house.commit({0: 1}, client="simple", group_id="simple")
    house.commit({0: 2}, client="simple", group_id="simple")

    changed = only(house, "offsets_changed")
    assert changed["offsets"] == [
        {"topic": "t", "partition": 0, "from": 10, "to": 3},
        {"topic": "t", "partition": 2, "from": None, "to": 7},
    ]
    assert (changed["by"], changed["client_id"], changed["client_host"]) == ("client", "admin", "/10.0.0.9")
    assert house.log("simple") == []


def test_a_deleted_group_is_told_with_its_offsets(house: House):
    """Ledger 2: offsets_changed by group_deleted, then group_removed."""
    [a] = house.stable("a", plan=[ALL])
    house.commit({0: 10}, member_id=a, generation=1)
    house.leave(a)
    house.delete_group()

    changed, removed = only(house, "offsets_changed"), only(house, "group_removed")
    assert changed["by"] == "group_deleted"
    assert changed["offsets"] == [{"topic": "t", "partition": 0, "from": 10, "to": None}]
    assert (removed["by"], removed["client_id"], removed["members_at_last_generation"]) == ("deleted", "admin", 1)
    assert kinds(house)[-1] == "group_removed"


def test_nothing_is_remembered_of_a_group_that_is_gone(house: House):
    """What is seen of its members later is told, and begins no new memory of it: names would be kept for ever."""
    [a] = house.stable("a", plan=[ALL])
    index = house.ledger._index_of("g")
    assert house.ledger._histories[index].keys() == {"g"}
    house.leave(a)
    house.delete_group()
    traced = DepartureTraced(a, None, "a", "/10.0.0.1", "member_left", 1, "open", 3_000, None, None)
    house.ledger._put(GroupEvent(traced, "g", 1))
    house.turn()

    assert kinds(house)[-2:] == ["group_removed", "departure_traced"]
    assert house.ledger._histories[index] == {}


def test_offsets_that_expire_are_told(tmp_path: Path):
    """Ledger 2: by expiry, and the group with its last offset."""
    house = House(tmp_path / "data", offsets_retention_minutes=1)
    house.topic("t", 4)
    [a] = house.stable("a", plan=[ALL])
    house.commit({0: 10}, member_id=a, generation=1)
    house.leave(a)
    house.advance(700_000)

    assert only(house, "offsets_changed")["by"] == "expiry"
    assert only(house, "group_removed")["by"] == "expired"


def test_rl16_a_crash_in_the_middle(house: House):
    """RL16: SIGKILL in PreparingRebalance: interrupted for the open id, then coordinator_loaded."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.join(a, client="a", topics=("t", "u"))
    open_id = house.ledger.in_progress("g")["rebalance_id"]
    house.crash()
    house.start()

    ended, loaded = house.log()[-2:]
    assert (ended["outcome"], ended["rebalance_id"], ended["ended_at_ms"]) == ("interrupted", open_id, None)
    assert ended["first_cause"]["trigger"] == "subscription_changed"
    assert (loaded["kind"], loaded["members"], loaded["unclean"]) == ("coordinator_loaded", 2, True)
    house.join(a, client="a")
    house.join(b, client="b")
    house.share([a, b], 2, [ALL, {}])
    after = house.ended()[-1]
    assert after["first_cause"]["trigger"] == "coordinator_restarted"
    assert after["partitions_moved"] == 2  # the generation before the crash is in the ledger


def test_what_was_told_before_a_crash_may_be_unreadable_for_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """RL16: what follows waits until it can be read; nothing is left out, and one line says why it waits."""
    a, _ = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.join(a, client="a", topics=("t", "u"))
    house.crash()
    with monkeypatch.context() as trouble:

        def refuse(*_: object) -> None:
            raise StorageError("cannot read", LEDGER_TOPIC, OSError(5, "Input/output error"))

        trouble.setattr("broker.groups.ledger.reading.between", refuse)
        house.start()
        house.runtime.advance(3_000)
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert said.count("ledger_waits") == 1
    house.runtime.advance(3_000)
    assert [record["kind"] for record in house.log()[-2:]] == ["rebalance_ended", "coordinator_loaded"]
    assert house.ledger.errors == 0


def test_a_stop_is_no_crash_and_the_next_start_knows_what_was_told(house: House):
    """A clean stop in Stable: nothing is interrupted, and what moved is still known."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.stop()
    house.start()
    assert [record["unclean"] for record in house.log() if record["kind"] == "coordinator_loaded"] == [False]
    house.leave(b)
    house.join(a, client="a")
    house.share([a], 2, [ALL])

    ended = house.ended()[-1]
    assert (ended["partitions_moved"], ended["outcome"]) == (2, "stable")
    assert [record["outcome"] for record in house.ended()] == ["stable", "stable"]


def test_rl24_off_and_on_again(house: House):
    """RL24: what moved since the last record is not known, so it is null."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    house.stop()
    house.start(kohort_ledger_enable="false")
    before = len(house.log())
    house.leave(b)
    house.join(a, client="a")
    house.share([a], 2, [ALL])
    assert len(house.log()) == before
    assert house.told[-1]["kind"] == "rebalance_ended"  # metrics go on
    house.stop()
    house.start(kohort_ledger_enable="true")
    came = house.join(client="c")
    house.join(a, client="a")
    house.share([a, came.response.member_id], 3, [{"t": [0, 1, 2]}, {"t": [3]}])

    ended = house.ended()[-1]
    assert (ended["partitions_moved"], ended["moves"], ended["partitions_total"]) == (None, [], 4)
    assert {member["client_id"]: member["gained"] for member in ended["members"]} == {"a": None, "c": None}
    house.leave(came.response.member_id)
    house.join(a, client="a")
    house.share([a], 4, [ALL])
    assert house.ended()[-1]["partitions_moved"] == 1


def test_rl18_a_ledger_that_cannot_be_written_is_in_nobodys_way(house: House, capsys: pytest.CaptureFixture[str]):
    """RL18: the rebalance is unaffected, the count rises, one log line."""
    house.coordinator()

    failed = [house.broker.partitions.get(LEDGER_TOPIC, index) for index in range(4)]
    for partition in failed:
        partition.error = PartitionFailed(LEDGER_TOPIC, partition.index, "no space left on device")
    house.stable("a", plan=[ALL])
    for partition in failed:
        partition.error = None

    assert house.ledger.live("g")["state"] == "Stable"
    assert house.ledger.errors == 2
    assert capsys.readouterr().err.count("ledger_not_written") == 1
    assert house.log() == []


def test_rl19_five_thousand_members():
    """RL19: the record stays under 256 KiB, and the counts are right."""
    member = {
        "member_id": "m" * 60, "instance_id": None, "client_id": "c" * 20, "client_host": "/10.0.0.1",
        "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "change": "stayed", "joined_after_ms": 1,
        "synced_after_ms": 2, "partitions": {"t": "0"}, "gained": {}, "lost": {},
    }  # fmt: skip
    moves = [["t", number, "m" * 60, "n" * 60] for number in range(200)]
    record = {
        "kind": "rebalance_ended", "group_id": "g", "members": [member] * 5_000, "members_truncated": 0,
        "moves": moves, "moves_truncated": 4_800, "partitions_moved": 5_000,
    }  # fmt: skip

    data = encode_value(record)
    assert len(data) < RECORD_MAX_BYTES
    read = decode_value(data)
    assert read["members_truncated"] + len(read["members"]) == 5_000
    assert read["moves_truncated"] + len(read["moves"]) == 5_000
    assert read["partitions_moved"] == 5_000
    assert len(read["members"]) > 500


def test_rl20_a_group_that_is_not_of_consumers(house: House):
    """RL20: partitions fields null, everything else there."""
    house.stable("a", "b", plan=[ALL, {}], protocol_type="connect")

    (ended,) = house.ended()
    nulls = ("partitions_total", "partitions_moved", "partitions_unassigned", "imbalance")
    assert [ended[name] for name in nulls] == [None] * 4
    assert ended["moves"] == []
    assert changes(ended) == {"a": "joined", "b": "joined"}
    assert {member["partitions"] is None for member in ended["members"]} == {True}
    assert (ended["protocol_type"], ended["stopped_ms"]) == ("connect", 6_000)


def test_the_topic_is_made_with_the_offsets_topic_and_kept_out_of_the_way(house: House):
    """Ledger 1.3: made together, same partitions, not internal, named only when it is asked for."""
    house.coordinator()
    image = house.broker.catalogue.image
    topic = image.topic(LEDGER_TOPIC)
    assert topic.partition_count == image.topic(OFFSETS_TOPIC).partition_count
    assert topic.configs["retention.ms"] == str(14 * 86_400_000)
    assert not topic.is_internal

    everything = house.ask(metadata_handlers, "metadata", MetadataRequest(topics=None), 12).response
    assert LEDGER_TOPIC not in {described.name for described in everything.topics}
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=LEDGER_TOPIC)])
    (named,) = house.ask(metadata_handlers, "metadata", asked, 12).response.topics
    assert (named.error_code, named.is_internal, len(named.partitions)) == (0, False, 4)


def test_a_directory_without_the_topic_gets_it_with_the_first_record(tmp_path: Path):
    """A data directory of Apache Kafka, or one on which the ledger was off."""
    house = House(tmp_path / "data", kohort_ledger_enable="false")
    house.topic("t", 4)
    house.stable("a", plan=[ALL])
    assert house.broker.catalogue.image.topic(LEDGER_TOPIC) is None
    house.stop()
    house.start(kohort_ledger_enable="true")
    house.advance(1_000)

    assert [record["kind"] for record in house.log()] == ["coordinator_loaded"]
    assert house.ledger.errors == 0


def test_records_of_the_last_rebalances_are_read_back(house: House):
    """`Ledger.records`: the oldest first, from the beginning of the last rebalances on."""
    [a] = house.stable("a", plan=[ALL])
    for generation in range(2, 6):
        house.join(a, client="a", topics=("t", f"u{generation}"))
        house.share([a], generation, [ALL])

    last = house.ledger.records("g", 2)
    assert [(record["kind"], record["from_generation"]) for record in last] == [
        ("rebalance_began", 3),
        ("rebalance_ended", 3),
        ("rebalance_began", 4),
        ("rebalance_ended", 4),
    ]
    assert len(house.ledger.records("g", 100)) == 10
    assert house.ledger.records("nobody", 5) == []
    assert house.ledger.records("g", 0) == []


def test_what_goes_on_now(house: House):
    """`Ledger.in_progress`: the phase, and who is missing for how long."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    assert house.ledger.in_progress("g") is None
    house.join(a, client="a", topics=("t", "u"))
    house.advance(1_500)

    now = house.ledger.in_progress("g")
    assert (now["phase"], now["for_ms"], now["first_cause"]["trigger"]) == ("join", 1_500, "subscription_changed")
    assert [(member["member_id"], member["for_ms"]) for member in now["missing"]] == [(b, 1_500)]
    house.join(b, client="b")
    now = house.ledger.in_progress("g")
    assert (now["phase"], [member["member_id"] for member in now["missing"]]) == ("assign", [a])
    house.sync(a, 2, {a: ALL, b: {}})
    assert (house.ledger.in_progress("g")["phase"], house.ledger.live("g")["state"]) == ("sync", "Stable")


def test_the_live_state_tells_what_findings_look_at(house: House):
    """Ledger 6: the longest silence between two heartbeats; not the wait for an answer, which is ours."""
    a, b = house.stable("a", "b", plan=[{"t": [0, 1]}, {"t": [2, 3]}])
    for gap_ms in (1_000, 7_000, 2_000):
        house.advance(gap_ms)
        house.heartbeat(a, 1)
        house.heartbeat(b, 1)
    house.join(a, client="a", topics=("t", "u"))
    house.advance(9_000)
    house.join(b, client="b")
    house.share([a, b], 2, [ALL, {}])
    house.heartbeat(a, 2)
    for at in range(40):
        house.commit({0: at}, member_id=a, generation=2)
        house.advance(50)

    live = house.ledger.live("g")
    assert {member["client_id"]: member["longest_gap_ms"] for member in live["members"]} == {"a": 7_000, "b": 7_000}
    assert (live["partitions_total"], live["offsets"], live["state"]) == (4, 1, "Stable")
    assert 1 < live["commits_per_second"] <= 20
    assert "tight_heartbeat" in {finding["rule"] for finding in house.ledger.findings("g")}


def test_a_heartbeat_and_a_commit_leave_nothing_for_the_ledger(house: House):
    """Ledger 1.4: no event, no record; only the session's timer remembers."""
    [a] = house.stable("a", plan=[ALL])
    before = len(house.log())
    seen: list[Any] = []
    house.broker.groups.event_listeners.append(seen.append)
    for at in range(20):
        house.heartbeat(a, 1)
        house.commit({0: at}, member_id=a, generation=1)
        house.advance(100)

    assert seen == []
    assert (len(house.log()), len(house.ledger._queue)) == (before, 0)


def test_a_name_that_is_too_long_for_a_record_is_cut():
    """Ledger 4: under 256 KiB whatever clients call themselves."""
    who = dict.fromkeys(("member_id", "instance_id", "client_id", "client_host"), "x" * 32000)
    record = {"kind": "rebalance_ended", "group_id": "g", "first_cause": who, "slowest_to_join": who,
              "slowest_to_sync": who, "members": [who] * 3, "members_truncated": 0}  # fmt: skip

    data = encode_value(record)
    assert len(data) <= RECORD_MAX_BYTES
    assert decode_value(data)["first_cause"]["client_id"] == "x" * 1_000


def test_what_is_seen_of_a_member_later_is_told_of_the_group_as_it_is_then():
    """Else a reader would take the end of the ledger for older than it is, and an epoch for a generation."""
    history = GroupHistory(7)
    history.group_type = "consumer"
    what = DepartureTraced("m", None, "c", "/10.0.0.1", "member_left", 1, "open", 3_000, None, None)
    record = record_of(GroupEvent(what, "g", 5), {}, history)
    assert (record["generation"], record["group_type"]) == (7, "consumer")
