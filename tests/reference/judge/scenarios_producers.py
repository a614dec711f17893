"""Producers: odd sequences, late requests of who was shut out, late markers, transactions over several segments."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import fetch, list_offsets, produce, records, topic
from tests.reference.judge.scenarios_transactions import Pair, add, described, end, fresh, init, read, settled, write

LAST = 2**31 - 1


def producer(s: Script) -> int:
    """A producer id, not recorded."""
    found: int = (
        s.observer().call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 2).producer_id
    )
    return found


def batch(producer_id: int, sequence: int, *values: bytes, **options: object) -> bytes:
    return records(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **options)


@each_version("Producers-sequences", (9, 12))
def sequences(s: Script, v: int) -> None:
    """TX04, TX05, TX07, TX08, TX09: a part of a batch, a gap, the end of all numbers, and what no producer sends."""
    t = topic(s, partitions=3)
    pid, other = producer(s), producer(s)
    for data in (
        batch(pid, 0, b"a", b"b", b"c"),
        batch(pid, 0, b"a", b"b"),
        batch(pid, 1, b"b", b"c"),
        batch(pid, 6, b"gap"),
        batch(pid, 3, b"d"),
        batch(pid, -1, b"none"),
        batch(pid, 4, b"e", control=True),
        batch(pid, 4, b"e") + batch(pid, 5, b"f"),
    ):
        produce(s, v, {(t, 0): data})
    produce(s, v, {(t, 1): batch(pid, LAST, b"last")})
    produce(s, v, {(t, 1): batch(pid, 0, b"first")})
    for sequence, values in (
        (LAST - 1, (b"x", b"y", b"z")),
        (LAST - 1, (b"x", b"y", b"z")),
        (0, (b"no",)),
        (1, (b"yes",)),
    ):
        produce(s, v, {(t, 2): batch(other, sequence, *values)})
    for index in range(3):
        fetch(s, 11, {(t, index): 0})


@scenario("Producers-in-flight")
def in_flight(s: Script) -> None:
    """TX10: the first of five is refused, so are those behind it, and all come again in their order."""
    t = topic(s)
    pid = producer(s)
    for corrupt in (True, False):
        for sequence in range(5):
            data = bytearray(batch(pid, sequence, b"%d" % sequence))
            if corrupt and not sequence:
                data[-1] ^= 1
            produce(s, 9, {(t, 0): bytes(data)}, heard=False)
        for _ in range(5):
            s.client().answer()
        produce(s, 9, {(t, 0): batch(pid, 0, b"0")})
    fetch(s, 11, {(t, 0): 0})


@scenario("Producers-deleted-records")
def records_deleted(s: Script) -> None:
    """TX15: who wrote what is deleted is remembered."""
    t = topic(s)
    pid = producer(s)
    produce(s, 9, {(t, 0): batch(pid, 0, b"a", b"b")})
    place = DeleteRecordsTopic(name=t, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    s.client().call(DeleteRecordsRequest(topics=[place], timeout_ms=5_000), 2)
    for sequence in (5, 0, 2):
        produce(s, 9, {(t, 0): batch(pid, sequence, b"c")})
    fetch(s, 11, {(t, 0): 2})


@each_version("Producers-shut-out", (9, 11, 12))
def shut_out(s: Script, v: int) -> None:
    """TX19: by one who has written nothing yet, with nothing open."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"before")
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    init(s, 4, tid)
    write(s, v, tid, pair, t, 1, b"zombie")
    write(s, v, tid, pair, t, 0, b"zombie", index=1)
    add(s, 3, tid, pair, (t, [0]))
    add(s, 1, tid, pair, (t, [0]))
    end(s, 3, tid, pair, commit=True)
    end(s, 1, tid, pair, commit=True)
    end(s, 5, tid, pair, commit=True)
    described(s, tid)
    read(s, t)


@each_version("Producers-nameless", (9, 12))
def nameless(s: Script, v: int) -> None:
    """TX34: a transactional batch without a transactional id refuses its whole request."""
    t = topic(s)
    _, pair = fresh(s)
    data = records(b"x", producer_id=pair[0], producer_epoch=pair[1], base_sequence=0, transactional=True)
    produce(s, v, {(t, 0): data, (t, 1): records(b"plain")})
    list_offsets(s, 5, {(t, 0): -1, (t, 1): -1})


@scenario("T11-Producers-late-marker")
def late_marker(s: Script) -> None:
    """TX56: a marker of the transaction before is refused while the next one is open, and else changes nothing."""
    t = topic(s)
    tid, pair = fresh(s)

    def mark(epoch: int) -> None:
        place = WritableTxnMarkerTopic(name=t, partition_indexes=[0])
        facts = {"transaction_result": False, "coordinator_epoch": 0, "transaction_version": 2}
        marker = WritableTxnMarker(producer_id=pair[0], producer_epoch=epoch, topics=[place], **facts)
        s.client().call(WriteTxnMarkersRequest(markers=[marker]), 2)

    write(s, 12, tid, pair, t, 0, b"one")
    pair = end(s, 5, tid, pair, commit=True)
    settled(s, tid)
    mark(pair[1])
    write(s, 12, tid, pair, t, 0, b"two")
    mark(pair[1])
    mark(pair[1] - 1)
    pair = end(s, 5, tid, pair, commit=True)
    settled(s, tid)
    mark(pair[1] - 1)
    read(s, t)


def _segments(s: Script) -> tuple[str, tuple[str, Pair]]:
    """Aborted transactions, each over two segments, and one of them inside another: every later batch rolls."""
    t = topic(s, segment_ms="1", retention_ms="-1")
    one, other = fresh(s), fresh(s, "other")

    def say(who: tuple[str, Pair], sequence: int, times: Iterable[int]) -> None:
        (tid, pair), values = who, [b"%d" % moment for moment in times]
        facts = {"producer_id": pair[0], "producer_epoch": pair[1], "base_sequence": sequence, "transactional": True}
        produce(s, 9, {(t, 0): records(*values, timestamps=times, **facts)}, transactional_id=tid)

    for who in (one, other):
        add(s, 3, *who, (t, [0]))
    say(one, 0, (0, 10))
    say(one, 2, (5_000, 5_010))
    say(other, 0, (9_000,))
    for who in (one, other):
        end(s, 3, *who, commit=False)
        settled(s, who[0])
    add(s, 3, *one, (t, [0]))
    say(one, 4, (20_000,))
    end(s, 3, *one, commit=True)
    settled(s, one[0])
    return t, one


@scenario("P-Producers")
def before_a_restart(s: Script) -> None:
    """TX63, TX64: aborted transactions of several segments; TX12: the batches of a plain producer."""
    t, _ = _segments(s)
    for start in range(9):
        read(s, t, start=start)
    plain = topic(s, "plain", retention_ms="-1")
    pid = producer(s)
    for sequence in range(3):
        produce(s, 9, {(plain, 0): batch(pid, sequence, b"%d" % sequence)})
    s.kept = t, plain, pid


@scenario("P-Producers", stage="later")
def after_a_restart(s: Script) -> None:
    """TX63 again; TX12: the last batch is known still; TX01: new ids come from a new block of a thousand."""
    t, plain, pid = s.kept
    for start in range(9):
        read(s, t, start=start)
    for sequence in (2, 4, 3):
        produce(s, 9, {(plain, 0): batch(pid, sequence, b"%d" % sequence)})
    s.note("a new block", producer(s) // 1000 > pid // 1000)
