"""How long partitions that moved were read by nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.groups.ledger.unread import GIVE_UP_MS, Unread
from coordinator.consumer.group import ConsumerGroup
from coordinator.events import GroupEvent, LeftBehind, PartitionsRead, PartitionsTaken
from protocol.messages.fetch import FetchPartition, FetchTopic
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.virtual_runtime import VirtualRuntime


def ended(
    runtime: VirtualRuntime, moves: list[Any], *, cause: dict[str, Any] | None = None, **facts: Any
) -> dict[str, Any]:
    members = [
        {"member_id": name, "client_id": name, "client_host": "/10.0.0.1", "joined_after_ms": 200} for name in "abc"
    ]
    return {
        "kind": "rebalance_ended", "group_id": "g", "group_type": "classic", "rebalance_id": f"1@{runtime.now_ms()}",
        "to_generation": 2, "outcome": "stable", "began_at_ms": runtime.now_ms() - 1_000, "first_cause": cause,
        "further_causes": [], "members": members, "moves": moves, "partitions_moved": len(moves), **facts,
    }  # fmt: skip


def reads(unread: Unread, client: str, *partitions: int, host: str = "/10.0.0.1") -> None:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=number) for number in partitions])]
    unread.fetched((client, host), topics, lambda topic: topic.topic)


def told_by(events: list[GroupEvent]) -> list[tuple[int, int, int, tuple[Any, ...]]]:
    return [
        (one.what.partitions, one.what.still_unread, one.what.unread_ms, one.what.spans)
        for one in events
        if isinstance(one.what, PartitionsRead)
    ]


def test_it_counts_from_the_last_sign_of_the_old_owner_to_the_first_fetch_of_the_new():
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    died = {
        "trigger": "session_expired",
        "member_id": "c",
        "at_ms": runtime.now_ms() - 500,
        "detail": {"last_heard_ms": 10_000},
    }
    unread.on_ledger(ended(runtime, [["t", 0, "c", "a"], ["t", 1, "b", "a"], ["t", 2, None, "a"]], cause=died))
    runtime.advance(100)
    reads(unread, "b", 0, 1)
    reads(unread, "a", 1)
    assert not events
    runtime.advance(100)
    reads(unread, "a", 0, 1)
    assert told_by(events) == [(2, 0, 10_700, (("t", 0, 10_700), ("t", 1, 900)))]
    assert not unread.waiting
    assert len(runtime.timers) == 0


def test_what_nobody_took_up_is_told_after_a_while_or_with_the_next_rebalance():
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    unread.on_ledger(ended(runtime, [["t", 0, "b", None]]))  # the first round of a cooperative protocol
    runtime.advance(2_000)
    unread.on_ledger(ended(runtime, [["t", 0, None, "a"]]))
    runtime.advance(GIVE_UP_MS)
    assert told_by(events) == [(1, 1, 800 + 2_000 + GIVE_UP_MS, (("t", 0, 800 + 2_000 + GIVE_UP_MS),))]
    unread.on_ledger(ended(runtime, [["t", 0, "a", "b"]]))
    runtime.advance(5_000)
    unread.on_ledger(ended(runtime, [["t", 0, "b", "c"]]))
    reads(unread, "c", 0)
    assert [one[1:3] for one in told_by(events)[1:]] == [(1, 5_800), (0, 5_800)]
    assert not unread.waiting
    assert unread._count == 0


def test_clients_of_one_name_in_two_groups_are_not_accused_of_each_others_partitions():
    """Clients that were given no name have the library's, and one host may run many of them."""
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    unread.on_ledger(ended(runtime, [["t", 0, "b", "a"]]))
    unread.on_ledger(ended(runtime, [["t", 0, "b", "a"]], group_id="other"))
    reads(unread, "a", 0)
    runtime.advance(GIVE_UP_MS)
    assert [one[1] for one in told_by(events)] == [0, 0]
    assert not unread.waiting
    assert unread._count == 0


def test_a_commit_of_the_new_owner_says_that_it_reads():
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    unread.on_ledger(ended(runtime, [["t", 0, "b", "a"], ["t", 1, "b", "a"]]))
    topics = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])]
    runtime.advance(100)
    unread.committed("g", "b", topics)
    unread.committed("other", "a", topics)
    runtime.advance(100)
    unread.committed("g", "a", topics)
    runtime.advance(100)
    reads(unread, "a", 0, 1)
    assert told_by(events) == [(2, 0, 1_100, (("t", 1, 1_100), ("t", 0, 1_000)))]
    assert not unread.waiting


def test_a_client_that_reads_over_the_other_family_of_addresses_is_known_by_its_client_id():
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    unread.on_ledger(ended(runtime, [["t", 0, "b", "a"]]))
    reads(unread, "a", 0, host="/10.0.0.9")
    assert not events
    reads(unread, "a", 0, host="/fd00:0:0:0:0:0:0:1")
    assert told_by(events) == [(1, 0, 800, (("t", 0, 800),))]


def test_nothing_is_told_of_one_that_may_be_another_of_its_name():
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    record = ended(runtime, [["t", 0, "b", "a"], ["t", 1, "b", "a"]])
    record["members"].append({**record["members"][0], "member_id": "twin", "client_host": "/10.0.0.9"})
    unread.on_ledger(record)
    reads(unread, "a", 0, host="/fd00:0:0:0:0:0:0:1")
    reads(unread, "a", 1)
    assert told_by(events) == [(1, 0, 800, (("t", 1, 800),))]
    unread.on_ledger(record)
    reads(unread, "a", 0, 1, host="/fd00:0:0:0:0:0:0:1")
    runtime.advance(GIVE_UP_MS)
    assert len(events) == 1
    assert not unread.waiting
    assert unread._count == 0


def test_an_old_owner_may_have_the_new_ones_name():
    """A process that died and was started anew, or one of several that nobody gave a name."""
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    died = {"trigger": "session_expired", "member_id": "old", "at_ms": runtime.now_ms(), "detail": {"last_heard_ms": 9}}
    record = ended(runtime, [["t", 0, "old", "a"], ["t", 1, "b", "twin"]], cause=died)
    first = record["members"][0]
    record["members"] += [{**first, "member_id": "old", "change": "expired"}, {**first, "member_id": "twin"}]
    unread.on_ledger(record)
    runtime.advance(100)
    reads(unread, "a", 0, 1)
    assert told_by(events) == [(2, 0, 900, (("t", 1, 900), ("t", 0, 109)))]


class Counted(dict[str, Any]):
    """Members of a group, and how often all were looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()


def test_the_members_of_a_group_are_looked_through_only_when_something_is_awaited():
    """Ten thousand that begin a group are ten thousand times ten thousand otherwise."""
    runtime, events = VirtualRuntime(), []  # type: ignore[var-annotated]
    unread = Unread(runtime, events.append)
    members = Counted(a=SimpleNamespace(acting=("a", "/10.0.0.1")))

    def taken(partition: int, sign_ms: int | None) -> None:
        left = LeftBehind("t", partition, sign_ms)
        what = PartitionsTaken("1", "a", None, "a", "/10.0.0.1", (left,))
        group = ConsumerGroup("g", members=members)
        unread.taken(GroupEvent(what, "g", 1, group_type="consumer", consumer_group=group), what)

    for partition in range(3):
        taken(partition, None)
    assert members.looks == 0
    assert not unread.waiting
    taken(3, runtime.now_ms())
    taken(4, runtime.now_ms())
    assert members.looks == 1
    assert list(unread.waiting["a"]) == [("t", 3), ("t", 4)]
