"""Transactions in every version: who may write, what joins, how it ends, what readers and administrators see."""

from __future__ import annotations

import time
from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import list_offsets, produce, records, topic
from tests.support.broker_process import PATIENCE, eventually

Pair = tuple[int, int]
NOBODY: Pair = (987_654, 0)
BY_KEY_TYPE = 1
TIMEOUT_MS = 60_000
INTERNAL = "__consumer_offsets"


def coordinated(s: Script, tid: str) -> None:
    """Wait until somebody coordinates the id: the first who asks has the topic made."""
    request = FindCoordinatorRequest(key_type=BY_KEY_TYPE, key=tid)
    eventually(lambda: s.observer().call(request, 3).error_code == 0, deadline_s=60, what="a coordinator")


def fresh(s: Script, suffix: str = "tx", timeout_ms: int = TIMEOUT_MS) -> tuple[str, Pair]:
    """A transactional id of the scenario's own and its producer; not recorded."""
    tid = s.name(suffix)
    coordinated(s, tid)
    request = InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=timeout_ms)
    answer = eventually(lambda: next((a for a in [s.observer().call(request, 4)] if a.error_code == 0), None))
    return tid, (answer.producer_id, answer.producer_epoch)


def init(s: Script, version: int, tid: str, pair: Pair = (-1, -1), timeout_ms: int = TIMEOUT_MS) -> Any:
    request = InitProducerIdRequest(
        transactional_id=tid, transaction_timeout_ms=timeout_ms, producer_id=pair[0], producer_epoch=pair[1]
    )
    return s.client().call(request, version)


def add(s: Script, version: int, tid: str, pair: Pair, *places: tuple[str, list[int]], quietly: bool = False) -> Any:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=which) for name, which in places]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=tid,
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=topics,
    )
    return s.observer().call(request, version) if quietly else s.client().call(request, version)


def end(s: Script, version: int, tid: str, pair: Pair, *, commit: bool) -> Pair:
    """The pair to go on with."""
    request = EndTxnRequest(transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], committed=commit)
    answer = s.client().call(request, version)
    if version >= 5 and answer.error_code == 0:
        return answer.producer_id, answer.producer_epoch
    return pair


def settled(s: Script, tid: str, within_s: float = 30) -> None:
    """Wait until the markers are in; not recorded but for the state."""
    until = time.monotonic() + within_s * PATIENCE
    while True:
        one = s.observer().call(DescribeTransactionsRequest(transactional_ids=[tid]), 0).transaction_states[0]
        if not one.transaction_state.startswith("Prepare") or time.monotonic() > until:
            s.note("state", one.transaction_state)
            return
        time.sleep(0.01)


def write(
    s: Script, version: int, tid: str, pair: Pair, name: str, sequence: int, *values: bytes, index: int = 0
) -> Any:
    data = records(
        *values,
        producer_id=pair[0],
        producer_epoch=pair[1],
        base_sequence=sequence,
        transactional=True,
    )
    return produce(s, version, {(name, index): data}, transactional_id=tid)


def read(s: Script, name: str, isolation: int = 1, start: int = 0, index: int = 0) -> None:
    """What a reader gets of a partition from there on. Kafka may stop before a marker, which the next fetch brings."""
    found: list[Any] = []
    aborted: set[int] = set()
    offset, end_offset = start, start + 1
    while offset < end_offset:
        place = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[place])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=topics)
        answer = s.observer().call(request, 11).responses[0].partitions[0]
        end_offset = answer.last_stable_offset if isolation else answer.high_watermark
        part = s.names._records(bytes(answer.records or b""))
        if not part:
            break
        found += part
        aborted |= {one.first_offset for one in answer.aborted_transactions or ()}
        offset = part[-1]["last_offset"] + 1
    s.note("read", {"records": found, "aborted": sorted(aborted), "end": end_offset})


@each_version("Txn-init", range(6))
def initialize(s: Script, v: int) -> None:
    tid = s.name("tx")
    coordinated(s, tid)
    s.client().call(FindCoordinatorRequest(key_type=BY_KEY_TYPE, key=tid), 3)
    made = init(s, v, tid)
    init(s, v, tid)
    init(s, v, tid, timeout_ms=0)
    init(s, v, tid, timeout_ms=900_001)
    init(s, v, "")
    if v < 3:
        return
    pid = made.producer_id
    init(s, v, tid, (pid, 1))
    init(s, v, tid, (pid, 1))
    init(s, v, tid, (pid, 0))
    init(s, v, tid, (pid + 70_000, 2))
    init(s, v, tid, (pid, -1))


@each_version("Txn-add", range(4))
def add_partitions(s: Script, v: int) -> None:
    t = topic(s)
    tid, pair = fresh(s)
    add(s, v, tid, pair, (t, [0]))
    add(s, v, tid, pair, (t, [0]))
    add(s, v, tid, pair, (t, [0, 9]))
    add(s, v, tid, pair, (t, [1]), ("judge-none", [0]))
    add(s, v, tid, pair, (INTERNAL, [0]))
    add(s, v, tid, (pair[0], pair[1] + 1), (t, [1]))
    add(s, v, tid, NOBODY, (t, [1]))
    add(s, v, s.name("unknown"), pair, (t, [1]))
    add(s, v, "", pair, (t, [1]))
    described(s, tid)


@each_version("Txn-add-brokers", (4, 5))
def add_for_brokers(s: Script, v: int) -> None:
    """What brokers ask each other: several transactions, or whether partitions are in."""
    t = topic(s)
    tid, pair = fresh(s)
    other, others = fresh(s, "other")

    def one(name: str, who: Pair, which: list[int], *, verify: bool = False) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=who[0],
            producer_epoch=who[1],
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name=t, partitions=which)],
        )

    for transactions in (
        [one(tid, pair, [0], verify=True)],
        [one(tid, pair, [0]), one(other, others, [1])],
        [one(tid, pair, [0, 1], verify=True)],
        [one(tid, NOBODY, [0], verify=True), one(other, (others[0], 5), [1], verify=True)],
        [one(s.name("unknown"), pair, [0]), one(tid, (pair[0], 9), [0])],
        [one(tid, pair, [7])],
    ):
        s.client().call(AddPartitionsToTxnRequest(transactions=transactions), v)


@each_version("Txn-add-offsets", range(5))
def add_offsets(s: Script, v: int) -> None:
    tid, pair = fresh(s)
    for name, who in (
        (tid, pair),
        (tid, pair),
        (tid, (pair[0], 7)),
        (tid, NOBODY),
        (s.name("unknown"), pair),
        ("", pair),
    ):
        request = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id="judge-fixed-group"
        )
        s.client().call(request, v)
    described(s, tid)


@each_version("Txn-end", range(5))
def end_as_before(s: Script, v: int) -> None:
    """By the state: the same way again is right, the other way wrong."""
    t = topic(s)
    tid, pair = fresh(s)
    end(s, v, tid, pair, commit=True)
    end(s, v, tid, pair, commit=False)
    for round_number, commit in enumerate((True, False, True)):
        add(s, 3, tid, pair, (t, [0, 1]))
        write(s, 9, tid, pair, t, round_number, b"%d" % round_number)
        end(s, v, tid, (pair[0], pair[1] + 1), commit=commit)
        end(s, v, tid, NOBODY, commit=commit)
        end(s, v, tid, pair, commit=commit)
        settled(s, tid)
        end(s, v, tid, pair, commit=commit)
        end(s, v, tid, pair, commit=not commit)
    end(s, v, s.name("unknown"), pair, commit=True)
    end(s, v, "", pair, commit=True)
    read(s, t)
    list_offsets(s, 5, {(t, 0): -1, (t, 1): -1}, isolation=1)
    described(s, tid)


@scenario("Txn-end-v5")
def end_with_bump(s: Script) -> None:
    """By the epoch: the one before is the same request again."""
    t = topic(s)
    tid, pair = fresh(s)
    end(s, 5, tid, pair, commit=True)
    old, pair = pair, end(s, 5, tid, pair, commit=False)
    settled(s, tid)
    end(s, 5, tid, old, commit=False)
    end(s, 5, tid, old, commit=True)
    for commit in (True, False, True):
        write(s, 12, tid, pair, t, 0, b"x", b"y")
        write(s, 12, tid, pair, t, 2, b"z")
        end(s, 5, tid, (pair[0], pair[1] + 1), commit=commit)
        end(s, 5, tid, NOBODY, commit=commit)
        old, pair = pair, end(s, 5, tid, pair, commit=commit)
        settled(s, tid)
        end(s, 5, tid, old, commit=commit)
        end(s, 5, tid, old, commit=not commit)
    write(s, 12, tid, old, t, 0, b"zombie")
    write(s, 12, tid, pair, t, 0, b"next")
    end(s, 5, tid, old, commit=True)
    pair = end(s, 5, tid, pair, commit=True)
    settled(s, tid)
    end(s, 5, tid, pair, commit=True)
    end(s, 5, tid, pair, commit=False)
    settled(s, tid)
    end(s, 5, s.name("unknown"), pair, commit=True)
    read(s, t)
    described(s, tid)


@each_version("Txn-produce", range(3, 12))
def produce_verified(s: Script, v: int) -> None:
    """Up to version 11 the client adds, and the partition asks."""
    t = topic(s)
    tid, pair = fresh(s)
    write(s, v, tid, pair, t, 0, b"nobody knows")
    add(s, 3, tid, pair, (t, [0]))
    write(s, v, tid, pair, t, 0, b"a", b"b")
    write(s, v, tid, pair, t, 0, b"a", b"b")
    write(s, v, tid, pair, t, 5, b"gap")
    write(s, v, tid, pair, t, 0, b"other", index=1)
    write(s, v, tid, NOBODY, t, 0, b"x")
    write(s, v, tid, (pair[0], pair[1] + 1), t, 0, b"x")
    write(s, v, s.name("unknown"), NOBODY, t, 0, b"x")
    plain = records(b"plain", producer_id=pair[0], producer_epoch=pair[1], base_sequence=2)
    produce(s, v, {(t, 0): plain})
    read(s, t)
    read(s, t, 0)
    list_offsets(s, 5, {(t, 0): -1, (t, 1): -1}, isolation=1)
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    produce(s, v, {(t, 0): plain})
    read(s, t)


@scenario("Txn-produce-v12")
def produce_adding(s: Script) -> None:
    t = topic(s)
    tid, pair = fresh(s)
    write(s, 12, tid, pair, t, 5, b"gap")
    described(s, tid)
    write(s, 12, tid, pair, t, 0, b"a")
    write(s, 12, tid, pair, t, 0, b"none", index=9)
    write(s, 12, tid, NOBODY, t, 0, b"x", index=1)
    write(s, 12, tid, (pair[0], pair[1] + 1), t, 0, b"x", index=1)
    write(s, 12, s.name("unknown"), (pair[0] + 70_000, 0), t, 0, b"x", index=1)
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    write(s, 12, tid, pair, t, 1, b"goes on")
    described(s, tid)
    pair = end(s, 5, tid, pair, commit=False)
    settled(s, tid)
    read(s, t)


@each_version("Txn-fenced", (2, 5))
def fenced(s: Script, v: int) -> None:
    """A second producer takes an open transaction over."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"zombie")
    init(s, v, tid)
    settled(s, tid)
    init(s, v, tid)
    write(s, 9, tid, pair, t, 1, b"zombie")
    add(s, 3, tid, pair, (t, [0]))
    add(s, 1, tid, pair, (t, [0]))
    end(s, 3, tid, pair, commit=True)
    end(s, 1, tid, pair, commit=True)
    end(s, 5, tid, pair, commit=False)
    read(s, t)


@scenario("Txn-own-pair")
def own_pair(s: Script) -> None:
    """TX50: the producer itself takes its open transaction over, and keeps the epoch of its abort."""
    t = topic(s)
    tid, pair = fresh(s)
    write(s, 12, tid, pair, t, 0, b"x")
    init(s, 5, tid, pair)
    settled(s, tid)
    init(s, 5, tid, pair)
    described(s, tid)


@each_version("Txn-offsets", range(7), since="4.3.1")
def offsets(s: Script, v: int) -> None:
    """TX70 to TX72, TX76."""
    t = topic(s)
    tid, pair = fresh(s)
    group = s.name()
    eventually(lambda: s.observer().coordinator_error(group) == 0)

    def commit(offset: int, who: Pair = pair, index: int = 0, tid: str = tid, **more: Any) -> None:
        place = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
        topics = [TxnOffsetCommitRequestTopic(name=t, topic_id=s.topic_id(t), partitions=[place])]
        request = TxnOffsetCommitRequest(
            transactional_id=tid, group_id=group, producer_id=who[0], producer_epoch=who[1], topics=topics, **more
        )
        s.client().call(request, v)

    def look() -> None:
        for stable in (False, True):
            topics = [OffsetFetchRequestTopics(name=t, partition_indexes=[0])]
            groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
            s.client().call(OffsetFetchRequest(groups=groups, require_stable=stable), 8)

    commit(1)
    for offset, committed in ((5, True), (7, False)):
        if v < 5:
            request = AddOffsetsToTxnRequest(
                transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], group_id=group
            )
            assert s.observer().call(request, 3).error_code == 0
        commit(offset)
        look()
        commit(offset, who=NOBODY)
        commit(offset, who=(pair[0], pair[1] + 3))
        commit(offset, index=9)
        if v >= 3:
            commit(offset, generation_id_or_member_epoch=3, member_id="nobody")
        end(s, 3, tid, pair, commit=committed)
        settled(s, tid)
        look()


@each_version("Txn-markers", (1, 2))
def markers(s: Script, v: int) -> None:
    """TX67 to TX69: an operator ends what is open; unknown partitions and older epochs are refused."""
    t = topic(s)
    tid, pair = fresh(s)
    add(s, 3, tid, pair, (t, [0]))
    write(s, 9, tid, pair, t, 0, b"x")
    producers(s, t)

    def mark(epoch: int, *which: int, commit: bool = False, coordinator_epoch: int = 0, pid: int = pair[0]) -> None:
        marker = WritableTxnMarker(
            producer_id=pid,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[WritableTxnMarkerTopic(name=t, partition_indexes=list(which))],
            coordinator_epoch=coordinator_epoch,
        )
        s.client().call(WriteTxnMarkersRequest(markers=[marker]), v)

    mark(pair[1], 0, 9)
    mark(pair[1], 0, coordinator_epoch=40)
    mark(pair[1], 0, coordinator_epoch=3)
    mark(pair[1] + 4, 0, coordinator_epoch=40)
    mark(pair[1], 0, coordinator_epoch=40)
    mark(3, 1, pid=987_654_321, commit=True)
    s.client().call(WriteTxnMarkersRequest(markers=[]), v)
    producers(s, t)
    read(s, t)


def producers(s: Script, t: str, *indexes: int) -> None:
    wanted = DescribeProducersTopicRequest(name=t, partition_indexes=list(indexes) or [0])
    s.client().call(DescribeProducersRequest(topics=[wanted]), 0)


def described(s: Script, *tids: str) -> None:
    s.client().call(DescribeTransactionsRequest(transactional_ids=list(tids)), 0)


@scenario("Txn-describe")
def describe(s: Script) -> None:
    t = topic(s)
    tid, pair = fresh(s)
    described(s, tid)
    add(s, 3, tid, pair, (t, [0]))
    described(s, tid)
    described(s, tid, s.name("unknown"), "")
    producers(s, t, 0, 1, 9)
    producers(s, "judge-none", 0)
    producers(s, "no/such", 0)
    end(s, 3, tid, pair, commit=True)
    settled(s, tid)
    described(s, tid)
    producers(s, t, 0, 1)


@each_version("Txn-list", range(3))
def list_them(s: Script, v: int) -> None:
    t = topic(s)
    tid, pair = fresh(s)
    _, others = fresh(s, "other")
    add(s, 3, tid, pair, (t, [0]))
    for filters in (
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["ongoing", "Dead", "Sleeping"]},
        {"producer_id_filters": [others[0]]},
        {"producer_id_filters": [pair[0]], "state_filters": ["Empty"]},
        {"duration_filter": 3_600_000} if v >= 1 else {},
        {"transactional_id_pattern": ".*other"} if v >= 2 else {},
        {"transactional_id_pattern": "("} if v >= 2 else {},
        {"transactional_id_pattern": ""} if v >= 2 else {},
    ):
        s.client().call(ListTransactionsRequest(**filters), v)


@scenario("Txn-kinds")
def kinds(s: Script) -> None:
    """TX16: groups and transactional ids have coordinators of their own kind."""
    coordinated(s, s.name("tx"))
    for version in range(1, 7):
        request = FindCoordinatorRequest(
            key_type=BY_KEY_TYPE, key=s.name("tx"), coordinator_keys=[s.name("tx"), s.name("ty")]
        )
        s.client().call(request, version)
