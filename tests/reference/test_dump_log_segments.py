"""Kafka's own DumpLogSegments reads the bytes that we write, and says what we say (P13, DD31)."""

import json
import re
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from protocol.records import batch, control_records, metadata_records
from protocol.records import group_records as g
from protocol.records import transaction_records as t
from protocol.schema import Struct, Uuid
from protocol.types import ZERO_UUID, uuid_text
from tests.protocol.records.test_group_records import GOLDEN_KEYS, GOLDEN_VALUES
from tests.protocol.records.test_transaction_records import GOLDEN as TRANSACTIONS
from tests.support.broker_process import ROOT, need
from tests.support.catalogue_fixture import CatalogueDriver

pytestmark = pytest.mark.slow

T0 = 1_700_000_000_000
LOG = "00000000000000000000.log"
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


def dump(log: Path, *options: str) -> list[str]:
    """The lines about batches and records that Kafka prints of a log; it must find every batch valid."""
    need("java", "mvn")
    ended = subprocess.run(
        [str(ROOT / "tools/kafka"), "run", "org.apache.kafka.tools.DumpLogSegments", "--files", str(log), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert not re.search("exception|error|invalid|Found", ended.stderr + ended.stdout, re.IGNORECASE), ended.stdout
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("baseOffset:", "|"))]
    assert all("isvalid: true" in line for line in lines if line.startswith("baseOffset:"))
    return lines


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def as_kafka_prints(value: Any, *, is_uuid: bool = False) -> Any:
    """A record of ours in the JSON that Kafka's generated converters make of theirs; tagged defaults are left out."""
    if isinstance(value, list):
        return [as_kafka_prints(element, is_uuid=is_uuid) for element in value]
    if isinstance(value, bytes):
        return uuid_text(value) if is_uuid else b64encode(value).decode()
    if not isinstance(value, Struct):
        return value
    return {
        camel(field.name): as_kafka_prints(
            getattr(value, field.name), is_uuid=Uuid in (field.wire_type, getattr(field.wire_type, "element", None))
        )
        for field in value.FIELDS
        if field.tag is None or getattr(value, field.name) != field.default_value()
    }


def offset_as_kafka_prints(value: g.OffsetCommitValue) -> Any:
    printed: dict[str, Any] = {"offset": value.offset}
    if value.expire_timestamp == -1:
        printed["leaderEpoch"] = value.leader_epoch
    printed |= {"metadata": value.metadata, "commitTimestamp": value.commit_timestamp}
    if value.expire_timestamp != -1:
        printed["expireTimestamp"] = value.expire_timestamp
    elif value.topic_id != ZERO_UUID:
        printed["topicId"] = uuid_text(value.topic_id)
    return printed


@pytest.mark.parametrize("log_append_time", [False, True])
def test_kafka_reads_our_batches_of_every_codec(tmp_path: Path, log_append_time: bool) -> None:
    """Also one that compaction thinned out, one with a delete horizon, an empty one."""
    log = bytearray()
    records = [
        batch.Record(i, T0 + i, b"k%d" % i if i else None, b"v" * (i * 9_000), ((b"h", b"x"), (b"n", None)))
        for i in range(5)
    ]
    for codec in range(5):
        moved = [record._replace(offset=record.offset + 5 * codec) for record in records]
        log += batch.encode_batch(
            moved,
            base_offset=5 * codec,
            leader_epoch=0,
            compression=codec,
            producer_id=7,
            producer_epoch=1,
            base_sequence=5 * codec,
            log_append_time_ms=T0 + 99 if log_append_time else None,
        )
    survivor = batch.Record(27, T0, b"k", b"v")
    log += batch.encode_batch([survivor], base_offset=25, last_offset=29, leader_epoch=0, delete_horizon_ms=T0 + 7)
    log += batch.encode_batch([], base_offset=30, last_offset=34, leader_epoch=0, producer_id=7, producer_epoch=1)
    (tmp_path / LOG).write_bytes(log)

    lines = dump(tmp_path / LOG, "--deep-iteration")

    heads = [line for line in lines if line.startswith("baseOffset:")]
    ours = [header for _, header in batch.iterate_headers(bytes(log))]
    for line, header in zip(heads, ours, strict=True):
        assert line.startswith(
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        )
        assert f"compresscodec: {CODEC_NAMES[header.compression]} crc: {header.crc} " in line
        assert f"size: {header.size_bytes} " in line
        kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
        assert f"{kind}: {header.max_timestamp} " in line
    assert "deleteHorizonMs: OptionalLong[1700000000007]" in heads[5]
    printed = [re.match(r"\| offset: (\d+) \w+: (\d+) keySize: (-?\d+) valueSize: (-?\d+)", line) for line in lines]
    kafkas = [tuple(int(part) for part in match.groups()) for match in printed if match]
    read = [
        record for position, _ in batch.iterate_headers(bytes(log)) for record in batch.iterate_records(log, position)
    ]
    assert kafkas == [
        (r.offset, r.timestamp, -1 if r.key is None else len(r.key), -1 if r.value is None else len(r.value))
        for r in read
    ]


def test_kafka_reads_our_group_records_field_by_field(tmp_path: Path) -> None:
    """P13: every type that is written, with its tombstones, and a transaction marker."""
    records: list[tuple[g.GroupKey, g.GroupValue | None]] = [(key, value) for _, key, value, _ in GOLDEN_VALUES]
    records += [(key, None) for key, _ in GOLDEN_KEYS if key.record_type]
    pairs = [(g.encode_key(key), None if value is None else g.encode_value(value)) for key, value in records]
    log = batch.encode_pairs(pairs, timestamp=T0, leader_epoch=0, base_sequence=0)
    log += batch.encode_pairs(
        [control_records.end_transaction(commit=True, coordinator_epoch=9)],
        timestamp=T0,
        base_offset=len(pairs),
        leader_epoch=0,
        producer_id=4000,
        producer_epoch=2,
        transactional=True,
        control=True,
    )
    (tmp_path / LOG).write_bytes(log)

    lines = [line for line in dump(tmp_path / LOG, "--offsets-decoder") if line.startswith("|")]

    assert lines.pop().endswith("endTxnMarker: COMMIT coordinatorEpoch: 9")
    for line, (key, value) in zip(lines, records, strict=True):
        match = re.search(r"key: (\{.*\}) payload: (.*)$", line)
        assert match is not None, line
        printed_key = json.loads(match[1])
        assert printed_key["type"] == str(key.record_type)
        assert list(printed_key["data"].values()) == list(key[:-1])
        if value is None:
            assert match[2] == "<DELETE>"
        else:
            ours = offset_as_kafka_prints(value) if isinstance(value, g.OffsetCommitValue) else as_kafka_prints(value)
            assert json.loads(match[2])["data"] == ours


def test_kafka_reads_our_metadata_log_field_by_field(tmp_path: Path) -> None:
    """DD31: created, configured, grown, deleted, killed and opened again."""
    driver = CatalogueDriver(tmp_path)
    driver.create("orders", 3, configs={"retention.ms": "-1"})
    driver.create("gone", 2)
    driver.delete("gone")
    driver.all(lambda answer: driver.catalogue.create_partitions("orders", 5, None, answer))
    driver.all(driver.catalogue.allocate_producer_ids)
    CatalogueDriver(tmp_path, clean=False, seed=1)
    log = tmp_path / "__cluster_metadata-0" / LOG

    lines = [line for line in dump(log, "--cluster-metadata-decoder") if line.startswith("|")]

    data = log.read_bytes()
    ours = [
        (header.is_control, record)
        for position, header in batch.iterate_headers(data)
        for record in batch.iterate_records(data, position)
    ]
    assert len(ours) > 20
    for line, (is_control, record) in zip(lines, ours, strict=True):
        assert f"| offset: {record.offset} " in line
        if is_control:
            assert 'LeaderChange: {"version":0,"leaderId":1,' in line
            continue
        printed = json.loads(line.partition("payload: ")[2])
        typed = metadata_records.decode_frame(record.value or b"")
        assert printed["type"].replace("_", "").lower() == type(typed).__name__.lower()
        # Tagged fields with their default are left out by both; what is printed must be ours, and the rest default.
        assert printed["data"] == as_kafka_prints(typed)


def test_kafka_reads_our_transaction_records_field_by_field(tmp_path: Path) -> None:
    """Of both versions, and the tombstone of an id that has expired."""
    records: list[tuple[t.TransactionLogKey, t.VersionedValue | None]] = [
        (t.TransactionLogKey(name), value) for name, (value, _) in TRANSACTIONS.items()
    ]
    records.append((t.TransactionLogKey("gone"), None))
    pairs = [(t.encode_key(key), None if value is None else t.encode_value(value)) for key, value in records]
    (tmp_path / LOG).write_bytes(batch.encode_pairs(pairs, timestamp=T0, leader_epoch=0, base_sequence=0))

    lines = [line for line in dump(tmp_path / LOG, "--transaction-log-decoder") if line.startswith("|")]

    for line, (key, value) in zip(lines, records, strict=True):
        match = re.search(r"key: (\{.*\}) payload: (.*)$", line)
        assert match is not None, line
        assert json.loads(match[1]) == {"type": "0", "data": {"transactionalId": key.transactional_id}}
        if value is None:
            assert match[2] == "<DELETE>"
        else:
            assert json.loads(match[2]) == {"version": str(value.version), "data": as_kafka_prints(value.value)}


def test_kafka_reads_a_batch_whose_producer_wrapped_its_sequence(tmp_path: Path) -> None:
    log = batch.encode_batch(
        [batch.Record(i, T0, b"k", b"v") for i in range(4)],
        leader_epoch=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 2,
    )
    (tmp_path / LOG).write_bytes(log)

    (head, *_) = dump(tmp_path / LOG)

    assert "baseSequence: 2147483646 lastSequence: 1 " in head
