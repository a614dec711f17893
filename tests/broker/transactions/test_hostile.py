"""What clients send at the wrong time, or in another's name, hangs no transaction and no partition."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.transactions_fixture import Pair, TransactionalWhole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NONE = ErrorCode.NONE
LONGEST_MS = 60_000
IDS = ("victim", "a", "b")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TransactionalWhole]:
    whole = TransactionalWhole(tmp_path)
    whole.create("t", 2)
    yield whole
    whole.stop()


def marker(pair: Pair, coordinator_epoch: int, *, commit: bool = False, version: int = 0) -> WriteTxnMarkersRequest:
    one = WritableTxnMarker(
        producer_id=pair[0],
        producer_epoch=pair[1],
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )
    return WriteTxnMarkersRequest(markers=[one])


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_of_a_coordinator_that_never_was_holds_nothing_up(broker: TransactionalWhole, commit: bool):
    """Its epoch is the highest there is: Kafka refuses its own coordinator's marker then, and hangs."""
    pair = broker.pair("victim")
    broker.add("victim", pair, "t", 0)
    broker.write("victim", pair, "t", b"a")
    broker.ask(marker(pair, 2**31 - 1, commit=True), 2)
    assert broker.write("victim", pair, "t", b"b", sequence=1) is NONE

    assert broker.end("victim", pair, commit=commit).error_code == NONE

    assert broker.state("victim") == ("CompleteCommit" if commit else "CompleteAbort")
    assert broker.committed_values("t") == ([b"a", b"b"] if commit else [b"a"])


def anything(random: Random, known: list[Pair]) -> tuple[Any, int]:
    """A request of some version, whole, and right or wrong by chance."""
    tid = random.choice(IDS)
    producer_id, epoch = random.choice(known)
    pair = (random.choice((producer_id, producer_id, 987_654)), max(0, epoch + random.choice((-1, 0, 0, 0, 1, 30_000))))
    head: dict[str, Any] = {"transactional_id": tid, "producer_id": pair[0], "producer_epoch": pair[1]}
    topics = [AddPartitionsToTxnTopic(name=random.choice(("t", "t", "none")), partitions=[random.choice((0, 1, 9))])]
    kind = random.randrange(6)
    if kind == 0:
        told = {} if random.random() < 0.5 else {"producer_id": pair[0], "producer_epoch": pair[1]}
        timeout_ms = random.choice((1, 1_000, LONGEST_MS))
        return InitProducerIdRequest(transactional_id=tid, transaction_timeout_ms=timeout_ms, **told), random.randrange(
            6
        )
    if kind == 1:
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=tid,
            v3_and_below_producer_id=pair[0],
            v3_and_below_producer_epoch=pair[1],
            v3_and_below_topics=topics,
        )
        return add, random.randrange(4)
    if kind == 2:
        verify = random.random() < 0.3
        one = AddPartitionsToTxnTransaction(**head, verify_only=verify, topics=topics)
        return AddPartitionsToTxnRequest(transactions=[one]), random.choice((4, 5))
    if kind == 3:
        return AddOffsetsToTxnRequest(**head, group_id="g"), random.randrange(5)
    if kind == 4:
        return EndTxnRequest(**head, committed=random.random() < 0.5), random.randrange(6)
    later = random.choice((0, 1, 2**31 - 1))
    return marker(pair, later, commit=random.random() < 0.5, version=random.choice((0, 2))), random.choice((1, 2))


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_clients_send_hangs_a_transaction_or_another_s_partitions(broker: TransactionalWhole, seed: int):
    """In any order, in anybody's name, without waiting: after the longest timeout all is decided and can be read."""
    random = Random(seed)
    known = [broker.pair(tid) for tid in IDS]
    for step in range(80):
        if random.random() < 0.3:
            tid, pair = random.choice(IDS), random.choice(known)
            request = broker.produce_request(tid, pair, "t", b"%d" % step, index=random.randrange(2))
            broker.send(request, random.choice((9, 11, 12)))
        else:
            broker.send(*anything(random, known))
        if random.random() < 0.5:
            broker.settle(random.randrange(4))
        if random.random() < 0.1:
            broker.runtime.advance(random.choice((10, 500, 5_000)))
        if random.random() < 0.1:
            broker.settle()
            known += [(one.producer_id, one.producer_epoch) for one in map(broker.describe, IDS) if not one.error_code]

    for _ in range(3):
        broker.runtime.advance(LONGEST_MS + 1)
        broker.settle(40)

    assert {broker.state(tid) for tid in IDS} <= {"Empty", "CompleteCommit", "CompleteAbort"}
    for index in (0, 1):
        partition = broker.broker.partitions.get("t", index)
        assert partition.last_stable_offset == partition.high_watermark
    pair = broker.pair("another")
    assert broker.add("another", pair, "t", 0, 1) == [NONE, NONE]
    assert broker.write("another", pair, "t", b"after") is NONE
    assert broker.end("another", pair, commit=True).error_code == NONE
    assert broker.committed_values("t")[-1] == b"after"
