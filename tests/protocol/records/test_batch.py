"""Record batches against golden bytes, against aiokafka's and kafka-python's own, and against mutilation."""

import random
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from protocol.errors import ErrorCode
from protocol.records import batch as b
from protocol.records.batch import Record
from protocol.records.errors import CorruptBatch
from protocol.records.varint import encode_uvarint

NOW = 1_700_000_000_000
CODECS = [0, 1, 2, 3, 4]

# golden bytes
KEY = bytes.fromhex("000100016700017400000003")
VALUE_V3 = bytes.fromhex("0003000000000000002a0000000500016d0000018bcfe56800")
GOLDEN_BATCH = bytes.fromhex(
    "0000000000000007000000700000000002b20e83580000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffff0000"
    "00000000000256000000180001000167000174000000033200030000000000"
    "00002a0000000500016d0000018bcfe568000024000002180001000167000174000000030100"
)

RECORDS = [
    Record(10, NOW, b"key", b"value", ((b"h1", b"one"), (b"h2", None), (b"", b""))),
    Record(11, NOW + 7, None, b"x" * 3_000),
    Record(12, NOW - 5_000_000_000, b"", None),
    Record(13, NOW + 2, b"k" * 200, b""),
]


def test_the_pairs_of_a_commit_give_the_golden_batch():
    """Golden bytes: a commit and its tombstone at offset 7."""
    made = b.encode_pairs([(KEY, VALUE_V3), (KEY, None)], timestamp=NOW, base_offset=7, leader_epoch=0, base_sequence=0)

    assert bytes(made) == GOLDEN_BATCH
    assert list(b.iterate_records(GOLDEN_BATCH)) == [Record(7, NOW, KEY, VALUE_V3), Record(8, NOW, KEY, None)]
    assert list(b.iterate_keys_values(GOLDEN_BATCH)) == [(KEY, VALUE_V3), (KEY, None)]


def test_the_general_encoder_gives_the_golden_batch_too():
    records = [Record(7, NOW, KEY, VALUE_V3), Record(8, NOW, KEY, None)]

    assert bytes(b.encode_batch(records, base_offset=7, leader_epoch=0, base_sequence=0)) == GOLDEN_BATCH


def test_a_header_says_what_its_61_bytes_say():
    made = b.encode_batch(
        RECORDS,
        base_offset=10,
        leader_epoch=4,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        transactional=True,
    )

    header = b.verify(made)

    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 13, 14)
    assert (header.size_bytes, header.leader_epoch, header.record_count) == (len(made), 4, 4)
    assert (header.producer_id, header.producer_epoch) == (4000, 2)
    assert header.last_sequence == 1, "2^31-2, 2^31-1, 0, 1"
    assert header.is_transactional and not header.is_control and not header.is_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 7)
    assert header.delete_horizon_ms is None


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_encoded_is_read_back(codec: int):
    made = b.encode_batch(RECORDS, base_offset=10, compression=codec)

    assert b.verify(made).compression == codec
    for buffer in (bytes(made), made, memoryview(made)):
        assert list(b.iterate_records(buffer)) == RECORDS
    offsets, keys, values = b.read_keys_values(made)
    assert list(offsets) == [10, 11, 12, 13]
    assert (keys, values) == ([r.key for r in RECORDS], [r.value for r in RECORDS])


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_we_encode(codec: int):
    made = b.encode_batch(RECORDS, compression=codec, producer_id=7, producer_epoch=1, base_sequence=0, base_offset=10)

    theirs = AiokafkaBatch(bytes(made))

    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [r[:4] for r in RECORDS]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_aiokafka_encodes(codec: int):
    builder = AiokafkaBuilder(2, codec, 0, 7, 1, 5, 1_000_000)
    for i, record in enumerate(RECORDS):
        headers = [(name.decode(), value) for name, value in record.headers]
        builder.append(i, record.timestamp, record.key, record.value, headers)
    made = bytearray(builder.build())
    b.stamp(made, base_offset=10, leader_epoch=3)

    header = b.verify(made)

    assert (header.producer_id, header.base_sequence, header.leader_epoch) == (7, 5, 3)
    assert list(b.iterate_records(made)) == RECORDS
    assert b.validate_records(made) == (NOW + 7, 11, NOW - 5_000_000_000, 1)


@pytest.mark.parametrize("codec", [0, 1])
def test_kafka_python_and_we_read_each_other(codec: int):
    """Its other codecs need libraries that are not installed here; aiokafka covers those."""
    builder = KafkaPythonBuilder(2, codec, 0, 7, 1, 5, 1_000_000)
    for i, record in enumerate(RECORDS):
        builder.append(
            i, record.timestamp, record.key, record.value, [(name.decode(), v) for name, v in record.headers]
        )
    theirs = bytearray(builder.build())
    b.stamp(theirs, base_offset=10, leader_epoch=0)
    ours = b.encode_batch(RECORDS, base_offset=10, compression=codec)

    b.verify(theirs)
    assert list(b.iterate_records(theirs)) == RECORDS
    read = KafkaPythonBatch(bytes(ours))
    assert read.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in read] == [r[:4] for r in RECORDS]


def test_an_uncompressed_batch_equals_aiokafkas_byte_for_byte():
    builder = AiokafkaBuilder(2, 0, 0, -1, -1, -1, 1_000_000)
    for i in range(300):
        builder.append(i, NOW + i, b"%d" % i, b"v" * i, [])
    records = [Record(i, NOW + i, b"%d" % i, b"v" * i) for i in range(300)]

    assert b.encode_batch(records, leader_epoch=0)[16:] == builder.build()[16:]


def test_pairs_and_records_encode_alike_at_every_length():
    pairs = [(b"k" * n, b"v" * n if n % 3 else None) for n in (0, 1, 63, 64, 1023, 1024, 8191, 8192, 70_000)]
    pairs += [(None, b"x")] * 1_100

    made = b.encode_pairs(pairs, timestamp=NOW)

    assert made == b.encode_batch([Record(i, NOW, k, v) for i, (k, v) in enumerate(pairs)])
    assert len(made) <= b.HEADER_BYTES + sum(b.encoded_pair_bytes(k, v) for k, v in pairs)


def test_stamping_leaves_the_crc_valid():
    made = bytearray(GOLDEN_BATCH)

    b.stamp(made, base_offset=1_000_000_007, leader_epoch=12)

    header = b.verify(made)
    assert (header.base_offset, header.leader_epoch) == (1_000_000_007, 12)
    assert made[16:] == GOLDEN_BATCH[16:]
    assert [r.offset for r in b.iterate_records(made)] == [1_000_000_007, 1_000_000_008]


def test_stamping_in_the_middle_of_a_larger_buffer():
    data = bytearray(b"head" + GOLDEN_BATCH + b"tail")

    b.stamp(memoryview(data)[4:-4], base_offset=99, leader_epoch=1)

    assert b.verify(data, 4).base_offset == 99
    assert data[:4] == b"head" and data[-4:] == b"tail"


def test_log_append_time_is_the_time_of_every_record():
    """LogAppendTime: attribute bit 3, max timestamp, new CRC."""
    made = b.encode_batch(RECORDS, base_offset=10)

    b.stamp_log_append_time(made, NOW + 99)

    header = b.verify(made)
    assert header.is_log_append_time and header.max_timestamp == NOW + 99
    assert {r.timestamp for r in b.iterate_records(made)} == {NOW + 99}
    assert {r.timestamp for r in AiokafkaBatch(bytes(made))} == {NOW + 99}
    b.stamp_create_time(made, NOW + 7)
    assert made == b.encode_batch(RECORDS, base_offset=10)


def test_a_batch_keeps_its_range_when_compaction_took_records():
    made = b.encode_batch([RECORDS[1]], base_offset=10, last_offset=20)

    header = b.verify(made)

    assert (header.base_offset, header.last_offset, header.record_count) == (10, 20, 1)
    assert [r.offset for r in b.iterate_records(made)] == [11]
    assert list(b.read_keys_values(made)[0]) == [11]


def test_a_delete_horizon_stands_where_the_first_timestamp_would():
    """C03: bit 6, and deltas that count from the horizon."""
    made = b.encode_batch(RECORDS, base_offset=10, delete_horizon_ms=NOW + 86_400_000)

    header = b.verify(made)

    assert header.delete_horizon_ms == header.base_timestamp == NOW + 86_400_000
    assert header.max_timestamp == NOW + 7
    assert list(b.iterate_records(made)) == RECORDS


def test_an_empty_batch_remembers_its_range_and_producer():
    made = b.encode_batch([], base_offset=5, last_offset=9, producer_id=4, producer_epoch=0, base_sequence=3)

    header = b.verify(made)

    assert (header.base_offset, header.last_offset, header.record_count, header.size_bytes) == (5, 9, 0, 61)
    assert (header.base_timestamp, header.max_timestamp, header.last_sequence) == (-1, -1, 7)
    assert list(b.iterate_records(made)) == []
    assert list(b.iterate_keys_values(made)) == []


def test_an_empty_batch_without_a_range_is_our_mistake():
    with pytest.raises(ValueError, match="last offset"):
        b.encode_batch([])


def test_headers_of_several_batches_are_found_one_after_the_other():
    first, second = bytes(GOLDEN_BATCH), bytes(b.encode_pairs([(b"a", b"b")], timestamp=NOW, base_offset=9))
    data = first + second + first[:80]

    found = [(position, header.base_offset) for position, header in b.iterate_headers(data)]

    assert found == [(0, 7), (len(first), 9)], "the batch that is cut off is left out"


@pytest.mark.parametrize(
    ("position", "new", "error", "code"),
    [
        (16, b"\x01", b.UnsupportedMagic, ErrorCode.INVALID_RECORD),
        (8, struct.pack(">i", 48), b.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        (8, struct.pack(">i", -1), b.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        (8, struct.pack(">i", 10_000), b.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        (17, b"\x00\x00\x00\x00", b.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
        (70, b"\xff", b.CorruptBatch, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_damaged_batch_is_refused(position: int, new: bytes, error: type[b.CorruptBatch], code: ErrorCode):
    data = bytearray(GOLDEN_BATCH)
    data[position : position + len(new)] = new

    with pytest.raises(error) as caught:
        b.verify(data)
    assert caught.value.code == code


def test_every_flipped_bit_that_the_crc_covers_is_found():
    for position in range(16, len(GOLDEN_BATCH)):
        data = bytearray(GOLDEN_BATCH)
        data[position] ^= 0x10
        with pytest.raises(b.CorruptBatch):
            b.verify(data)


def test_every_cut_is_found():
    for size in range(len(GOLDEN_BATCH)):
        with pytest.raises(b.CorruptBatch):
            b.verify(GOLDEN_BATCH[:size])


def resealed(data: bytearray) -> bytearray:
    """The same bytes with a right length and CRC, as a hostile client would send them."""
    from protocol.records.batch_header import write_crc

    struct.pack_into(">i", data, 8, len(data) - 12)
    write_crc(data)
    return data


@pytest.mark.parametrize("codec", CODECS)
def test_whatever_lies_inside_a_sealed_batch_gives_records_or_a_named_error(codec: int):
    rng = random.Random(20_260_101 + codec)
    whole = b.encode_batch(RECORDS, base_offset=10, compression=codec)
    for _ in range(4_000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(57, len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(61, len(data)) :]
        resealed(data)
        # A record count is only bounded by the bytes that are there: keep the damaged one below what takes long.
        outcomes = []
        for read in (
            lambda d: list(b.iterate_records(d, limit_bytes=1 << 20)),
            lambda d: list(b.iterate_keys_values(d, limit_bytes=1 << 20)),
            lambda d: b.validate_records(d, limit_bytes=1 << 20),
        ):
            try:
                read(data)
                outcomes.append(True)
            except (b.CorruptBatch, b.InvalidRecord):
                outcomes.append(False)
        if outcomes[2]:
            assert outcomes[:2] == [True, True], "what validation lets in can be read"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**50),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=200),
            st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=20)), max_size=3),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 2**60),
    st.sampled_from(CODECS),
)
def test_any_records_come_back(content, base_offset: int, codec: int):
    records = [Record(base_offset + i, t, k, v, tuple(h)) for i, (t, k, v, h) in enumerate(content)]

    made = b.encode_batch(records, base_offset=base_offset, compression=codec)

    b.verify(made)
    assert list(b.iterate_records(made)) == records
    newest = max(r.timestamp for r in records)
    keyless = [i for i, r in enumerate(records) if r.key is None]
    assert b.validate_records(made) == (
        newest,
        next(r.offset for r in records if r.timestamp == newest),
        min(r.timestamp for r in records),
        keyless[0] if keyless else -1,
    )


def test_validation_finds_the_first_record_without_a_key_and_the_newest_in_the_middle():
    """CL10, CL12: INVALID_RECORD names the record; timestamp -3 finds the second of three."""
    made = b.encode_batch([Record(0, 100, b"a", b""), Record(1, 300, None, b""), Record(2, 200, None, b"")])

    assert b.validate_records(made) == b.RecordFacts(300, 1, 100, 1)


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_that_announces_other_records_than_it_holds_is_refused(codec: int):
    records = [Record(i, NOW, b"k", b"v") for i in range(3)]
    with pytest.raises(b.InvalidRecord, match="offset range"):
        b.validate_records(b.encode_batch(records, last_offset=5, compression=codec))
    with pytest.raises(b.InvalidRecord, match="offset delta") as caught:
        gaps = [records[0], records[2]._replace(offset=2), records[2]._replace(offset=3)]
        b.validate_records(b.encode_batch(gaps, last_offset=2, compression=codec))
    assert caught.value.record_index == 1
    with pytest.raises(b.InvalidRecord, match="control"):
        b.validate_records(b.encode_batch(records, control=True))
    with pytest.raises(b.InvalidRecord, match="count"):
        b.validate_records(b.encode_batch([], last_offset=0))
    more = b.encode_batch(records, compression=codec)
    struct.pack_into(">i", more, 57, 4)
    struct.pack_into(">i", more, 23, 3)
    with pytest.raises(b.InvalidRecord, match="4 records are announced, after 3 no whole one comes"):
        b.validate_records(resealed(more))


@pytest.mark.parametrize("bits", [31, 32, 62, 63, 64, 69])
@pytest.mark.parametrize("of", ["record", "key", "value", "header", "headers"])
def test_no_length_is_too_long_to_be_damage(of: str, bits: int):
    """Of as many bits as ten bytes hold, and more than native code counts with: damage as any other."""
    huge = encode_uvarint(1 << bits)

    def length(what: str) -> bytes:
        return huge if what == of else b"\x02"

    fields = bytes(3) + length("key") + b"k" + length("value") + b"v" + length("headers") + length("header") + b"h\x01"
    record = (huge if of == "record" else encode_uvarint(2 * len(fields))) + fields
    made = b.encode_batch([Record(0, NOW, None, None)])
    made[61:] = record
    for batch in (resealed(made), bytes(resealed(made))):
        with pytest.raises(CorruptBatch):
            list(b.iterate_records(batch))
        if not of.startswith("header"):  # which who reads keys and values goes past
            with pytest.raises(CorruptBatch):
                b.read_keys_values(batch)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused_at_the_limit(codec: int):
    bomb = b.encode_batch([Record(0, NOW, b"k", bytes(40_000_000))], compression=codec)
    assert len(bomb) < 2_000_000

    for read in (b.iterate_records, b.validate_records, b.read_keys_values):
        with pytest.raises(b.DecompressedTooLarge) as caught:
            list(read(bomb, limit_bytes=1 << 20))
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_unassigned_codec_is_named():
    data = bytearray(GOLDEN_BATCH)
    data[22] |= 5
    with pytest.raises(b.UnsupportedCompression) as caught:
        b.validate_records(resealed(data))
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
