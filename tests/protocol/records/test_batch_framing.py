"""The cheap look into a batch says what the thorough one says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import Record, encode_batch, read_header, validate_records
from protocol.records.batch_framing import check_framing
from protocol.records.errors import CorruptBatch, InvalidRecord

_TIMES = st.integers(min_value=0, max_value=2**50)
_DATA = st.one_of(st.none(), st.binary(max_size=200))
_RECORDS = st.lists(st.tuples(_TIMES, _DATA, _DATA), min_size=1, max_size=150)


def batch(records: list[tuple[int, bytes | None, bytes | None]]) -> bytes:
    return bytes(encode_batch([Record(at, time, key, value) for at, (time, key, value) in enumerate(records)]))


@given(_RECORDS)
def test_a_good_batch_passes_with_its_largest_timestamp(records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    """Negative deltas (records earlier than the first) included."""
    data = batch(records)
    assert check_framing(data, read_header(data)) == validate_records(data).max_timestamp


@given(_RECORDS, st.integers(min_value=61), st.integers(min_value=0, max_value=255))
def test_a_changed_byte_is_noticed_or_harmless(
    records: list[tuple[int, bytes | None, bytes | None]], at: int, value: int
) -> None:
    """Whatever the bytes are: an answer or one of two errors, and never a record beyond the batch."""
    data = bytearray(batch(records))
    data[61 + at % (len(data) - 61)] = value
    try:
        check_framing(bytes(data), read_header(data))
    except (CorruptBatch, InvalidRecord):
        with pytest.raises((CorruptBatch, InvalidRecord)):
            validate_records(bytes(data))


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_a_batch_that_ends_early_is_corrupt(cut: int) -> None:
    data = batch([(5, b"k", b"v"), (6, b"k", b"v")])[:-cut]
    with pytest.raises(CorruptBatch):
        check_framing(data, read_header(data))


def test_bytes_after_the_last_record_are_corrupt() -> None:
    data = batch([(5, b"k", b"v")]) + b"\0"
    with pytest.raises(CorruptBatch):
        check_framing(data, read_header(data))


def test_offsets_must_count_from_zero() -> None:
    data = bytes(encode_batch([Record(0, 5, None, b"a"), Record(2, 5, None, b"b")], last_offset=1))
    with pytest.raises(InvalidRecord):
        check_framing(data, read_header(data))
