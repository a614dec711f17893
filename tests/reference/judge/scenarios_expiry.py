"""What time takes away (producers, transactional ids, superseded records), and what nobody verified."""

from __future__ import annotations

import time
from typing import Any

from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from protocol.records import batch
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import T0, list_offsets, produce, records, topic
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

UNKNOWN = 105  # TRANSACTIONAL_ID_NOT_FOUND


def of_now(pid: int, sequence: int, *values: bytes) -> bytes:
    """A batch of an idempotent producer, written just now: producers are forgotten by the times of their batches."""
    now = time.time_ns() // 1_000_000 - T0
    times = range(now, now + len(values))
    return records(*values, timestamps=times, producer_id=pid, producer_epoch=0, base_sequence=sequence)


def forgotten(s: Script, t: str, index: int) -> None:
    """Wait until the partition knows no producer any more."""
    wanted = DescribeProducersTopicRequest(name=t, partition_indexes=[index])

    def gone() -> bool:
        answer = s.observer().call(DescribeProducersRequest(topics=[wanted]), 0)
        return not answer.topics[0].partitions[0].active_producers

    eventually(gone, deadline_s=60, what=f"{t}-{index} forgets its producers")


def expired(s: Script, *tids: str) -> None:
    """Wait until nobody knows these transactional ids."""
    asked = DescribeTransactionsRequest(transactional_ids=list(tids))
    eventually(
        lambda: {one.error_code for one in s.observer().call(asked, 0).transaction_states} == {UNKNOWN},
        deadline_s=60,
        what=f"{tids} expire",
    )


@scenario("TX13-Expiry-producers", stage="short")
def producers_expire(s: Script) -> None:
    """A silent producer is forgotten, by the time of its last batch; never while it has a transaction open."""
    t = topic(s, partitions=3, retention_ms="-1")
    pid = producer(s)
    tid, pair = fresh(s)
    produce(s, 9, {(t, 0): records(b"old", producer_id=pid, producer_epoch=0, base_sequence=0)})
    produce(s, 9, {(t, 1): of_now(pid, 0, b"new")})
    add(s, 3, tid, pair, (t, [2]))
    write(s, 9, tid, pair, t, 0, b"open", index=2)
    for index in (0, 1):
        forgotten(s, t, index)
    producers(s, t, 0, 1, 2)
    for index in (0, 1):
        produce(s, 9, {(t, index): of_now(pid, 7, b"any")})
        produce(s, 9, {(t, index): of_now(pid, 7, b"any")})
        produce(s, 9, {(t, index): of_now(pid, 9, b"gap")})
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    forgotten(s, t, 2)
    list_offsets(s, 5, {(t, index): -1 for index in range(3)}, isolation=1)


@scenario("TX38-Expiry-ids", stage="short")
def ids_expire(s: Script) -> None:
    """An id that nobody uses is forgotten, Empty or Complete; one with a transaction is not."""
    t = topic(s, retention_ms="-1")
    idle, over, busy = fresh(s, "idle"), fresh(s, "over"), fresh(s, "busy")
    add(s, 3, *busy, (t, [1]))
    add(s, 3, *over, (t, [0]))
    end(s, 3, *over, commit=True)
    settled(s, over[0])
    expired(s, idle[0], over[0])
    described(s, idle[0], over[0], busy[0])
    end(s, 3, *over, commit=True)
    end(s, 5, *over, commit=True)
    add(s, 3, *idle, (t, [0]))
    init(s, 4, over[0], over[1])
    init(s, 4, idle[0])
    write(s, 9, *busy, t, 0, b"x", index=1)
    end(s, 3, *busy, commit=True)
    settled(s, busy[0])
    list_offsets(s, 5, {(t, 1): -1}, isolation=1)


def mark(s: Script, v: int, t: str, pair: Pair) -> None:
    """An operator's abort."""
    place = WritableTxnMarkerTopic(name=t, partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=pair[0], producer_epoch=pair[1], topics=[place], coordinator_epoch=0)
    s.client().call(WriteTxnMarkersRequest(markers=[marker]), v)


def looked_at(s: Script, t: str) -> None:
    producers(s, t)
    read(s, t)
    list_offsets(s, 5, {(t, 0): -1}, isolation=1)


@each_version("TX67-Expiry-unverified", (9, 11, 12), stage="short")
def unverified(s: Script, v: int) -> None:
    """Data that no coordinator knows of holds readers up, until an operator aborts it. Version 12 adds all the same."""
    t = topic(s, retention_ms="-1")
    tid, pair = fresh(s)
    write(s, v, tid, pair, t, 0, b"hangs")
    described(s, tid)
    looked_at(s, t)
    mark(s, 1, t, pair)
    looked_at(s, t)


@scenario("TX68-Expiry-closed-by-the-next", stage="short")
def closed_by_the_next(s: Script) -> None:
    """A transaction that hangs is closed by the marker of the next one of its producer."""
    t = topic(s, retention_ms="-1")
    tid, pair = fresh(s)
    write(s, 9, tid, pair, t, 0, b"hangs")
    looked_at(s, t)
    made = init(s, 4, tid)
    pair = made.producer_id, made.producer_epoch
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"next")
    looked_at(s, t)
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    looked_at(s, t)


def keyed(at: int, *pairs: tuple[bytes, bytes], **facts: Any) -> bytes:
    """One batch of these keys and values, `at` ms after T0."""
    made = [batch.Record(i, T0 + at, key, value) for i, (key, value) in enumerate(pairs)]
    return bytes(batch.encode_batch(made, **facts))


@scenario("TX65-TX66-Expiry-cleaned", stage="short", since="4.3.1")
def cleaned(s: Script) -> None:
    """One pass of the cleaner: what is aborted or superseded goes, and nothing from the last stable offset on."""
    configs = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "1.0"}
    t = topic(s, partitions=1, **configs)
    minute = 60_000
    now = time.time_ns() // 1_000_000 - T0  # markers are written then; each batch of a later time begins a segment
    one, other, third = fresh(s), fresh(s, "other"), fresh(s, "third")

    def say(who: tuple[str, Pair], at: int, *pairs: tuple[bytes, bytes]) -> None:
        tid, pair = who
        facts = {"producer_id": pair[0], "producer_epoch": pair[1], "base_sequence": 0, "transactional": True}
        add(s, 3, tid, pair, (t, [0]))
        produce(s, 9, {(t, 0): keyed(at, *pairs, **facts)}, transactional_id=tid)

    produce(s, 9, {(t, 0): keyed(0, (b"W", b"first"))})
    say(one, 10_000, (b"A", b"committed"), (b"B", b"committed"))
    say(other, 20_000, (b"A", b"aborted"))
    for who, commit in ((one, True), (other, False)):
        end(s, 3, *who, commit=commit)
        settled(s, who[0])
    produce(s, 9, {(t, 0): keyed(now + 10 * minute, (b"B", b"last"), (b"W", b"last"))})
    say(third, now + 20 * minute, (b"B", b"open"))
    produce(s, 9, {(t, 0): keyed(now + 30 * minute, (b"A", b"behind"))})
    produce(s, 9, {(t, 0): keyed(now + 40 * minute, (b"A", b"active"))})
    read(s, t, 0)
    ratio = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=0, value="0.0")
    resource = AlterConfigsResource(resource_type=2, resource_name=t, configs=[ratio])
    assert not s.observer().call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
    eventually(lambda: _first(s, t) > 0, deadline_s=60, what="the cleaner has been there")
    read(s, t, 0)
    read(s, t)
    end(s, 3, *third, commit=True)
    settled(s, third[0])
    list_offsets(s, 5, {(t, 0): -1}, isolation=1)


def _first(s: Script, t: str) -> int:
    """The offset of the first record that is left."""
    place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=t, partitions=[place])])
    data = bytes(s.observer().call(request, 11).responses[0].partitions[0].records or b"")
    for position, _ in batch.iterate_headers(data):
        for record in batch.iterate_records(data, position):
            return int(record.offset)
    return -1
