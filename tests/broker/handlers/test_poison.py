"""Batches that no consumer could read are refused, as Apache Kafka does; large ones are looked into beside the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from broker.handlers.context import CloseConnection
from broker.partitions import checks
from protocol.errors import ErrorCode
from protocol.records.batch import Record, encode_batch, read_header
from tests.support.data_plane import NOW_MS, DataPlane, answered, batch
from tests.support.poison import CODECS, INSIDES, STREAMS, batch_of, poisoned, record

if TYPE_CHECKING:
    from pathlib import Path

POISONED = poisoned(NOW_MS)
# What Apache Kafka 4.4.0 answered to these batches, each sent to it: 87 for records that are not what the header says,
# -1 for a stream that its codec cannot read.
SOUND = {"good", "a header with a null value", "a later timestamp than the header's"}
HARMLESS = {("snappy", "a byte of the stream changed"), ("lz4", "a byte of the stream changed")}  # no check sum there
# Kafka takes these all the same. Java's consumer stops at some, our cleaner or other clients at the others.
STRICTER = {
    "a key of -2 bytes",
    "a value of -2 bytes",
    "offset deltas 0 and 0",  # compressed: -1
    "offset deltas 1 and 0",
    "offset deltas 0 and 7",
    "a record longer than it is",  # compressed only
    "a record shorter than it is",
    "a first record longer than it is",
    "noise after the stream",  # gzip and lz4
    "a zero after the stream",
}


def expected(codec: str, what: str) -> set[int]:
    if what in SOUND or (codec, what) in HARMLESS:
        return {0}
    if (codec, what) == ("zstd", "a byte of the stream changed"):
        return {-1, 87}  # Kafka meets a check sum of the block, we what came out of it
    if (codec, what) == ("zstd", "no stream"):
        return {-1}  # 87 in Kafka, for which nothing is a stream without records
    return {-1} if what in STREAMS else {87}


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    made = DataPlane(tmp_path / "data")
    made.create("t")
    return made


@pytest.mark.parametrize("codec", CODECS.values())
def test_what_kafka_refuses_is_refused_with_its_code(plane: DataPlane, codec: str) -> None:
    """Garbage inside a codec, or five records announced and two inside: consumers would stop there for ever."""
    answered = {}
    for (name, what), records in POISONED.items():
        if name == codec:
            answered[what] = plane.produce("t", records).error_code
    assert {what: code for what, code in answered.items() if code not in expected(codec, what)} == {}
    assert set(INSIDES) | STRICTER >= set(answered) - set(STREAMS)
    values = plane.fetch("t", 0)[0].values
    assert len(values) == 2 * sum(code == 0 for code in answered.values())


@pytest.mark.parametrize("codec", CODECS)
def test_a_max_timestamp_that_lies_is_mended_in_a_compressed_batch_too(plane: DataPlane, codec: int) -> None:
    name = CODECS[codec]
    assert plane.produce("t", POISONED[name, "a later timestamp than the header's"]).error_code == 0
    assert read_header(plane.fetch("t", 0)[0].data).max_timestamp == NOW_MS + 50


# -- what takes long -----------------------------------------------------------------------------------------------


def long_batch(count: int = 2_000, codec: int = 3, **facts: Any) -> bytes:
    records = [Record(at, NOW_MS, b"k", b"%d" % at) for at in range(count)]
    return bytes(encode_batch(records, compression=codec, **facts))


@pytest.fixture
def slow(tmp_path: Path) -> DataPlane:
    """Worker threads run when they are told to."""
    made = DataPlane(tmp_path / "data", eager_workers=False)
    for name in ("t", "u", "w"):
        made.create(name)
    return made


def test_a_large_batch_is_looked_into_by_a_worker(slow: DataPlane) -> None:
    waiting = slow.produce_request("t", long_batch())
    slow.runtime.turn()
    assert answered(waiting) is None
    assert slow.partition("t").log_end_offset == 0
    slow.runtime.run_work()
    assert answered(waiting) == (0, 0)
    assert slow.partition("t").log_end_offset == 2_000


def test_a_small_batch_behind_a_large_one_is_appended_behind_it(slow: DataPlane) -> None:
    """The order of the answers' offsets is that of the requests, and an idempotent producer's sequences fit."""
    facts = {"producer_id": 7, "producer_epoch": 0}
    first = slow.produce_request("t", long_batch(base_sequence=0, **facts))
    second = slow.produce_request("t", batch(b"a", base_sequence=2_000, **facts))
    third = slow.produce_request("t", batch(b"c", base_sequence=2_001, **facts))
    assert slow.produce("u", batch(b"b")).base_offset == 0  # other partitions do not wait
    slow.runtime.run_works()
    assert [answered(first), answered(second), answered(third)] == [(0, 0), (0, 2_000), (0, 2_001)]
    assert slow.produce("t", batch(b"d", base_sequence=2_002, **facts)).base_offset == 2_002


def test_when_a_large_batch_is_refused_its_producers_next_one_is_too(slow: DataPlane) -> None:
    facts = {"producer_id": 7, "producer_epoch": 0}
    assert slow.produce("t", batch(b"a", base_sequence=0, **facts)).base_offset == 0
    poison = bytearray(long_batch(codec=0, base_sequence=1, **facts))
    poison[-1] = 9  # a header count
    from protocol.records.batch_header import write_crc

    write_crc(poison)
    first = slow.produce_request("t", bytes(poison))
    second = slow.produce_request("t", batch(b"b", base_sequence=2_001, **facts))
    slow.runtime.run_works()
    assert answered(first) == (ErrorCode.INVALID_RECORD, -1)
    assert answered(second) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert second.response.responses[0].partition_responses[0].log_start_offset == 0
    assert slow.produce("t", batch(b"b", base_sequence=1, **facts)).base_offset == 1


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_small_batch_that_holds_much_is_looked_into_by_a_worker(slow: DataPlane, codec: int) -> None:
    records = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(1_000_000))], compression=codec))
    waiting = slow.produce_request("t", records)
    assert answered(waiting) is None
    slow.runtime.run_work()
    assert answered(waiting) == (0, 0)


def test_what_one_batch_may_become_is_bounded(slow: DataPlane) -> None:
    slow.partitions.checks.limit_bytes = 10_000_000
    records = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(11_000_000))], compression=4))
    waiting = slow.produce_request("t", records)
    slow.runtime.run_work()
    assert answered(waiting) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize(("max_message_bytes", "fits"), [(100_000, False), (12_000_000, True)])
def test_topics_of_large_batches_may_hold_as_much_decompressed(
    slow: DataPlane, monkeypatch: pytest.MonkeyPatch, codec: int, max_message_bytes: int, fits: bool
) -> None:
    """SE61"""
    monkeypatch.setattr(checks, "USUAL_BYTES", 10_000_000)
    slow.partition("t").settings = replace(slow.partition("t").settings, max_message_bytes=max_message_bytes)
    value = bytes(11_000_000)
    batch = encode_batch([Record(0, NOW_MS, b"k", value)], compression=codec)
    if len(batch) > max_message_bytes:
        return  # snappy's is refused for its size
    waiting = slow.produce_request("t", bytes(batch))
    slow.runtime.run_works()
    assert answered(waiting) == ((0, 0) if fits else (ErrorCode.MESSAGE_TOO_LARGE, -1))


def test_few_are_looked_into_at_once_and_partitions_take_turns(slow: DataPlane) -> None:
    """What each may hold decompressed counts, and the threads are those that fsync."""
    first = slow.produce_request("t", long_batch())
    slow.produce_request("t", long_batch())
    slow.produce_request("t", long_batch())
    second = slow.produce_request("u", long_batch())
    third = slow.produce_request("w", long_batch())
    assert len(slow.runtime.works) == checks.AT_ONCE
    slow.runtime.run_work()
    assert answered(first) == (0, 0)
    assert len(slow.runtime.works) == checks.AT_ONCE
    slow.runtime.run_work()
    slow.runtime.run_work()
    assert [answered(second), answered(third)] == [(0, 0), (0, 0)]
    assert slow.partition("t").log_end_offset == 2_000


def test_acks_0_closes_the_connection_when_the_worker_has_refused(slow: DataPlane) -> None:
    sound = slow.produce_request("t", long_batch(), acks=0)
    poison = slow.produce_request("t", batch_of(record(0) * 2_000, count=2_000), acks=0)
    slow.runtime.run_works()
    assert sound.response is None
    assert sound.done
    assert isinstance(poison.response, CloseConnection)
    assert "INVALID_RECORD" in str(poison.response)
    assert slow.partition("t").log_end_offset == 2_000


def test_a_topic_deleted_meanwhile_is_answered(slow: DataPlane) -> None:
    waiting = slow.produce_request("t", long_batch())
    slow.delete("t")
    slow.runtime.run_work()
    assert answered(waiting) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_who_does_not_wait_longer_is_told_and_the_batch_is_appended(slow: DataPlane) -> None:
    waiting = slow.produce_request("t", long_batch(), timeout_ms=100)
    slow.runtime.advance(200)
    assert answered(waiting) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    slow.runtime.run_work()
    assert slow.partition("t").log_end_offset == 2_000


def test_the_producers_of_a_trusted_topic_are_believed_unless_its_meaning_depends_on_the_inside(tmp_path: Path) -> None:
    plane = DataPlane(tmp_path / "data", trusted_topics=["t", "keyed"])
    plane.create("t")
    plane.create("keyed", cleanup_policy="compact")
    plane.create("other")
    poison = POISONED["zstd", "noise inside"]
    assert plane.produce("t", poison).error_code == 0
    assert plane.produce("keyed", poison).error_code == ErrorCode.INVALID_RECORD
    assert plane.produce("other", poison).error_code == ErrorCode.INVALID_RECORD
    assert plane.produce("t", POISONED["none", "noise inside"]).error_code == ErrorCode.INVALID_RECORD
