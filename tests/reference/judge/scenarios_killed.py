"""Transactions and producers over a SIGKILL, at moments of our own choosing.

Each file of a log is only appended to. So what is cut off it while the broker is dead takes it back to what it held at
an earlier moment: between a decision, its markers and its end. What nobody waits for (32,766 epochs) is appended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from coordinator.routing import partition_for
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.registry import APIS
from tests.reference.judge import files
from tests.reference.judge.catalog import scenario
from tests.reference.judge.files import COMPLETE, INTERNAL_PARTITIONS, PREPARED
from tests.reference.judge.members import T1
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import T0, fetch, produce, records, topic
from tests.reference.judge.scenarios_expiry import expired, of_now
from tests.reference.judge.scenarios_patience import at_last, ending
from tests.reference.judge.scenarios_pending import LONG_MS, hold, look
from tests.reference.judge.scenarios_producers import producer
from tests.reference.judge.scenarios_transactions import (
    Pair,
    add,
    described,
    end,
    fresh,
    init,
    producers,
    read,
    settled,
    write,
)
from tests.support.broker_process import eventually

LAST_EPOCH = 32_766

Who = tuple[str, Pair]


def alone(s: Script, place: int, suffix: str = "tx") -> Who:
    """A transactional id in this partition of `__transaction_state`, where no other is cut."""
    suffixes = (f"{suffix}{number}" for number in count())
    return fresh(s, next(x for x in suffixes if partition_for(s.name(x), INTERNAL_PARTITIONS) == place), LONG_MS)


# What any SIGKILL leaves, with nothing cut


@scenario("Killed-producers", stage="short")
def before_they_go_on(s: Script) -> None:
    """TX11, TX81, TX86: batches of a plain producer; partitions that were added without data; one with data."""
    t = topic(s, partitions=5, retention_ms="-1")
    pid = producer(s)
    for sequence in range(3):
        produce(s, 9, {(t, 0): of_now(pid, sequence, b"%d" % sequence)})
    added, joined, busy = alone(s, 1, "added"), alone(s, 2, "joined"), alone(s, 3, "busy")
    add(s, 3, *added, (t, [1]))
    write(s, 12, *joined, t, 5, b"gap", index=2)
    add(s, 3, *busy, (t, [3]))
    write(s, 9, *busy, t, 0, b"before", index=3)
    s.kept = t, pid, added, joined, busy


@scenario("Killed-producers", stage="killed")
def they_go_on(s: Script) -> None:
    """What was answered is there, what was added is in, and nothing is written twice."""
    t, pid, added, joined, busy = s.kept
    for sequence in (2, 4, 3):
        produce(s, 9, {(t, 0): of_now(pid, sequence, b"%d" % sequence)})
    described(s, added[0], joined[0], busy[0])
    add(s, 3, *added, (t, [1]))
    write(s, 9, *added, t, 0, b"once", index=1)
    write(s, 9, *added, t, 0, b"once", index=1)
    write(s, 12, *joined, t, 0, b"once", index=2)
    write(s, 9, *busy, t, 0, b"before", index=3)
    write(s, 9, *busy, t, 1, b"after", index=3)
    for version, who in ((3, added), (5, joined), (3, busy)):
        end(s, version, *who, commit=True)
        settled(s, who[0])
        at_last(s, ending(who, commit=True), version)
    for index in range(4):
        read(s, t, index=index)


@scenario("TX89-Killed-expired", stage="short")
def before_it_is_unknown(s: Script) -> None:
    s.kept = who = alone(s, 4)
    expired(s, who[0])


@scenario("TX89-Killed-expired", stage="killed")
def still_unknown(s: Script) -> None:
    """The tombstone of an id holds."""
    tid, pair = s.kept
    described(s, tid)
    end(s, 3, tid, pair, commit=True)
    init(s, 4, tid)


# Between a decision and its end


def decided(s: Script, place: int, *, commit: bool) -> tuple[str, str, Who]:
    """A transaction in two topics, ended."""
    t, u = topic(s, retention_ms="-1"), topic(s, "u", retention_ms="-1")
    tid, pair = who = alone(s, place)
    add(s, 3, *who, (t, [0]), (u, [0]))
    write(s, 9, *who, t, 0, b"first")
    write(s, 9, *who, u, 0, b"second")
    end(s, 3, tid, pair, commit=commit)
    settled(s, tid)
    return t, u, who


def finished(s: Script) -> None:
    """It has been carried out without any call; the next transaction goes on."""
    t, u, who = s.kept
    for name in (t, u):
        eventually(lambda name=name: _end_for_readers(s, name) > 1, what=f"{name} can be read")
    settled(s, who[0])
    described(s, who[0])
    for name in (t, u):
        read(s, name)
    end(s, 3, *who, commit=True)
    add(s, 3, *who, (t, [0]))
    write(s, 9, *who, t, 1, b"next")
    end(s, 3, *who, commit=True)
    settled(s, who[0])
    read(s, t)


def _end_for_readers(s: Script, name: str) -> int:
    place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, isolation_level=1, topics=[FetchTopic(topic=name, partitions=[place])])
    return int(s.observer().call(request, 11).responses[0].partitions[0].last_stable_offset)


def killed_while(name: str, place: int, cuts: int, *, commit: bool) -> None:
    """Three acts: `cuts` of the two markers were not written yet, nor the end."""

    @scenario(name, stage="short")
    def before(s: Script) -> None:
        s.kept = decided(s, place, commit=commit)

    @scenario(name, stage="dead")
    def dead(s: Script) -> None:
        t, u, who = s.kept
        files.cut_before(s.data, who[0], COMPLETE)
        for marked in (u, t)[:cuts]:
            files.unmark(s.data, marked)

    scenario(name, stage="killed")(finished)


killed_while("TX82-Killed-decided", 5, 2, commit=True)
killed_while("TX82-Killed-decided-abort", 6, 2, commit=False)
killed_while("TX83-Killed-one-marker", 7, 1, commit=True)
killed_while("TX83-Killed-one-marker-abort", 8, 1, commit=False)
killed_while("TX84-Killed-marked", 9, 0, commit=True)


@scenario("TX87-Killed-torn", stage="short")
def before_it_is_torn(s: Script) -> None:
    s.kept = decided(s, 10, commit=True)


@scenario("TX87-Killed-torn", stage="dead")
def torn(s: Script) -> None:
    """Of the decision only the first bytes were written."""
    t, u, who = s.kept
    files.cut_before(s.data, who[0], COMPLETE)
    files.cut_before(s.data, who[0], PREPARED, keep=70)
    for name in (t, u):
        files.unmark(s.data, name)


@scenario("TX87-Killed-torn", stage="killed")
def as_before(s: Script) -> None:
    """The transaction is open, as before the decision."""
    t, u, who = s.kept
    described(s, who[0])
    write(s, 9, *who, t, 1, b"third")
    end(s, 3, *who, commit=False)
    settled(s, who[0])
    for name in (t, u):
        read(s, name)


@scenario("TX85-Killed-ended", stage="short")
def before_it_is_ended_again(s: Script) -> None:
    """One transaction of each kind, ended."""
    t = topic(s, retention_ms="-1")
    kept: list[tuple[int, Who, Pair]] = []
    for place, v in ((15, 3), (16, 5)):
        tid, pair = who = alone(s, place, f"v{v}-")
        add(s, 3, *who, (t, [0]))
        write(s, 9, *who, t, 0, b"first")
        kept.append((v, who, end(s, v, tid, pair, commit=True)))
        settled(s, tid)
    s.kept = t, kept


@scenario("TX85-Killed-ended", stage="dead")
def ended(s: Script) -> None:
    """The records of the end are the last ones: the ids had not expired yet."""
    for _, (tid, _), _ in s.kept[1]:
        files.cut_behind(s.data, tid, COMPLETE)


@scenario("TX85-Killed-ended", stage="killed")
def ended_again(s: Script) -> None:
    """The answer was lost: the same end gets the same answer."""
    t, kept = s.kept
    for v, (tid, pair), following in kept:
        described(s, tid)
        end(s, v, tid, pair, commit=True)
        end(s, v, tid, pair, commit=False)
        add(s, 3, tid, following, (t, [0]))
        write(s, 9, tid, following, t, 1 if v < 5 else 0, b"next")
        end(s, v, tid, following, commit=True)
        settled(s, tid)
    read(s, t)


# Files


@scenario("TX14-Killed-snapshot", stage="short")
def before_a_snapshot_breaks(s: Script) -> None:
    """Several segments, and with each a snapshot of the producers."""
    t = topic(s, partitions=1, segment_ms="1", retention_ms="-1")
    pids = producer(s), producer(s)
    moments = count(time.time_ns() // 1_000_000 - T0, 10_000)
    for sequence in range(4):
        for pid in pids:
            say(s, t, pid, sequence, next(moments))
    s.kept = t, pids, moments


def say(s: Script, t: str, pid: int, sequence: int, moment: int) -> None:
    """A batch of a producer, `moment` ms after T0."""
    facts = {"producer_id": pid, "producer_epoch": 0, "base_sequence": sequence}
    produce(s, 9, {(t, 0): records(b"%d" % sequence, timestamps=[moment], **facts)})


@scenario("TX14-Killed-snapshot", stage="dead")
def broken(s: Script) -> None:
    files.break_snapshot(s.data, s.kept[0])


@scenario("TX14-Killed-snapshot", stage="killed")
def all_the_same(s: Script) -> None:
    """The producers are known as before."""
    t, pids, moments = s.kept
    producers(s, t)
    for pid in pids:
        for sequence in (3, 5, 4):
            say(s, t, pid, sequence, next(moments))
    producers(s, t)
    fetch(s, 11, {(t, 0): 0})


# The last epoch


def exhausted(s: Script) -> None:
    """One more record of the id, as it would be in its last epoch."""
    for tid, _ in s.kept[1:]:
        files.append_epoch(s.data, tid, LAST_EPOCH)


@scenario("TX24-TX49-Killed-last-epoch", stage="short")
def before_the_last_epoch(s: Script) -> None:
    s.kept = topic(s, retention_ms="-1"), alone(s, 11), alone(s, 12, "ends"), alone(s, 13, "old")


scenario("TX24-TX49-Killed-last-epoch", stage="dead")(exhausted)


@scenario("TX24-TX49-Killed-last-epoch", stage="killed")
def in_the_last_epoch(s: Script) -> None:
    """A new producer, and the end of a transaction, go on with another producer id."""
    t, (tid, (pid, _)), (ends, (its, _)), (old, (olds, _)) = s.kept
    described(s, tid, ends, old)
    for epoch in (LAST_EPOCH, LAST_EPOCH, LAST_EPOCH - 1):
        init(s, 4, tid, (pid, epoch))
    described(s, tid)

    last = its, LAST_EPOCH
    write(s, 12, ends, last, t, 0, b"last")
    pair = end(s, 5, ends, last, commit=True)
    settled(s, ends)
    at_last(s, ending((ends, last), commit=True), 5)
    write(s, 12, ends, last, t, 1, b"zombie")
    write(s, 12, ends, pair, t, 0, b"next")
    end(s, 5, ends, pair, commit=True)
    settled(s, ends)
    described(s, ends)

    last = olds, LAST_EPOCH
    add(s, 3, old, last, (t, [0]))
    write(s, 9, old, last, t, 0, b"old")
    end(s, 3, old, last, commit=True)
    settled(s, old)
    init(s, 4, old)
    described(s, old)
    read(s, t)


# While logs are loaded

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16  # the last: nobody has been elected yet


@scenario("TX88-T09-Killed-loading", stage="short", first=True)
def before_loading(s: Script) -> None:
    t = topic(s, retention_ms="-1")
    who = alone(s, 14)
    add(s, 3, *who, (t, [0]))
    write(s, 9, *who, t, 0, b"before")
    hold(s, 3, who, 1)
    s.kept = t, who


@scenario("TX88-T09-Killed-loading", stage="killed")
def loading(s: Script) -> None:
    """From the broker's first moment on: that it loads, as often as need be, and then what is right."""
    t, (tid, (pid, epoch)) = s.kept

    def commit(version: int, offset: int) -> None:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=tid,
            group_id=s.name(),
            producer_id=pid,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=T1, partitions=[place])],
        )
        loads = LOADING if version >= 2 else NOT_AVAILABLE
        loaded(s, request, version, loads, lambda answer: answer.topics[0].partitions[0].error_code)

    loaded(s, DescribeTransactionsRequest(transactional_ids=[tid]), 0, LOADING, _first_state)
    commit(1, 2)
    commit(3, 3)
    loaded(s, ending((tid, (pid, epoch)), commit=False), 3, LOADING, lambda answer: answer.error_code)
    settled(s, tid)
    read(s, t)
    look(s)


def _first_state(answer: Any) -> int:
    return int(answer.transaction_states[0].error_code)


def loaded(s: Script, request: Any, version: int, loads: int, code: Callable[[Any], int]) -> None:
    """The first answer that does not say that the partition is not loaded yet, or not led, as a note."""

    def answered() -> Any:
        answer = s.observer().call(request, version)
        return None if code(answer) in (loads, NOT_COORDINATOR) else answer

    s.note(APIS[request.API_KEY].name, s.names.plain(eventually(answered, what="loaded"), version))
