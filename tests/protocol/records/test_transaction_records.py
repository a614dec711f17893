"""Keys and values of `__transaction_state` against bytes that Kafka wrote, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import EncodeError, ProtocolError
from protocol.records import transaction_records as t
from protocol.records.errors import UnparsableRecord

MINUTE = 60_000


def value(version: int, producer_id: int, epoch: int, status: int, updated: int, start: int, **more: object):
    return t.VersionedValue(
        version,
        t.TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=MINUTE,
            transaction_status=status,
            transaction_last_update_timestamp_ms=updated,
            transaction_start_timestamp_ms=start,
            **more,
        ),
    )


def on(topic: str, *partitions: int) -> list[t.PartitionsSchema]:
    return [t.PartitionsSchema(topic=topic, partition_ids=list(partitions))]


# Captured from a Kafka 4.3.1 broker's files.
GOLDEN: dict[str, tuple[t.VersionedValue, str]] = {
    "empty v1": (
        value(1, 5, 0, 0, 0x1A1FD6F5776, -1, previous_producer_id=5),
        "0001 0000000000000005 0000 0000ea60 00 00 000001a1fd6f5776 ffffffffffffffff 01 00 08 0000000000000005",
    ),
    "ongoing, TV2": (
        value(
            1,
            5,
            2,
            1,
            0x1A1FD6F5852,
            0x1A1FD6F5852,
            previous_producer_id=5,
            client_transaction_version=2,
            transaction_partitions=on("t1", 1),
        ),
        "0001 0000000000000005 0002 0000ea60 01 02 03 7431 02 00000001 00 000001a1fd6f5852 000001a1fd6f5852 02 00 08"
        "0000000000000005 02 02 0002",
    ),
    "ongoing, a client of TV0 on a cluster of TV2": (
        value(
            1,
            4,
            0,
            1,
            0x1A1FD6E4D3D,
            0x1A1FD6E4D39,
            previous_producer_id=4,
            transaction_partitions=on("t1", 1, 0),
        ),
        "0001 0000000000000004 0000 0000ea60 01 02 03 7431 03 00000001 00000000 00 000001a1fd6e4d3d 000001a1fd6e4d39 01"
        "00 08 0000000000000004",
    ),
    "prepare commit, TV2": (
        value(
            1,
            5,
            4,
            2,
            0x1A1FD6F592E,
            0x1A1FD6F592C,
            previous_producer_id=5,
            client_transaction_version=2,
            transaction_partitions=on("t1", 1),
        ),
        "0001 0000000000000005 0004 0000ea60 02 02 03 7431 02 00000001 00 000001a1fd6f592e 000001a1fd6f592c 02 00 08"
        "0000000000000005 02 02 0002",
    ),
    "complete commit, TV2": (
        value(
            1,
            5,
            4,
            4,
            0x1A1FD6F592E,
            0x1A1FD6F592C,
            previous_producer_id=5,
            client_transaction_version=2,
            transaction_partitions=[],
        ),
        "0001 0000000000000005 0004 0000ea60 04 01 000001a1fd6f592e 000001a1fd6f592c 02 00 08 0000000000000005 02 02"
        "0002",
    ),
    "prepare abort, TV2, nothing added": (
        value(
            1,
            5,
            1,
            3,
            0x1A1FD6F577B,
            0x1A1FD6F577B,
            previous_producer_id=5,
            client_transaction_version=2,
            transaction_partitions=[],
        ),
        "0001 0000000000000005 0001 0000ea60 03 01 000001a1fd6f577b 000001a1fd6f577b 02 00 08 0000000000000005 02 02"
        "0002",
    ),
    "prepare commit, epoch exhausted": (
        value(
            1,
            6,
            32767,
            2,
            0x1A1FD70E024,
            0x1A1FD70E01F,
            previous_producer_id=6,
            next_producer_id=10,
            client_transaction_version=2,
            transaction_partitions=on("t2", 0),
        ),
        "0001 0000000000000006 7fff 0000ea60 02 02 03 7432 02 00000000 00 000001a1fd70e024 000001a1fd70e01f 03 00 08"
        "0000000000000006 01 08 000000000000000a 02 02 0002",
    ),
    "complete commit with the next id": (
        value(
            1,
            10,
            0,
            4,
            0x1A1FD70E024,
            0x1A1FD70E01F,
            previous_producer_id=6,
            client_transaction_version=2,
            transaction_partitions=[],
        ),
        "0001 000000000000000a 0000 0000ea60 04 01 000001a1fd70e024 000001a1fd70e01f 02 00 08 0000000000000006 02 02"
        "0002",
    ),
    "empty v0": (
        value(0, 2001, 2, 0, 0x1A1FD76E44F, -1),
        "0000 00000000000007d1 0002 0000ea60 00 ffffffff 000001a1fd76e44f ffffffffffffffff",
    ),
    "ongoing v0": (
        value(0, 2001, 2, 1, 0x1A1FD76E452, 0x1A1FD76E452, transaction_partitions=on("t1", 0)),
        "0000 00000000000007d1 0002 0000ea60 01 00000001 0002 7431 00000001 00000000 000001a1fd76e452 000001a1fd76e452",
    ),
    "complete commit v0": (
        value(0, 2001, 2, 4, 0x1A1FD76E459, 0x1A1FD76E452, transaction_partitions=[]),
        "0000 00000000000007d1 0002 0000ea60 04 00000000 000001a1fd76e459 000001a1fd76e452",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_values_are_written_and_read_as_kafka_does(name: str) -> None:
    """Both ways, both versions."""
    expected, text = GOLDEN[name]
    data = bytes.fromhex(text)

    assert t.encode_value(expected) == data
    assert t.decode_value(data) == expected


def test_a_key_is_a_type_and_the_transactional_id() -> None:
    """Never flexible, whatever the version of the value."""
    data = bytes.fromhex("0000 0005 74782d7632")

    assert t.encode_key(t.TransactionLogKey("tx-v2")) == data
    assert t.decode_key(data) == t.TransactionLogKey("tx-v2")


def test_a_null_value_is_the_tombstone_of_an_expired_id() -> None:
    assert t.decode_value(None) is None


def test_a_key_of_another_type_is_told_apart() -> None:
    """Whoever loads a log skips it, as Kafka does."""
    assert t.decode_key(b"\x00\x01\x00\x00") == t.UnknownTransactionKey(1)


@pytest.mark.parametrize(
    "data", [None, b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x05abcd", b"\x00\x00\xff\xff", b"\0\0\0\1\xff"]
)
def test_a_key_that_is_none_is_refused(data: bytes | None) -> None:
    with pytest.raises(UnparsableRecord):
        t.decode_key(data)


def test_a_value_of_an_unknown_version_says_so() -> None:
    """It may be skipped; a value that is cut off may not."""
    with pytest.raises(t.UnknownValueVersion, match="version 2, known are 0-1"):
        t.decode_value(b"\x00\x02" + bytes(40))


@given(st.sampled_from([text for _, text in GOLDEN.values()]), st.data())
def test_a_value_that_is_cut_off_is_refused(text: str, data: st.DataObject) -> None:
    """Never another error, never half a value."""
    whole = bytes.fromhex(text)
    end = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(UnparsableRecord):
        t.decode_value(whole[:end])


@given(st.binary(max_size=120))
def test_any_bytes_give_a_record_or_an_error(data: bytes) -> None:
    for decode in (t.decode_key, t.decode_value):
        try:
            decode(data)
        except ProtocolError as error:  # pragma: no cover - the assertion is the point
            raise AssertionError("not translated") from error
        except UnparsableRecord:
            pass


def test_an_id_that_no_record_can_hold_is_refused_by_name() -> None:
    """Flexible requests can carry longer strings than a key."""
    with pytest.raises(EncodeError, match="40000 bytes"):
        t.encode_key(t.TransactionLogKey("x" * 40_000))
