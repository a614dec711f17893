"""Keys and values of `__consumer_offsets` against golden bytes, every version, and bytes that are none."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import EncodeError
from protocol.records import group_records as g
from protocol.records.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentTopicPartitions,
    PartitionMetadata,
    TargetTopicPartitions,
    TopicMetadata,
    classic_of,
)
from protocol.types import ZERO_UUID

T0 = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
KEY = g.OffsetCommitKey("g", "t", 3)
MEMBER = g.MemberMetadata(
    member_id="c-1",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\x01",
    assignment=b"\x02",
)
GROUP = g.GroupMetadataValue(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="c-1",
    current_state_timestamp=T0,
    members=[MEMBER],
)
KIP_848_MEMBER = g.ConsumerGroupMemberMetadataValue(
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=300_000,
    classic_member_metadata=None,
)
KIP_848_CLASSIC_MEMBER = g.ConsumerGroupMemberMetadataValue(
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=300_000,
    classic_member_metadata=ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\x01")]
    ),
)


def current(epochs: list[int] | None) -> g.ConsumerGroupCurrentMemberAssignmentValue:
    return g.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        assigned_partitions=[CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=epochs)],
    )


# (what, key, value, bytes of the value as they are written)
GOLDEN_VALUES = [
    (
        "offset v4",
        KEY,
        g.OffsetCommitValue(42, 5, "m", T0, -1, TOPIC_ID),
        "0004000000000000002a00000005026d0000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
    ),
    (
        "offset v4 without id",
        KEY,
        g.OffsetCommitValue(42, 5, "m", T0),
        "0004000000000000002a00000005026d0000018bcfe5680000",
    ),
    (
        "offset v1",
        KEY,
        g.OffsetCommitValue(42, -1, "m", T0, T0 + 86_400_000),
        "0001000000000000002a00016d0000018bcfe568000000018bd50bc400",
    ),
    (
        "group with a member",
        g.GroupMetadataKey("g"),
        GROUP,
        "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff000163000a2f3132"
        "372e302e302e31000493e00000afc800000001010000000102",
    ),
    (
        "KIP-848 group",
        g.ConsumerGroupMetadataKey("g"),
        g.ConsumerGroupMetadataValue(epoch=7, metadata_hash=0x0102030405060708),
        "0000000000070100080102030405060708",
    ),
    (
        "KIP-848 group without topics",
        g.ConsumerGroupMetadataKey("g"),
        g.ConsumerGroupMetadataValue(epoch=7),
        "00000000000700",
    ),
    (
        "target epoch",
        g.ConsumerGroupTargetAssignmentMetadataKey("g"),
        g.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7, assignment_timestamp=T0),
        "0000000000070100080000018bcfe56800",
    ),
    (
        "target of a member",
        g.ConsumerGroupTargetAssignmentMemberKey("g", "m"),
        g.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]
        ),
        "000002000102030405060708090a0b0c0d0e0f0300000000000000010000",
    ),
    (
        "KIP-848 member",
        g.ConsumerGroupMemberMetadataKey("g", "m"),
        KIP_848_MEMBER,
        "0000000002630b2f3132372e302e302e3102027401000493e00001000100",
    ),
    (
        "KIP-848 member of the classic kind",
        g.ConsumerGroupMemberMetadataKey("g", "m"),
        KIP_848_CLASSIC_MEMBER,
        "0000000002630b2f3132372e302e302e3102027401000493e000010010010000afc8020672616e676502010000",
    ),
    (
        "current assignment",
        g.ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        current([5, 7]),
        "000000000007000000060002000102030405060708090a0b0c0d0e0f0300000000000000010100090300000005000000070100",
    ),
    (
        "current assignment up to 4.2",
        g.ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        current(None),
        "000000000007000000060002000102030405060708090a0b0c0d0e0f030000000000000001000100",
    ),
    (
        "regular expression",
        g.ConsumerGroupRegularExpressionKey("g", "t."),
        g.ConsumerGroupRegularExpressionValue(topics=["t1", "t2"], version=9, timestamp=T0),
        "00000303743103743200000000000000090000018bcfe5680000",
    ),
]


@pytest.mark.parametrize(("what", "key", "value", "golden"), GOLDEN_VALUES, ids=[row[0] for row in GOLDEN_VALUES])
def test_golden_values_both_ways(what: str, key: g.GroupKey, value: g.GroupValue, golden: str):
    """P13: golden bytes."""
    assert g.encode_value(value).hex() == golden
    assert g.decode_value(key, bytes.fromhex(golden)) == value


def test_the_golden_value_of_a_new_empty_group():
    value = g.GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=T0, members=[]
    )
    # Protocol is null; the golden leader is null too.
    golden = "0003000000000000ffffffff0000018bcfe5680000000000"

    assert g.encode_value(value).hex() == golden
    assert g.decode_value(g.GroupMetadataKey("g"), bytes.fromhex(golden)) == value


GOLDEN_KEYS = [
    (KEY, "000100016700017400000003"),
    (g.LegacyOffsetCommitKey("g", "t", 3), "000000016700017400000003"),
    (g.GroupMetadataKey("g"), "0002000167"),
    (g.ConsumerGroupMetadataKey("g"), "0003000167"),
    (g.ConsumerGroupPartitionMetadataKey("g"), "0004000167"),
    (g.ConsumerGroupMemberMetadataKey("g", "mm"), "000500016700026d6d"),
    (g.ConsumerGroupTargetAssignmentMetadataKey("g"), "0006000167"),
    (g.ConsumerGroupTargetAssignmentMemberKey("g", "mm"), "000700016700026d6d"),
    (g.ConsumerGroupCurrentMemberAssignmentKey("g", "mm"), "000800016700026d6d"),
    (g.ConsumerGroupRegularExpressionKey("g", "t."), "00100001670002742e"),
]


@pytest.mark.parametrize(("key", "golden"), GOLDEN_KEYS, ids=[type(key).__name__ for key, _ in GOLDEN_KEYS])
def test_golden_keys_both_ways(key: g.GroupKey, golden: str):
    assert g.encode_key(key).hex() == golden
    assert g.decode_key(bytes.fromhex(golden)) == key
    assert type(g.decode_key(bytes.fromhex(golden))) is type(key)


def test_keys_of_different_types_are_never_equal():
    """They share one cache of encoded keys, and a group's id may be any record's."""
    keys = [key for key, _ in GOLDEN_KEYS]

    assert len(set(keys)) == len(keys)
    assert g.OffsetCommitKey("g", "t", 3) != g.LegacyOffsetCommitKey("g", "t", 3)


@pytest.mark.parametrize(
    ("version", "body", "value"),
    [
        (0, struct.pack(">qh1sq", 42, 1, b"m", T0), g.OffsetCommitValue(42, -1, "m", T0)),
        (1, struct.pack(">qh1sqq", 42, 1, b"m", T0, T0 + 5), g.OffsetCommitValue(42, -1, "m", T0, T0 + 5)),
        (2, struct.pack(">qh1sq", 42, 1, b"m", T0), g.OffsetCommitValue(42, -1, "m", T0)),
        (3, struct.pack(">qih1sq", 42, 5, 1, b"m", T0), g.OffsetCommitValue(42, 5, "m", T0)),
        (3, struct.pack(">qihq", 42, 5, 0, T0), g.OffsetCommitValue(42, 5, "", T0)),
        (4, struct.pack(">qiBq", 42, 5, 1, T0) + b"\x00", g.OffsetCommitValue(42, 5, "", T0)),
        (
            4,
            struct.pack(">qiBq", 42, 5, 1, T0) + b"\x01\x00\x10" + TOPIC_ID,
            g.OffsetCommitValue(42, 5, "", T0, -1, TOPIC_ID),
        ),
        (
            4,  # tags 0, 3 and 200, of which only 0 means anything
            struct.pack(">qiBq", 42, 5, 1, T0) + b"\x03\x00\x10" + TOPIC_ID + b"\x03\x02hi" + b"\xc8\x01\x00",
            g.OffsetCommitValue(42, 5, "", T0, -1, TOPIC_ID),
        ),
        (
            4,  # 42 bytes as the common shape has, but another tag: not to be taken for the topic id
            struct.pack(">qiBq", 42, 5, 1, T0) + b"\x01\x07\x10" + TOPIC_ID,
            g.OffsetCommitValue(42, 5, "", T0),
        ),
    ],
)
def test_offsets_of_every_version_are_read(version: int, body: bytes, value: g.OffsetCommitValue):
    """P07: every version, unknown tagged fields in 4, defaults for what a version lacks."""
    assert g.decode_value(KEY, struct.pack(">h", version) + body) == value


@pytest.mark.parametrize("version", range(5))
def test_group_metadata_of_every_version_is_read(version: int):
    """P07."""
    read = g.decode_value(g.GroupMetadataKey("g"), struct.pack(">h", version) + GROUP.encode(version))

    assert isinstance(read, g.GroupMetadataValue)
    assert (read.protocol_type, read.generation, read.protocol, read.leader) == ("consumer", 1, "range", "c-1")
    assert read.current_state_timestamp == (T0 if version >= 2 else -1)
    assert [m.rebalance_timeout for m in read.members] == [300_000 if version >= 1 else -1]
    assert [(m.subscription, m.assignment, m.group_instance_id) for m in read.members] == [(b"\x01", b"\x02", None)]


def test_group_metadata_v4_may_have_tags_nobody_knows():
    """P07."""
    data = b"\x00\x04" + g.GroupMetadataValue(protocol_type="consumer").encode(4)[:-1] + b"\x01\x63\x02hi"

    read = g.decode_value(g.GroupMetadataKey("g"), data)

    assert read == g.GroupMetadataValue(protocol_type="consumer")


def test_a_type_4_record_of_kafka_4_0_is_read():
    value = g.ConsumerGroupPartitionMetadataValue(
        topics=[
            TopicMetadata(
                topic_id=TOPIC_ID,
                topic_name="t",
                num_partitions=1,
                partition_metadata=[PartitionMetadata(partition=0, racks=["r"])],
            )
        ]
    )

    assert g.decode_value(g.ConsumerGroupPartitionMetadataKey("g"), g.encode_value(value)) == value


def test_a_legacy_key_takes_value_version_0_only():
    """P15."""
    key = g.LegacyOffsetCommitKey("g", "t", 3)

    assert g.decode_value(key, struct.pack(">hqhq", 0, 42, 0, T0)) == g.OffsetCommitValue(42, -1, "", T0)
    for version in (1, 2, 3, 4):
        with pytest.raises(g.UnparsableRecord):
            g.decode_value(key, struct.pack(">h", version) + bytes(40))


@pytest.mark.parametrize(("record_type", "assigned"), [(9, False), (18, False), (30, False), (-1, False)])
@pytest.mark.parametrize("rest", [b"", b"\x00\x01g", b"\xff\xff\xff"])
def test_a_key_of_a_type_nobody_defined_is_told_apart(record_type: int, assigned: bool, rest: bytes):
    """P08, P16."""
    key = g.decode_key(struct.pack(">h", record_type) + rest)

    assert key == g.UnknownKey(record_type)
    assert isinstance(key, g.UnknownKey) and key.is_assigned is assigned


@pytest.mark.parametrize("record_type", [10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 22, 23])
def test_records_of_share_and_streams_groups_are_skipped_by_name(record_type: int):
    """P16."""
    key = g.decode_key(struct.pack(">h", record_type) + b"\x00\x01g")

    assert isinstance(key, g.UnknownKey) and key.is_assigned


@pytest.mark.parametrize(
    "data",
    [None, b"", b"\x00", b"\x00\x01", b"\x00\x02\xff\xff", b"\x00\x02\x00\x05ab", b"\x00\x02\x00\x01\xff"]
    + [bytes.fromhex("000100016700017400000003")[:n] for n in range(12)]
    + [bytes.fromhex("000500016700026d6d")[:n] for n in range(9)],
)
def test_a_key_that_is_none_of_its_type_is_an_error(data: bytes | None):
    """P08: a known type with garbage."""
    with pytest.raises(g.UnparsableRecord):
        g.decode_key(data)


@pytest.mark.parametrize(("what", "key", "value", "golden"), GOLDEN_VALUES, ids=[row[0] for row in GOLDEN_VALUES])
def test_a_value_cut_anywhere_is_an_error(what: str, key: g.GroupKey, value: g.GroupValue, golden: str):
    """P08."""
    data = bytes.fromhex(golden)
    for size in range(len(data)):
        with pytest.raises(g.UnparsableRecord):
            g.decode_value(key, data[:size])


@pytest.mark.parametrize("key", [key for key, _ in GOLDEN_KEYS], ids=lambda key: type(key).__name__)
def test_an_unsupported_value_version_is_an_error(key: g.GroupKey):
    """P08."""
    for version in (5, 17, 0x7FFF, 0xFFFF):
        with pytest.raises(g.UnparsableRecord):
            g.decode_value(key, version.to_bytes(2, "big") + bytes(200))


@pytest.mark.parametrize("key", [key for key, _ in GOLDEN_KEYS], ids=lambda key: type(key).__name__)
def test_no_value_is_a_tombstone(key: g.GroupKey):
    assert g.decode_value(key, None) is None


def test_what_lies_behind_a_value_is_not_looked_at():
    """Kafka reads values so: a later release may append."""
    for _, key, value, golden in GOLDEN_VALUES:
        assert g.decode_value(key, bytes.fromhex(golden) + b"later") == value


def test_mutated_keys_and_values_give_a_record_or_the_named_error():
    rng = random.Random(848)
    pairs = [(g.encode_key(key), key, bytes.fromhex(golden)) for _, key, _, golden in GOLDEN_VALUES]
    for _ in range(30_000):
        key_bytes, key, value_bytes = rng.choice(pairs)
        for data in (key_bytes, value_bytes):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            try:
                if data is key_bytes:
                    g.decode_key(bytes(broken))
                else:
                    g.decode_value(key, bytes(broken))
            except g.UnparsableRecord:
                pass


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=300),
    st.integers(-1, 2**63 - 1),
    st.sampled_from([ZERO_UUID, TOPIC_ID]),
)
def test_any_committed_offset_comes_back(offset: int, epoch: int, metadata: str, timestamp: int, topic_id: bytes):
    value = g.OffsetCommitValue(offset, epoch, metadata, timestamp, -1, topic_id)

    assert g.decode_value(KEY, g.encode_value(value)) == value


def test_metadata_longer_than_a_byte_of_length():
    for size in (126, 127, 128, 4_096, 32_767):
        value = g.OffsetCommitValue(1, 2, "é" * (size // 2) + "x" * (size % 2), 3, -1, TOPIC_ID)
        assert g.decode_value(KEY, g.encode_value(value)) == value


def test_strings_that_no_record_can_hold_are_refused_when_writing():
    with pytest.raises(EncodeError):
        g.encode_key(g.OffsetCommitKey("g" * 32_768, "t", 0))
    with pytest.raises(EncodeError):
        g.encode_value(g.OffsetCommitValue(1, 2, "m" * 32_768, 3))
    with pytest.raises(EncodeError):
        g.encode_value(g.OffsetCommitValue(1, 2, "m" * 32_768, 3, 4))


def test_a_member_without_its_classic_part_was_written_by_kohort_once():
    """Kafka takes it for a member of the classic kind, so a null is written now; what was left out is null to us."""
    value = g.ConsumerGroupMemberMetadataValue.decode(
        0, bytes.fromhex("000002630b2f3132372e302e302e3102027401000493e00000")
    )
    assert value.client_id == "c"
    assert classic_of(value) is None
    assert classic_of(KIP_848_MEMBER) is None
    assert classic_of(KIP_848_CLASSIC_MEMBER) is not None
