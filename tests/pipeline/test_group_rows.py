"""The kernel for records of `__consumer_offsets`, against the oracle and against golden bytes. No Spark."""

import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings

from pipeline.decode import group_values, schemas
from protocol.records.consumer_protocol import MetadataError, subscription, whole_assignment
from tests.pipeline import histories, oracle
from tests.pipeline.capture import DIRECTORIES, unpack
from tests.pipeline.logs import Log, batches, commit, rows

KEY = bytes.fromhex("000100016700017400000003")
TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def decoded(tmp_path: Path, *pairs: tuple[bytes | None, bytes | None]) -> list[dict[str, Any]]:
    Log(tmp_path, "__consumer_offsets", 0).append(pairs)
    return rows(tmp_path, records="group")


def milliseconds(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: milliseconds(row[name]) for name in schemas.GROUP_RECORDS.names}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories.histories())
def test_every_history_decodes_to_the_rows_of_the_oracle(steps: list[histories.Step]):
    """Every value version, tombstones, generations, KIP-848, odd bytes, codecs, compaction gaps, transactions."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = histories.write(steps, Path(scratch))
        expected = {
            (row["log_partition"], row["log_offset"]): row
            for row in oracle.group_records(oracle.LogDirectory(directory).records(committed=True))
        }
        found = {(row["log_partition"], row["log_offset"]): row for row in rows(directory, records="group")}

    assert found.keys() == expected.keys()
    for place, row in found.items():
        assert comparable(row) == comparable(expected[place])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories.histories(min_size=10))
def test_every_history_decodes_to_the_generations_and_epochs_of_the_oracle(steps: list[histories.Step]):
    """The values of groups of both kinds; Spark alone finds the names of topics, so here there are none."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = histories.write(steps, Path(scratch))
        told = oracle.group_records(oracle.LogDirectory(directory).records(committed=True))
        read = batches(directory, records="group")

    for kernel, kind, expected in (
        (group_values.generation_batch, "group_metadata", oracle.group_generations(told)),
        (group_values.consumer_group_batch, "consumer_group_", oracle.consumer_group_records(told, {})),
    ):
        found = []
        for batch in read:
            chosen = pc.and_(pc.starts_with(batch["record_type"], kind), pc.is_null(batch["problem"]))
            found += [in_milliseconds(row) for row in kernel(batch.filter(chosen)).to_pylist()]
        places = {(row["log_partition"], row["log_offset"]): row for row in found}
        assert len(places) == len(found) == len(expected)
        for row in expected:
            assert places[row["log_partition"], row["log_offset"]] == without_names(row)


def in_milliseconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_milliseconds(one) for name, one in value.items() if name != "topics"}
    return [in_milliseconds(one) for one in value] if isinstance(value, list) else milliseconds(value)


def without_names(row: dict[str, Any]) -> dict[str, Any]:
    lists = {name: row[name] for name in ("partitions", "pending_revocation") if row.get(name)}
    return row | {name: [part | {"topic": None} for part in parts] for name, parts in lists.items()}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_golden_directories_decode_to_the_rows_of_the_oracle(name: str, tmp_path: Path):
    """What Kafka 3.9.2, Kafka 4.3.1 and Kohort wrote."""
    directory, _ = unpack(name, tmp_path)
    expected = oracle.group_records(oracle.LogDirectory(directory).records(committed=True))

    found = rows(directory, records="group")

    assert [comparable(row) for row in found] == [comparable(row) for row in expected]
    assert not [row for row in found if row["problem"]]


def test_columns_are_the_same_whichever_others_are_asked_for(tmp_path: Path):
    """Only what is wanted is made; a text that nobody wants makes its row a problem all the same."""
    unpack("kafka-4.3.1", tmp_path)
    Log(tmp_path, "__consumer_offsets", 7).append([(KEY[:4] + b"\xff" + KEY[5:], None)])
    whole = rows(tmp_path, records="group")

    for name in schemas.GROUP_RECORDS.names:
        assert rows(tmp_path, records="group", columns=name) == [{name: row[name]} for row in whole]
    few = ["tombstone", "problem", "group_id"]
    assert rows(tmp_path, records="group", columns=",".join(few), latestOnly="true") == [
        {name: row[name] for name in few} for row in rows(tmp_path, records="group", latestOnly="true")
    ]


def test_golden_commits_of_version_3_and_1(tmp_path: Path):
    """PL03."""
    value3 = bytes.fromhex("0003000000000000002a0000000500016d0000018bcfe56800")
    value1 = bytes.fromhex("0001000000000000002a00016d0000018bcfe568000000018bd50bc400")

    three, one = decoded(tmp_path, (KEY, value3), (KEY, value1))

    for row in (three, one):
        assert (row["group_id"], row["topic"], row["partition"], row["committed_offset"]) == ("g", "t", 3, 42)
        assert (row["metadata"], row["committed_at"], row["problem"]) == ("m", NOW, None)
    assert (three["leader_epoch"], three["expires_at"], three["value_version"]) == (5, None, 3)
    assert (one["leader_epoch"], one["value_version"]) == (None, 1)
    assert one["expires_at"] == datetime(2023, 11, 15, 22, 13, 20, tzinfo=UTC)


def test_golden_commits_of_version_4(tmp_path: Path):
    """PL04: with a topic id, as a consumer writes it, and without, as a transaction does."""
    value = bytes.fromhex("000400000000000000c80000000001000001a1fd36f3d7010010116059d71678442faf440e03d6c2e9eb")
    plain = bytes.fromhex("0004000000000000002a00000005026d0000018bcfe5680000")

    first, second = decoded(tmp_path, (KEY, value), (KEY, plain))

    assert (first["committed_offset"], first["metadata"], first["leader_epoch"]) == (200, "", 0)
    assert first["topic_id"] == "EWBZ1xZ4RC-vRA4D1sLp6w"
    assert milliseconds(first["committed_at"]) == 1795249599447
    assert (second["committed_offset"], second["metadata"], second["topic_id"]) == (42, "m", None)


def test_mutilated_commits_decode_to_the_rows_of_the_oracle(tmp_path: Path):
    """Whichever road a record takes, through the kernel or by itself, and whatever stands in its bytes."""
    seed = random.Random(1)
    whole = [
        (KEY, bytes.fromhex(value))
        for value in (
            "0004000000000000002a0000000501000001a1fd36f3d7010010116059d71678442faf440e03d6c2e9eb",
            "0004000000000000002a00000005010000018bcfe5680000",
            "0004000000000000002a00000005026d0000018bcfe5680000",
            "0003000000000000002a0000000500000000018bcfe56800",
            "0003000000000000002a0000000500016d0000018bcfe56800",
            "0001000000000000002a00000000018bcfe568000000018bd50bc400",
        )
    ]
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for _ in range(4000):
        key, value = (bytearray(part) for part in seed.choice(whole))
        part = seed.choice((key, value, value, value))
        at = seed.randrange(len(part))
        match seed.randrange(5):
            case 0:
                part[at] ^= 1 << seed.randrange(8)
            case 1:
                part[at] = seed.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            case 2:
                del part[at:]
            case 3:
                part[at:at] = seed.randbytes(seed.randrange(1, 3))
            case _:
                del part[at]
        pairs.append((bytes(key), bytes(value) if seed.random() < 0.95 else None))
    Log(tmp_path, "__consumer_offsets", 0).append(pairs)
    # As numbers: some of these moments are too far away for Python.
    moments = ("logged_at", "committed_at", "expires_at")
    found = []
    for batch in batches(tmp_path, records="group"):
        table = pa.table(batch)
        for name in moments:
            column = pc.cast(table[name], pa.int64())
            table = table.set_column(table.schema.get_field_index(name), name, column)
        found += table.to_pylist()

    expected = oracle.group_records(oracle.LogDirectory(tmp_path).records(committed=True))
    assert len(found) == len(expected) == len(pairs)
    latest_ms = (1 << 63) // 1000 - 1
    for row, told, pair in zip(found, expected, pairs, strict=True):
        for name in moments:
            if told[name] is not None:
                told[name] = min(max(told[name], -latest_ms), latest_ms) * 1000
        if "has the length -" in (row["problem"] or ""):
            continue  # a null where none may be, which the oracle takes for one
        # Where two things are wrong, either may be named.
        row["problem"], told["problem"] = bool(row["problem"]), bool(told["problem"])
        if row["record_type"] == "unknown":
            row["group_id"] = None  # of a key that breaks behind it the group is told; the oracle tells nothing
        assert row == {name: told[name] for name in schemas.GROUP_RECORDS.names}, pair


@pytest.mark.parametrize("text", ["über ✓", "über ✓\0", "x" * 300, "é" * 2048, "y" * 20_000])
def test_metadata_of_any_length(text: str, tmp_path: Path):
    """PL05: lengths of one, two and three bytes; a trailing NUL stays."""
    data = text.encode()
    length, head = len(data) + 1, bytearray()
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    value = b"\x00\x04" + bytes(12) + bytes(head) + data + bytes(9)

    assert [row["metadata"] for row in decoded(tmp_path, (KEY, value))] == [text]


def test_unknown_versions_keep_their_key(tmp_path: Path):
    """PL06."""
    (row,) = decoded(tmp_path, (KEY, b"\x00\x05" + bytes(20)))

    assert (row["record_type"], row["group_id"], row["topic"], row["partition"]) == ("offset_commit", "g", "t", 3)
    assert (row["committed_offset"], row["value_version"]) == (None, 5)
    assert row["problem"] == "unknown value version 5 of offset_commit"
    assert row["key"] == KEY and len(row["value"]) == 22


def test_what_is_no_group_record_is_a_row_all_the_same(tmp_path: Path):
    """PL07: key type 42, no key, a key of one byte."""
    found = decoded(tmp_path, (b"\x00\x2a\x00", b"x"), (None, b"x"), (b"\x00", None))

    assert [row["record_type"] for row in found] == ["unknown"] * 3
    assert [row["problem"] for row in found] == ["unknown type 42", "key too short", "key too short"]
    assert [row["key_type"] for row in found] == [42, None, None]
    assert [row["tombstone"] for row in found] == [False, False, True]


def test_text_that_is_no_utf8_names_its_field(tmp_path: Path):
    good = commit("g", "t", 0, 1)
    group = (b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00", good[1])
    topic = (b"\x00\x01\x00\x01g\x00\x01\xff\x00\x00\x00\x00", good[1])
    metadata = (KEY, b"\x00\x03" + bytes(12) + b"\x00\x01\xff" + bytes(8))

    found = decoded(tmp_path, good, group, topic, metadata, good)

    assert [row["problem"] for row in found] == [
        *(None, "invalid UTF-8 in group", "invalid UTF-8 in topic", "invalid UTF-8 in metadata", None),
    ]
    assert [row["record_type"] for row in found[1:4]] == ["unknown", "unknown", "offset_commit"]
    assert [row["committed_offset"] for row in found] == [1, None, None, None, 1]
    assert found[3]["topic"] == "t" and found[3]["metadata"] is None


def test_unknown_tags_are_skipped(tmp_path: Path):
    """A topic id behind another tag, and a tag nobody knows."""
    head = b"\x00\x04" + (7).to_bytes(8, "big") + bytes(4) + b"\x01" + bytes(8)
    behind = head + b"\x02\x00\x10" + bytes(range(16)) + b"\x05\x02ab"
    alone = head + b"\x01\x07\x01z"
    wrong = head + b"\x01\x00\x02zz"

    found = decoded(tmp_path, (KEY, behind), (KEY, alone), (KEY, wrong), (KEY, head))

    assert [row["topic_id"] for row in found] == [TOPIC_ID, None, None, None]
    assert [row["committed_offset"] for row in found] == [7, 7, None, None]
    assert [row["problem"] for row in found] == [None, None, "topic id of 2 bytes", "truncated at byte 23"]


def test_transactions_show_what_was_committed(tmp_path: Path):
    """PL11: aborted commits are left out, committed ones are not, and nothing is read behind an open transaction."""
    log = Log(tmp_path, "__consumer_offsets", 0)
    three = [commit("g", "t", partition, 1) for partition in range(3)]
    for producer_id, aborted in ((1, True), (2, False)):
        log.append(three, producer_id=producer_id, transactional=True)
        log.marker(producer_id, aborted=aborted)
    log.append([commit("h", "t", 0, 1)])
    log.append(three, producer_id=1, transactional=True)
    log.append([commit("h", "t", 0, 2)])

    offsets = [row["log_offset"] for row in rows(tmp_path, records="group")]
    everything = [row["log_offset"] for row in rows(tmp_path, records="group", isolationLevel="read_uncommitted")]

    assert offsets == [4, 5, 6, 8]
    assert everything == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12]
    log.marker(1, aborted=True)
    assert [row["log_offset"] for row in rows(tmp_path, records="group")] == [4, 5, 6, 8, 12]


def test_transactions_of_closed_segments_come_from_their_index(tmp_path: Path):
    """PL11, with the abort in a closed segment and a transaction open across the roll."""
    log = Log(tmp_path, "__consumer_offsets", 0)
    three = [commit("g", "t", partition, 1) for partition in range(3)]
    log.append(three, producer_id=1, transactional=True)
    log.marker(1, aborted=True)
    log.append(three, producer_id=2, transactional=True)
    log.roll()
    log.append([commit("h", "t", 0, 2)])
    log.marker(2, aborted=True)

    assert [row["log_offset"] for row in rows(tmp_path, records="group")] == [7]


def test_latest_only_keeps_what_state_needs(tmp_path: Path):
    pairs = [commit("g", "t", number % 3, number) for number in range(30)]
    found = decoded(tmp_path, *pairs, (KEY, None), (b"\x00\x2a", None))
    latest = rows(tmp_path, records="group", latestOnly="true")

    assert [row["log_offset"] for row in latest] == [27, 28, 29, 30, 31]
    assert len(found) == 32


def test_members_and_their_assignments():
    """A classic generation, with what members told each other; Connect's bytes are not touched."""
    value = bytes.fromhex(
        "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff000163000a2f3132"
        "372e302e302e31000493e00000afc800000001010000000102"
    )
    batch = pa.RecordBatch.from_pylist(
        [
            {"log_partition": 0, "log_offset": 5, "logged_at": NOW, "group_id": "g", "value": value},
            {"log_partition": 0, "log_offset": 6, "logged_at": NOW, "group_id": "g", "value": None},
            {"log_partition": 0, "log_offset": 7, "logged_at": NOW, "group_id": "g",
             "value": value.replace(b"\x00\x08consumer", b"\x00\x07connect")},
        ]
    )  # fmt: skip
    first, second, third = group_values.generation_batch(batch).to_pylist()

    assert (first["generation"], first["protocol"], first["leader"], first["state"]) == (1, "range", "c-1", "Stable")
    assert first["members"][0]["undecoded"] == "subscription: truncated at byte 1; assignment: truncated at byte 1"
    assert (second["tombstone"], second["state"], second["members"]) == (True, "Removed", [])
    assert third["members"][0]["undecoded"] == "protocol type connect"
    assert third["members"][0]["assigned"] is None


def test_subscriptions_of_every_version():
    topics = b"\x00\x00\x00\x01\x00\x01t" + b"\xff\xff\xff\xff"
    owned = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02" + (0).to_bytes(4, "big") + (7).to_bytes(4, "big")

    assert subscription(b"\x00\x00" + topics).owned is None
    assert subscription(b"\x00\x01" + topics + owned).owned == [("t", 0), ("t", 7)]
    third = subscription(b"\x00\x09" + topics + owned + (4).to_bytes(4, "big") + b"\x00\x02r1" + b"later")
    assert (third.topics, third.generation, third.rack_id) == (["t"], 4, "r1")
    assert whole_assignment(b"").partitions == []
    with pytest.raises(MetadataError, match="array of 2147483647"):
        subscription(b"\x00\x00\x7f\xff\xff\xff")


def test_the_arrow_batches_are_valid(tmp_path: Path):
    """Spark lays them over the JVM's memory unlooked: wrong offsets would be read as they are."""
    log = Log(tmp_path, "__consumer_offsets", 0)
    log.append([commit("g", "t", 3, 42, version, "m") for version in range(5)] + [(None, b"x"), (KEY, None)])

    for batch in batches(tmp_path, records="group", includeSource="true"):
        batch.validate(full=True)
        assert batch.schema.names == [*schemas.GROUP_RECORDS.names, *schemas.GROUP_SOURCE.names]
