"""Offsets in transactions that are not decided: beside plain commits, groups that change, deletions and restarts."""

from __future__ import annotations

import time
from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import SHORT_MS, T1, Member, commit, delete_offsets
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import list_offsets, topic
from tests.reference.judge.scenarios_transactions import Pair, add, described, end, fresh, init, read, settled, write
from tests.support.broker_process import eventually

LONG_MS = 900_000


def hold(s: Script, v: int, who: tuple[str, Pair], offset: int, group: str = "", index: int = 0, **more: Any) -> None:
    """Put an offset of `judge-t1` into a transaction."""
    tid, pair = who
    group = group or s.name()
    eventually(lambda: s.observer().coordinator_error(group) == 0)
    if v < 5:
        request = AddOffsetsToTxnRequest(
            transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], group_id=group
        )
        assert s.observer().call(request, 3).error_code == 0
    place = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
    topics = [TxnOffsetCommitRequestTopic(name=T1, partitions=[place])]
    request = TxnOffsetCommitRequest(
        transactional_id=tid, group_id=group, producer_id=pair[0], producer_epoch=pair[1], topics=topics, **more
    )
    s.client().call(request, v)


def finish(s: Script, who: tuple[str, Pair], *, commit: bool = True) -> None:
    """End it, and wait for the markers."""
    end(s, 3, *who, commit=commit)
    settled(s, who[0])


def look(s: Script, group: str = "") -> None:
    """What the group's offsets are, to those who wait for what is stable and to the others."""
    for stable in (False, True):
        asked = [OffsetFetchRequestTopics(name=T1, partition_indexes=[0, 1])]
        groups = [OffsetFetchRequestGroup(group_id=group or s.name(), topics=asked)]
        s.client().call(OffsetFetchRequest(groups=groups, require_stable=stable), 8)


@each_version("T01-T02-Pending-plain", (3, 5))
def beside_plain_commits(s: Script, v: int) -> None:
    """TX77: the later record stays, whichever kind it is."""
    who = fresh(s)
    hold(s, v, who, 5)
    commit(s, s.name(), {T1: [(0, 6)]})
    look(s)
    finish(s, who)
    look(s)
    commit(s, s.name(), {T1: [(0, 7)]})
    hold(s, v, who, 8)
    finish(s, who)
    look(s)
    hold(s, v, who, 9)
    finish(s, who, commit=False)
    look(s)


@scenario("T03-T04-Pending-several")
def of_several(s: Script) -> None:
    """Two producers in one group, in whatever order they end; one producer in two groups."""
    one, other = fresh(s), fresh(s, "other")
    for first, second in ((one, other), (other, one)):
        hold(s, 4, one, 5)
        hold(s, 4, other, 6)
        finish(s, first)
        look(s)
        finish(s, second)
        look(s)
    hold(s, 4, one, 10)
    hold(s, 4, one, 11, group=s.name("second"))
    finish(s, one)
    look(s)
    look(s, s.name("second"))


@scenario("T05-Pending-nothing")
def nothing_pending(s: Script) -> None:
    """A group's partition in the transaction, and no offset."""
    tid, pair = who = fresh(s)
    commit(s, s.name(), {T1: [(0, 3)]})
    for committed in (True, False):
        request = AddOffsetsToTxnRequest(
            transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], group_id=s.name()
        )
        s.client().call(request, 3)
        finish(s, who, commit=committed)
        end(s, 3, tid, pair, commit=committed)
        look(s)


@scenario("T06-T07-Pending-members")
def of_members(s: Script) -> None:
    """TX74, TX75, TX76: the generation that is being left still counts, the one that was left does not."""
    who = fresh(s)
    a = Member(s, "a", instance="ia")
    a.enter()

    def say(offset: int, **changes: Any) -> None:
        identity = {"member_id": a.id, "generation_id_or_member_epoch": a.generation, "group_instance_id": "ia"}
        hold(s, 3, who, offset, **identity | changes)

    say(1)
    a.sync({a.id: b"a"})
    say(2)
    say(3, group_instance_id=None)
    say(3, group_instance_id="nobody")
    say(3, member_id="nobody")
    say(3, member_id="nobody", group_instance_id=None)
    say(3, generation_id_or_member_epoch=a.generation + 1)
    hold(s, 3, who, 4)
    b = Member(s, "b")
    b.send_enter()
    s.until("PreparingRebalance", 2)
    old = a.generation
    say(5)
    a.join()
    b.joined()
    say(6, generation_id_or_member_epoch=old)
    a.sync({a.id: b"a", b.id: b"b"})
    b.sync()
    say(7, generation_id_or_member_epoch=old)
    look(s)
    finish(s, who)
    look(s)
    say(8)
    finish(s, who, commit=False)
    look(s)


@scenario("T08-Pending-deleted")
def deleted(s: Script) -> None:
    """TX78: what OffsetDelete and DeleteGroups take does not come back."""
    who = fresh(s)
    commit(s, s.name(), {T1: [(0, 1), (1, 1)]})
    hold(s, 3, who, 5)
    hold(s, 3, who, 6, index=1)
    delete_offsets(s, s.name(), {T1: [0]})
    look(s)
    finish(s, who)
    look(s)
    hold(s, 3, who, 7)
    s.client().call(DeleteGroupsRequest(groups_names=[s.name()]), 2)
    look(s)
    finish(s, who)
    look(s)
    hold(s, 3, who, 8, group=s.name("only"))
    s.client().call(DeleteGroupsRequest(groups_names=[s.name("only")]), 2)
    finish(s, who)
    look(s, s.name("only"))


@scenario("Pending-fenced")
def died(s: Script) -> None:
    """TX73: the process dies, and the next one aborts what it had taken."""
    t = topic(s)
    tid, pair = who = fresh(s)
    commit(s, s.name(), {T1: [(0, 1)]})
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"output")
    hold(s, 3, who, 2)
    read(s, t)
    look(s)
    init(s, 4, tid)
    settled(s, tid)
    init(s, 4, tid)
    read(s, t)
    look(s)


@each_version("Pending-timed-out", (3, 5))
def timed_out(s: Script, v: int) -> None:
    """TX36, TX37, TX51: the broker ends it; before anything has joined, no clock runs."""
    t = topic(s)
    idle = fresh(s, "idle", SHORT_MS)
    tid, pair = who = fresh(s, timeout_ms=SHORT_MS)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"x")
    hold(s, v, who, 2)
    asked = DescribeTransactionsRequest(transactional_ids=[tid])
    until = time.monotonic() + 60
    while s.observer().call(asked, 0).transaction_states[0].transaction_state == "Ongoing":
        assert time.monotonic() < until
        time.sleep(0.05)
    settled(s, tid)
    look(s)
    read(s, t)
    described(s, idle[0], tid)
    write(s, 9, tid, pair, t, 1, b"y")
    add(s, 3, tid, pair, (t, [0]))
    end(s, v, tid, pair, commit=True)
    end(s, v, tid, pair, commit=False)


@scenario("E-TX79-Pending-retained", stage="later")
def retained(s: Script) -> None:
    """TX79: a pending offset keeps the one before it, and its group; a decided one keeps nothing."""
    who, alone = fresh(s, timeout_ms=LONG_MS), fresh(s, "alone", LONG_MS)
    only = s.name("only")
    commit(s, s.name(), {T1: [(0, 1), (1, 1)]}, 4, retention_ms=500)
    hold(s, 3, who, 5)
    hold(s, 3, alone, 6, group=only)
    _expired(s, 1)
    time.sleep(2)  # two more looks
    for group in (s.name(), only):
        look(s, group)
        s.client().call(DescribeGroupsRequest(groups=[group]), 5)
    finish(s, alone)
    look(s, only)
    finish(s, who, commit=False)
    _expired(s, 0)
    look(s)


def _expired(s: Script, index: int) -> None:
    eventually(lambda: s.observer().committed(s.name(), T1, [index])[1][index] == -1, what=f"{index} expires")


@scenario("P-Pending")
def before_a_restart(s: Script) -> None:
    """One that is open, with data and an offset; one that is over."""
    t = topic(s, retention_ms="-1")  # its records are old: only a broker that has been up for a while would delete them
    tid, pair = who = fresh(s, timeout_ms=LONG_MS)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"before")
    commit(s, s.name(), {T1: [(0, 1)]})
    hold(s, 3, who, 2)
    over = fresh(s, "over")
    add(s, 3, *over, (t, [1]))
    finish(s, over)
    s.kept = t, who, over


@scenario("P-Pending", stage="later")
def after_a_restart(s: Script) -> None:
    """TX80, TX81, TX85: it goes on. Its offset may expire at once in this life, as soon as it is no longer held."""
    t, who, over = s.kept
    tid, pair = who
    eventually(lambda: s.observer().coordinator_error(s.name()) == 0)
    described(s, tid, over[0])
    look(s)
    write(s, 9, tid, pair, t, 0, b"before")
    write(s, 9, tid, pair, t, 1, b"after")
    finish(s, who)
    end(s, 3, *over, commit=True)
    list_offsets(s, 3, {(t, 0): -1, (t, 1): -1}, isolation=1)
