"""A shard from its log: the bytes that a Kafka broker wrote, records that are none, and what is skipped."""

from __future__ import annotations

import pytest

from coordinator.load_summary import LoadFailed
from coordinator.transactions.loading import load
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.transaction import TransactionState
from coordinator.transactions.view import TransactionSettings
from protocol.records.batch import Record, encode_batch
from tests.coordinator.driver import Topics
from tests.coordinator.transactions.driver import Driver
from tests.protocol.records.test_transaction_records import GOLDEN

KEY = b"\x00\x00\x00\x02tx"
ONGOING = bytes.fromhex(GOLDEN["ongoing, TV2"][1])
PREPARED = bytes.fromhex(GOLDEN["prepare commit, epoch exhausted"][1])
OLD = bytes.fromhex(GOLDEN["complete commit v0"][1])


def batch(key: bytes | None, value: bytes | None, offset: int = 0) -> bytes:
    return bytes(encode_batch([Record(offset, 1, key, value)], base_offset=offset))


def loaded(*chunks: bytes) -> TransactionShard:
    shard = TransactionShard(TransactionSettings(), Topics())
    load(shard, lambda: iter(chunks))
    return shard


def test_the_last_record_of_an_id_counts():
    """4.9."""
    other = b"\x00\x00\x00\x01o"

    shard = loaded(batch(KEY, ONGOING) + batch(other, OLD, 1), batch(KEY, PREPARED, 2))

    assert list(shard.states) == ["tx", "o"]
    transaction = shard.states["tx"]
    assert transaction.state is TransactionState.PREPARE_COMMIT
    assert (transaction.producer_id, transaction.producer_epoch, transaction.next_producer_id) == (6, 32767, 10)
    assert transaction.partitions == {("t2", 0)}
    assert (transaction.last_producer_epoch, transaction.client_version) == (-1, 2)
    assert (shard.states["o"].client_version, shard.states["o"].previous_producer_id) == (0, -1)


def test_a_tombstone_removes_the_id():
    """TX89."""
    assert loaded(batch(KEY, ONGOING) + batch(KEY, None, 1)).states == {}


def test_what_newer_brokers_wrote_is_skipped_and_counted():
    """3.2: unknown key and value versions, with a warning."""
    shard = TransactionShard(TransactionSettings(), Topics())

    summary = load(shard, lambda: [batch(b"\x00\x09x", b"\x00\x00"), batch(KEY, b"\x00\x07" + ONGOING[2:], 1)])

    assert (shard.states, summary.skipped_types, summary.record_count) == ({}, {9: 1, 0: 1}, 2)
    assert summary.end_offset == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, ONGOING),
        (b"\x00", ONGOING),
        (KEY[:-1], ONGOING),
        (KEY, ONGOING[:-9]),
        (KEY, b""),
        (KEY, ONGOING[:16] + b"\x09" + ONGOING[17:]),
        (KEY, ONGOING[:16] + b"\x06" + ONGOING[17:]),
    ],
)
def test_a_record_that_cannot_be_understood_is_not_served_over(key: bytes | None, value: bytes):
    """4.9: upstream serves what it got so far; half of the transactions is worse than none."""
    with pytest.raises(LoadFailed):
        loaded(batch(key, value))


def test_a_batch_with_a_flipped_bit_is_not_served_over():
    damaged = bytearray(batch(KEY, ONGOING))
    damaged[-3] ^= 1

    with pytest.raises(LoadFailed, match="CRC"):
        loaded(bytes(damaged))


def test_what_a_coordinator_wrote_is_what_the_next_one_loads():
    """The fold of its log, through real batches."""
    broker = Driver()
    broker.open("t-0", "u-0")
    broker.end(commit=True)
    broker.add("t-1")
    broker.init(tid="other")
    chunks = [
        batch(b"\x00\x00" + len(key[0]).to_bytes(2, "big") + key[0].encode(), data, offset)
        for offset, (key, _, data) in enumerate(broker.log)
    ]

    assert loaded(*chunks).states == broker.folded()
