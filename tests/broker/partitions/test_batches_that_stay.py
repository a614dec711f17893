"""A large batch is not copied where it may stay in the request: what is in the log and what is read is the same."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.partitions.validation import prepare
from protocol.errors import KafkaError
from protocol.records.batch import Record, encode_batch
from protocol.records.batch_header import write_crc
from storage.log.log_reader import MAX_BUFFERS
from storage.reading.batches import Parted
from tests.storage.logs import all_bytes
from tests.support.data_plane import NOW_MS, DataPlane, batch, in_a_frame

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 70_000


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path / "data")


def large(value: bytes = b"x", count: int = 1, **facts: Any) -> bytes:
    """Not to be made smaller by any codec."""
    noise = Random(1).randbytes(LARGE)
    size = LARGE // count
    records = [Record(at, NOW_MS + at, b"k", value + noise[at * size : (at + 1) * size]) for at in range(count)]
    return bytes(encode_batch(records, **facts))


def prepared(plane: DataPlane, records: bytes | memoryview | None, topic: str = "t") -> Any:
    return prepare(records, plane.partition(topic).settings, NOW_MS, 9, topic)


@pytest.mark.parametrize("compression", range(5))
def test_what_may_stay_is_appended_as_what_was_copied(plane: DataPlane, compression: int) -> None:
    """Byte by byte in the file, and to readers of memory and of the file."""
    plane.create("t")
    sent = large(compression=compression, producer_id=7, producer_epoch=0, base_sequence=0)
    stays, _, _ = prepared(plane, in_a_frame(sent))
    copied, _, _ = prepared(plane, sent)
    assert isinstance(stays, Parted)
    assert type(copied) is bytearray
    assert stays.whole() == copied == sent
    assert len(stays) == len(sent)
    assert plane.produce("t", large(compression=compression)).base_offset == 0
    assert plane.produce("t", sent).base_offset == 1
    assert plane.produce("t", sent).base_offset == 1  # a repetition
    kept = plane.partition("t").log
    from_memory = kept.read(0, 1 << 30)
    assert len(from_memory.buffers) == 4
    kept.state.tail.clear()
    from_file = kept.read(0, 1 << 30)
    assert b"".join(from_memory.buffers) == b"".join(from_file.buffers) == all_bytes(kept)
    assert from_memory.size_bytes == from_file.size_bytes == len(large(compression=compression)) + len(sent)
    assert [value and value[:1] for value in plane.fetch("t", 0, max_bytes=1 << 30)[0].values] == [b"x", b"x"]


def test_times_are_looked_up_in_it(plane: DataPlane) -> None:
    plane.create("t")
    plane.produce("t", large(count=3))
    assert plane.list_offset("t", NOW_MS + 1).offset == 1
    kept = plane.partition("t").log
    assert kept.timestamp_at(0) == NOW_MS
    assert kept.timestamp_at(2) == NOW_MS + 2


@pytest.mark.parametrize("small", [0, 1])
def test_so_many_pieces_are_sent_from_memory_and_no_more(plane: DataPlane, small: int) -> None:
    plane.create("t")
    for _ in range(small):
        plane.produce("t", batch(b"a"))
    for _ in range(MAX_BUFFERS // 2 + 1 - small):
        plane.produce("t", large())
    kept = plane.partition("t").log
    assert [len(kept.read(offset, 1 << 30).buffers) for offset in (0, 1)] == [1, MAX_BUFFERS]  # the file is one


def test_while_a_log_is_handed_over_the_loop_writes_it_in_one_piece(plane: DataPlane) -> None:
    plane.create("t")
    partition = plane.partition("t")
    partition.held = partition.log
    sent = large()
    assert plane.produce("t", sent).base_offset == 0
    assert all_bytes(partition.log)[61:] == sent[61:]


COPIED: dict[str, tuple[dict[str, str], Any]] = {
    "small": ({}, lambda: in_a_frame(bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(60_000))])))),
    "of short records": ({}, lambda: in_a_frame(large(count=20))),
    "stamped by the broker": ({"message_timestamp_type": "LogAppendTime"}, lambda: in_a_frame(large())),
    "compressed anew": ({"compression_type": "zstd"}, lambda: in_a_frame(large())),
    "one of many": ({}, lambda: memoryview(bytes(5_000) + large())[5_000:]),
    "in what may change": ({}, lambda: memoryview(bytearray(large()))),
    "whose header is mended": ({}, lambda: in_a_frame(_wrong(large(), at=35, to=(NOW_MS + 5).to_bytes(8, "big")))),
    "that calls its time the broker's": ({}, lambda: in_a_frame(_wrong(large(), at=22, to=bytes([8])))),
}


def _wrong(sent: bytes, *, at: int, to: bytes) -> bytes:
    """The header says what the records do not."""
    made = bytearray(sent)
    made[at : at + len(to)] = to
    write_crc(made)
    return bytes(made)


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied_all_the_same(plane: DataPlane, name: str) -> None:
    configs, sent = COPIED[name]
    plane.create("t", **configs)
    records = sent()
    made, _, _ = prepared(plane, records)
    as_ever, _, _ = prepared(plane, bytes(records))
    assert type(made) is bytearray
    assert made == as_ever
    assert bytes(records[61:71]) == bytes(sent()[61:71])


@pytest.mark.parametrize(
    ("configs", "sent"),
    [
        ({"cleanup_policy": "compact"}, encode_batch([Record(0, NOW_MS, None, bytes(LARGE))])),
        ({"message_timestamp_before_max_ms": "10"}, encode_batch([Record(0, NOW_MS - 1_000, b"k", bytes(LARGE))])),
        ({}, large()[:-1] + b"?"),
        ({}, encode_batch([Record(0, NOW_MS, b"k", bytes(LARGE)), Record(2, NOW_MS, b"k", b"")])),
    ],
    ids=["no key", "too old", "CRC", "offsets"],
)
def test_it_is_refused_in_the_same_words(plane: DataPlane, configs: dict[str, str], sent: bytes) -> None:
    plane.create("t", **configs)
    said = []
    for records in (bytes(sent), in_a_frame(bytes(sent))):
        with pytest.raises(KafkaError) as refused:
            prepared(plane, records)
        said.append((refused.value.code, str(refused.value), getattr(refused.value, "record_errors", None)))
    assert said[0] == said[1]
