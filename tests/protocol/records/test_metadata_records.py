"""Frames of the metadata log against golden bytes (DD01, DD02, DD03, DD30)."""

import contextlib
import random
from collections.abc import Sequence

import pytest

from protocol.records import batch, control_records
from protocol.records import metadata_records as m
from protocol.schema import Message

T0 = 1_700_000_000_000
TOPIC = bytes(range(16))
OFFSETS_TOPIC = bytes(range(0x20, 0x30))
DIRECTORY = bytes.fromhex("27c6803dc7cb42dd9baacd494ffacc81")
INCARNATION = bytes(range(0x10, 0x20))
TOPIC_HEX, DIRECTORY_HEX = TOPIC.hex(), DIRECTORY.hex()


def partition(index: int = 0, topic_id: bytes = TOPIC) -> m.PartitionRecord:
    return m.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY],
    )


def registration(fenced: bool) -> m.RegisterBrokerRecord:
    return m.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=INCARNATION,
        broker_epoch=2,
        end_points=[m.BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
        features=[m.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=21)],
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def topic_config(name: str, key: str, value: str | None) -> m.ConfigRecord:
    return m.ConfigRecord(resource_type=2, resource_name=name, name=key, value=value)


MV_21 = m.FeatureLevelRecord(name="metadata.version", feature_level=21)
REGISTRATION_HEX = (
    "0100030000000100101112131415161718191a1b1c1d1e1f0000000000000002020a504c41494e544558540a6c6f63616c686f73742384"
    "00000002116d657461646174612e76657273696f6e0007001500000{fenced}000100110227c6803dc7cb42dd9baacd494ffacc81"
)

# (what, metadata.version it is written under, record, frame)
FRAMES: list[tuple[str, int, Message, str]] = [
    ("feature", 21, MV_21, "010c00116d657461646174612e76657273696f6e001500"),
    ("topic", 21, m.TopicRecord(name="t1", topic_id=TOPIC), f"010200037431{TOPIC_HEX}00"),
    (
        "partition",
        21,
        partition(),
        f"01030100000000{TOPIC_HEX}02000000010200000001010100000001000000000000000002{DIRECTORY_HEX}00",
    ),
    (
        "config",
        21,
        topic_config("t1", "cleanup.policy", "compact"),
        "010400020374310f636c65616e75702e706f6c69637908636f6d7061637400",
    ),
    (
        "config removed",
        21,
        topic_config("t1", "cleanup.policy", None),
        "010400020374310f636c65616e75702e706f6c6963790000",
    ),
    (
        "change of leader",
        21,
        m.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1),
        f"01050100000000{TOPIC_HEX}01010400000001",
    ),
    (
        "change of directories",
        21,
        m.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=[DIRECTORY]),
        f"01050100000000{TOPIC_HEX}01081102{DIRECTORY_HEX}",
    ),
    (
        "change under ELR",
        23,
        m.PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
        ),
        f"01050200000000{TOPIC_HEX}0400050200000001010400000001060101070101",
    ),
    (
        "partition after a clean stop with ELR",
        23,
        m.PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=[1],
            isr=[],
            leader=-1,
            leader_epoch=5,
            partition_epoch=9,
            directories=[DIRECTORY],
            eligible_leader_replicas=[1],
            last_known_elr=[1],
        ),
        f"01030200000000{TOPIC_HEX}0200000001010101ffffffff000000050000000902{DIRECTORY_HEX}"
        "020105020000000102050200000001",
    ),
    ("registration", 21, registration(fenced=False), REGISTRATION_HEX.format(fenced=0)),
    ("fenced registration", 21, registration(fenced=True), REGISTRATION_HEX.format(fenced=1)),
    (
        "fence",
        6,
        m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1),
        "01110000000001000000000000000201000101",
    ),
    (
        "unfence",
        6,
        m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1),
        "011100000000010000000000000002010001ff",
    ),
    ("topic removed", 21, m.RemoveTopicRecord(topic_id=TOPIC), f"010900{TOPIC_HEX}00"),
    (
        "producer ids",
        21,
        m.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
        "010f0000000001000000000000000500000000000003e800",
    ),
    (
        "quota",
        21,
        m.ClientQuotaRecord(
            entity=[m.QuotaEntity(entity_type="user", entity_name="alice")],
            key="producer_byte_rate",
            value=1024.0,
            remove=False,
        ),
        "010e0002057573657206616c696365001370726f64756365725f627974655f7261746540900000000000000000",
    ),
    ("no-op", 21, m.NoOpRecord(), "01140000"),
    ("ZooKeeper", 21, m.ZkMigrationStateRecord(zk_migration_state=0), "0115000000"),
    ("end", 21, m.EndTransactionRecord(), "01180000"),
    (
        "begin",
        21,
        m.BeginTransactionRecord(name="Bootstrap records"),
        "01170001001212426f6f747374726170207265636f726473",
    ),
    (
        "abort",
        21,
        m.AbortTransactionRecord(reason="Controller failover"),
        "01190001001414436f6e74726f6c6c6572206661696c6f766572",
    ),
]
IDS = [row[0] for row in FRAMES]


@pytest.mark.parametrize(("what", "level", "record", "golden"), FRAMES, ids=IDS)
def test_golden_frames_both_ways(what: str, level: int, record: Message, golden: str):
    """DD01: bytes and fields match."""
    assert m.encode_frame(record, metadata_version=level).hex() == golden
    assert m.decode_frame(bytes.fromhex(golden)) == record


@pytest.mark.parametrize(("what", "level", "record", "golden"), FRAMES, ids=IDS)
def test_one_byte_more_or_less_is_an_error(what: str, level: int, record: Message, golden: str):
    """DD01."""
    data = bytes.fromhex(golden)
    for broken in (data + b"\x00", data[:-1]):
        with pytest.raises(m.BadMetadataRecord):
            m.decode_frame(broken)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("00020003743100", m.UnknownFrameVersion),
        (f"020200037431{TOPIC_HEX}00", m.UnknownFrameVersion),
        ("010d0000", m.UnknownMetadataRecord),  # 13 was never used
        ("011e0000", m.UnknownMetadataRecord),  # 30, the first unknown one
        (f"01030300000000{TOPIC_HEX}", m.UnknownRecordVersion),
        (f"010201037431{TOPIC_HEX}00", m.UnknownRecordVersion),
        ("", m.BadMetadataRecord),
        ("01", m.BadMetadataRecord),
        ("0102", m.BadMetadataRecord),
        ("ff" * 12, m.BadMetadataRecord),
    ],
)
def test_what_cannot_be_understood_is_told_apart(frame: str, error: type[m.MetadataRecordError]):
    """DD02: frame version 0 or 2, an unknown key, Partition version 3: a distinct error each."""
    with pytest.raises(m.MetadataRecordError) as caught:
        m.decode_frame(bytes.fromhex(frame))
    assert type(caught.value) is error


def test_unknown_tagged_fields_are_skipped():
    """DD03."""
    with_tags = bytes.fromhex(f"010200037431{TOPIC_HEX}") + b"\x02" + b"\x05\x03abc" + b"\xc8\x01\x00"

    assert m.decode_frame(with_tags) == m.TopicRecord(name="t1", topic_id=TOPIC)


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (m.RegisterBrokerRecord, {6: 0, 7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}),
        (m.PartitionRecord, {16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (m.PartitionChangeRecord, {16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (m.TopicRecord, {1: 0, 30: 0}),
    ],
)
def test_the_metadata_version_decides_how_a_record_is_written(record: type[Message], versions: dict[int, int]):
    """Each feature level writes its own versions."""
    assert {level: m.record_version(record, level) for level in versions} == versions


@pytest.mark.parametrize("kind", sorted(m.RECORDS))
def test_every_kind_and_version_comes_back_with_its_defaults(kind: int):
    record = m.RECORDS[kind]
    for version in range(record.VERSIONS[0], record.VERSIONS[1] + 1):
        frame = bytes((1, kind, version)) + record().encode(version)
        assert m.decode_frame(frame) == record.decode(version, record().encode(version))
        assert type(m.decode_frame(frame)) is record


def test_mutated_frames_give_a_record_or_an_error_of_this_module():
    rng = random.Random(631)
    frames = [bytes.fromhex(golden) for *_, golden in FRAMES]
    for _ in range(20_000):
        data = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        with contextlib.suppress(m.MetadataRecordError):
            m.decode_frame(bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.2 else data))


def data_batch(offset: int, records: Sequence[Message]) -> bytes:
    pairs = [(None, m.encode_frame(record)) for record in records]
    return bytes(batch.encode_pairs(pairs, timestamp=T0, base_offset=offset, leader_epoch=1))


LEADER_CHANGE = bytes(
    batch.encode_pairs([control_records.leader_change(1)], timestamp=T0, base_offset=0, leader_epoch=1, control=True)
)

# The verified minimum, five batches (offset, records, bytes, CRC)
MINIMUM = [
    (1, [MV_21, registration(fenced=True)], 204, "6572d248"),
    (
        3,
        [
            m.TopicRecord(name="orders", topic_id=TOPIC),
            topic_config("orders", "retention.ms", "-1"),
            partition(0),
            partition(1),
            partition(2),
        ],
        352,
        "c90ffeb1",
    ),
    (
        8,
        [
            m.TopicRecord(name="__consumer_offsets", topic_id=OFFSETS_TOPIC),
            topic_config("__consumer_offsets", "cleanup.policy", "compact"),
            topic_config("__consumer_offsets", "compression.type", "producer"),
            topic_config("__consumer_offsets", "segment.bytes", "104857600"),
            partition(0, OFFSETS_TOPIC),
        ],
        347,
        "727a074c",
    ),
    (13, [m.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=2000)], 92, "41a6e914"),
]


def test_the_leader_change_batch_is_kafkas_byte_for_byte():
    """The batch that begins every metadata log."""
    assert LEADER_CHANGE.hex() == (
        "00000000000000000000004f00000001021154eaf90020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000013a0000000800000002260000000000010200000001000200000001000000"
    )


@pytest.mark.parametrize(("offset", "records", "size", "crc"), MINIMUM)
def test_the_verified_minimum_is_written_byte_for_byte(offset: int, records: list[Message], size: int, crc: str):
    """Each batch's size and CRC, and DD30: keys, headers, deltas, attributes."""
    made = data_batch(offset, records)

    header = batch.verify(made)
    assert (len(made), f"{header.crc:08x}") == (size, crc)
    read = list(batch.iterate_records(made))
    assert [m.decode_frame(record.value or b"") for record in read] == records
    assert header.attributes == 0
    assert {(record.key, record.headers, record.timestamp) for record in read} == {(None, (), T0)}
    assert header.base_timestamp == header.max_timestamp == T0


def test_the_older_form_of_a_metadata_log_is_read():
    """An unfenced registration, closed by a fence."""
    log = bytes.fromhex(
        LEADER_CHANGE.hex()
        + "0000000000000001000000c0000000010210a122700000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000023a000000012e010c00116d657461646174612e76657273696f6e00150000de0100000201d00101000300000001001011"
        "12131415161718191a1b1c1d1e1f0000000000000002020a504c41494e544558540a6c6f63616c686f7374238400000002116d65746164"
        "6174612e76657273696f6e00070015000000000100110227c6803dc7cb42dd9baacd494ffacc8100"
        "0000000000000003000000bf00000001021a5075c10000000000020000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000033a000000012e010200037431000102030405060708090a0b0c0d0e0f00004a000002013e010400020374310f636c65616e"
        "75702e706f6c69637908636f6d706163740000900100000401820101030100000000000102030405060708090a0b0c0d0e0f0200000001"
        "020000000101010000000100000000000000000227c6803dc7cb42dd9baacd494ffacc810000"
        "00000000000000060000004b00000001028dfdef050000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000013200000001260111000000000100000000000000020100010100"
    )

    read = []
    for position, header in batch.iterate_headers(log):
        batch.verify(log, position)
        if not header.is_control:
            read += [(r.offset, m.decode_frame(r.value or b"")) for r in batch.iterate_records(log, position)]

    assert read == [
        (1, MV_21),
        (2, registration(fenced=False)),
        (3, m.TopicRecord(name="t1", topic_id=TOPIC)),
        (4, topic_config("t1", "cleanup.policy", "compact")),
        (5, partition()),
        (6, m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1)),
    ]


def test_a_bootstrap_checkpoint_is_read():
    """Header, one FeatureLevel, footer."""
    snapshot = bytes.fromhex(
        "0000000000000000000000470000000002695d78600020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000012a000000080000000316000000000000000000000000"
        "00000000000000010000004f0000000002ddc19b9f0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000013a000000012e010c00116d657461646174612e76657273696f6e00150000"
        "00000000000000020000003f00000000028f6608e60020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffff"
        "ffff000000011a00000008000000040600000000"
    )

    read = []
    for position, header in batch.iterate_headers(snapshot):
        batch.verify(snapshot, position)
        for record in batch.iterate_records(snapshot, position):
            if header.is_control:
                kind = control_records.control_type(record.key)
                assert kind is not None
                read.append(control_records.decode_control_value(kind, record.value))
            else:
                read.append(m.decode_frame(record.value or b""))

    assert read == [control_records.SnapshotHeaderRecord(), MV_21, control_records.SnapshotFooterRecord()]
