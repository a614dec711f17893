"""What readers and administrators meet where transactions are open, aborted or cut off."""

from __future__ import annotations

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import T0, fetch, list_offsets, produce, records, topic
from tests.reference.judge.scenarios_transactions import add, described, end, fresh, read, settled, write


@each_version("Undecided-fetch", (4, 11))
def fetched(s: Script, v: int) -> None:
    """TX57: an open transaction at 0, and plain data behind it."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"open")
    produce(s, 9, {(t, 0): records(b"plain")})
    fetch(s, v, {(t, 0): 0}, isolation_level=1)
    fetch(s, v, {(t, 0): 0}, isolation_level=0)
    fetch(s, v, {(t, 0): 1}, isolation_level=1)


@scenario("Undecided-aborted")
def aborted(s: Script) -> None:
    """TX58, TX59: two aborted, one open behind them; from the beginning, from inside, from behind a marker."""
    t = topic(s)
    one, other, third = fresh(s), fresh(s, "other"), fresh(s, "third")
    for who in (one, other):
        add(s, 3, *who, (t, [0]))
        write(s, 9, *who, t, 0, b"a", b"b")
    for who in (other, one):
        end(s, 3, *who, commit=False)
        settled(s, who[0])
    add(s, 3, *third, (t, [0]))
    write(s, 9, *third, t, 0, b"open")
    for start in range(7):
        read(s, t, start=start)
    list_offsets(s, 5, {(t, 0): -1}, isolation=1)


@scenario("Undecided-parked")
def parked(s: Script) -> None:
    """TX60: who waits at the last stable offset is answered by the marker."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"open")
    fetch(s, 11, {(t, 0): 0}, isolation_level=1, max_wait_ms=14_000, min_bytes=1, client="reader", heard=False)
    s.client("reader").parked()
    end(s, 3, tid, pair, commit=True)
    api, _ = s.client("reader")._awaited.pop(0)
    answer = s.client("reader").wire.receive().responses[0].partitions[0]
    s.note(api, (answer.error_code, bool(answer.records)))
    settled(s, tid)
    read(s, t)


@scenario("Undecided-list-offsets")
def listed(s: Script) -> None:
    """TX61: nothing from the last stable offset on is told to who reads what is committed."""
    t = topic(s)
    tid, pair = fresh(s)
    produce(s, 9, {(t, 0): records(b"plain")})
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"a", b"b", b"c")
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3, T0, T0 + 10, T0 + 15, T0 + 99):
            list_offsets(s, 7, {(t, 0): timestamp}, isolation=isolation)


@scenario("Undecided-deleted-records")
def records_deleted(s: Script) -> None:
    """TX62: records of an open transaction are deleted, then it is aborted."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"a", b"b")
    place = DeleteRecordsTopic(name=t, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    s.client().call(DeleteRecordsRequest(topics=[place], timeout_ms=5_000), 2)
    for isolation in (0, 1):
        list_offsets(s, 5, {(t, 0): -1}, isolation=isolation)
        list_offsets(s, 5, {(t, 0): -2}, isolation=isolation)
    write(s, 9, tid, pair, t, 2, b"c")
    end(s, 3, tid, pair, commit=False)
    settled(s, tid)
    read(s, t, start=2)
    list_offsets(s, 5, {(t, 0): -1}, isolation=1)


@scenario("Undecided-deleted-topic")
def topic_deleted(s: Script) -> None:
    """TX39: a topic goes in the middle, the transaction ends without it."""
    t, gone = topic(s), topic(s, "gone")
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]), (gone, [0, 1]))
    write(s, 9, tid, pair, t, 0, b"x")
    write(s, 9, tid, pair, gone, 0, b"y")
    s.client().call(DeleteTopicsRequest(topic_names=[gone], timeout_ms=30_000), 5)
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    described(s, tid)
    read(s, t)


@scenario("Undecided-two-partitions")
def two_partitions(s: Script) -> None:
    """TX52: one of two partitions is unknown, and only the other joins."""
    t = topic(s)
    tid, pair = fresh(s)
    data = records(b"x", producer_id=pair[0], producer_epoch=pair[1], base_sequence=0, transactional=True)
    produce(s, 12, {(t, 0): data, (t, 9): data}, transactional_id=tid)
    described(s, tid)
    pair = end(s, 5, tid, pair, commit=True)
    settled(s, tid)
    read(s, t)
