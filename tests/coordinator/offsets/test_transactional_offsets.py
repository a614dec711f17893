"""TxnOffsetCommit and what a marker makes of it: rules alone. Ids are those of docs/scenarios."""

from __future__ import annotations

import pytest

from coordinator.group import GroupState
from protocol.errors import ErrorCode
from protocol.records.group_records import OffsetCommitKey, OffsetCommitValue, encode_value
from protocol.types import ZERO_UUID
from tests.coordinator.offsets.driver import DAY, PRODUCER, OffsetDriver, errors, offsets, results, tombstones

E = ErrorCode
OTHER = PRODUCER + 1


@pytest.mark.parametrize("commit", [True, False])
def test_t01_tx71_an_offset_counts_when_its_transaction_commits(commit: bool) -> None:
    """Before it the old value, or UNSTABLE_OFFSET_COMMIT for who wants to know; after an abort the old one again."""
    broker = OffsetDriver()
    broker.commit(1)
    assert errors(broker.commit_in_transaction(2)) == [E.NONE]
    assert broker.stored() == {("t1", 0): 1}
    assert results(broker.fetch({"t1": [0, 1]}, stable=True)) == {
        ("t1", 0): E.UNSTABLE_OFFSET_COMMIT,
        ("t1", 1): E.NONE,
    }
    assert offsets(broker.fetch({"t1": [0]})) == {("t1", 0): 1}
    broker.end(commit=commit)
    assert offsets(broker.fetch({"t1": [0]}, stable=True)) == {("t1", 0): 2 if commit else 1}


@pytest.mark.parametrize("transactional_first", [True, False])
def test_t02_tx77_of_a_plain_and_a_transactional_offset_the_later_record_stays(transactional_first: bool) -> None:
    broker = OffsetDriver()
    for transactional in (transactional_first, not transactional_first):
        if transactional:
            broker.commit_in_transaction(5)
        else:
            broker.commit(6)
    broker.end(commit=True)
    assert broker.stored() == {("t1", 0): 6 if transactional_first else 5}


@pytest.mark.parametrize("order", [(PRODUCER, OTHER), (OTHER, PRODUCER)])
def test_t03_of_two_transactions_the_later_record_stays_whatever_ends_first(order: tuple[int, int]) -> None:
    broker = OffsetDriver()
    broker.commit_in_transaction(1)
    broker.commit_in_transaction(2, producer_id=OTHER)
    for producer_id in order:
        assert results(broker.fetch({"t1": [0]}, stable=True)) == {("t1", 0): E.UNSTABLE_OFFSET_COMMIT}
        broker.end(commit=True, producer_id=producer_id)
    assert broker.stored() == {("t1", 0): 2}


def test_t04_one_transaction_may_hold_offsets_of_two_groups() -> None:
    broker = OffsetDriver()
    broker.commit_in_transaction(1)
    broker.group_id = "h"
    broker.commit_in_transaction(2)
    broker.end(commit=True)
    assert broker.stored() == {("t1", 0): 2}
    broker.group_id = "g"
    assert broker.stored() == {("t1", 0): 1}


def test_t05_a_marker_of_nobody_s_offsets_changes_nothing() -> None:
    broker = OffsetDriver()
    broker.commit(1)
    broker.end(commit=True)
    broker.commit_in_transaction(2)
    broker.end(commit=True)
    broker.end(commit=True)
    assert broker.stored() == {("t1", 0): 2}


def test_t06_tx75_the_generation_that_is_being_left_still_counts() -> None:
    """In PreparingRebalance and CompletingRebalance; old clients say nothing of themselves and are always heard."""
    broker = OffsetDriver()
    (member,) = broker.stable_group("a")
    broker.join(client_id="b")
    broker.join(client_id="b", member_id="")
    assert errors(broker.commit_in_transaction(1, member_id=member, generation=1)) == [E.NONE]
    assert errors(broker.commit_in_transaction(2)) == [E.NONE]

    broker = OffsetDriver()
    (member,) = broker.completing_group("a")
    assert broker.state is GroupState.COMPLETING_REBALANCE
    assert errors(broker.commit_in_transaction(1, member_id=member, generation=1)) == [E.NONE]
    assert errors(broker.commit(1, member_id=member, generation=1)) == [E.REBALANCE_IN_PROGRESS]


def test_t07_who_says_something_must_say_the_truth() -> None:
    broker = OffsetDriver()
    member, _ = broker.stable_group("a", "i", static=("i",))
    assert errors(broker.commit_in_transaction(member_id=member, generation=1)) == [E.NONE]
    assert errors(broker.commit_in_transaction(member_id=member, generation=0)) == [E.ILLEGAL_GENERATION]
    assert errors(broker.commit_in_transaction(member_id=member)) == [E.ILLEGAL_GENERATION]
    assert errors(broker.commit_in_transaction(member_id="x", generation=1)) == [E.UNKNOWN_MEMBER_ID]
    assert errors(broker.commit_in_transaction(generation=1)) == [E.UNKNOWN_MEMBER_ID]
    fenced = broker.commit_in_transaction(member_id=member, instance_id="i", generation=1)
    assert errors(fenced) == [E.FENCED_INSTANCE_ID]
    unknown = broker.commit_in_transaction(member_id=member, instance_id="x", generation=1)
    assert errors(unknown) == [E.UNKNOWN_MEMBER_ID]


def test_a_group_that_is_not_there_or_empty() -> None:
    """A simple group is made for the offset; a generation that nobody can have is refused."""
    broker = OffsetDriver()
    assert errors(broker.commit_in_transaction(generation=1, member_id="m")) == [E.ILLEGAL_GENERATION]
    assert errors(broker.commit_in_transaction(generation=1, member_id="m", version=6)) == [E.GROUP_ID_NOT_FOUND]
    assert broker.listed() == []
    assert errors(broker.commit_in_transaction()) == [E.NONE]
    assert broker.listed() == [("g", "", "Empty")]
    broker = OffsetDriver()
    broker.group_id = ""
    assert errors(broker.commit_in_transaction()) == [E.INVALID_GROUP_ID]


def test_a_transactional_commit_does_not_keep_its_member_alive() -> None:
    """It may come from another process. OffsetCommit does."""
    broker = OffsetDriver()
    (member,) = broker.stable_group("a")
    timers = dict(broker.timers)
    broker.now_ms += 1_000
    broker.commit_in_transaction(member_id=member, generation=1)
    assert broker.timers == timers


def test_its_record_has_the_id_that_the_topic_has_now_and_never_expires() -> None:
    """As an OffsetCommit's. Kafka 4.3 left the id out, and wrote the bytes below."""
    broker = OffsetDriver()
    broker.commit_in_transaction(2, leader_epoch=3)
    topic_id = broker.topics.topic_id("t1")
    assert topic_id is not None
    assert broker.log == [(OffsetCommitKey("g", "t1", 0), OffsetCommitValue(2, 3, "", broker.now_ms, -1, topic_id))]
    value = OffsetCommitValue(2, -1, "", 0x1A1FD7858CA, -1, ZERO_UUID)
    assert encode_value(value) == bytes.fromhex("0004 0000000000000002 ffffffff 01 000001a1fd7858ca 00")


@pytest.mark.parametrize("version", [5, 6])
def test_its_record_has_the_id_that_the_client_named_where_clients_name_ids(version: int) -> None:
    """KIP-1319: a topic that is made again meanwhile does not get the offset of the old one."""
    broker, older = OffsetDriver(), b"\7" * 16
    broker.commit_in_transaction(2, topic_id=older, version=version)
    ((_, value),) = broker.log
    assert value.topic_id == (older if version == 6 else broker.topics.topic_id("t1"))


def test_metadata_that_is_too_long_is_refused_alone() -> None:
    broker = OffsetDriver()
    assert errors(broker.commit_in_transaction(metadata="x" * 4_097)) == [E.OFFSET_METADATA_TOO_LARGE]
    assert (broker.log, broker.listed()) == ([], [])
    assert errors(broker.commit_in_transaction(metadata=None)) == [E.NONE]


def test_t08_tx78_a_tombstone_takes_what_transactions_hold() -> None:
    """OffsetDelete and DeleteGroups: the commit of the transaction brings nothing back."""
    broker = OffsetDriver()
    broker.commit_in_transaction(1)
    broker.delete_offsets({"t1": [0]})
    broker.end(commit=True)
    assert broker.stored() == {}

    broker = OffsetDriver()
    broker.commit_in_transaction(1)
    assert broker.delete() == E.NONE
    assert tombstones(broker.log[1:]) == [("t1", 0), "g"]
    broker.end(commit=True)
    assert (broker.stored(), broker.listed()) == ({}, [])


def test_a_deleted_topic_takes_what_transactions_hold() -> None:
    broker = OffsetDriver()
    broker.commit_in_transaction(1)
    broker.commit_in_transaction(2, topic="t2")
    topic_id = broker.topics.topic_id("t1")
    assert topic_id is not None
    assert broker.forget("t1", b"\1" * 16) == []
    assert tombstones(broker.forget("t1", topic_id)) == [("t1", 0)]
    broker.end(commit=True)
    assert broker.stored() == {("t2", 0): 2}


def test_e07_e09_tx79_nothing_expires_while_a_transaction_holds_it() -> None:
    broker = OffsetDriver()
    broker.commit(1)
    broker.commit_in_transaction(2)
    broker.wait(30 * DAY)
    assert broker.expire() == []
    broker.end(commit=False)
    assert tombstones(broker.expire()) == [("t1", 0), "g"]


def test_a_refused_record_takes_the_group_along_that_was_made_for_it() -> None:
    broker = OffsetDriver()
    broker.fail_appends(E.NOT_ENOUGH_REPLICAS)
    assert errors(broker.commit_in_transaction()) == [E.COORDINATOR_NOT_AVAILABLE]
    assert broker.listed() == []
