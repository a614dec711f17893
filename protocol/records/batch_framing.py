"""The cheap look into an uncompressed batch: are its records where the header says, and how late is the latest?

`validate_records` looks at every field; this looks at the three that a log depends on (length, timestamp, offset) and
skips the rest of each record, for a quarter of the time. Nothing is copied when `data` is `bytes`.

Source: Kafka's LogValidator.assignOffsetsNonCompressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.records.batch_header import HEADER_BYTES
from protocol.records.errors import CorruptBatch, InvalidRecord
from protocol.records.varint import decode_uvarint

if TYPE_CHECKING:
    from protocol.records.batch_header import BatchHeader

_SMALLEST_RECORD_BYTES = 6  # attributes, and five fields of one byte


def check_framing(data: bytes, header: BatchHeader) -> int:
    """Walk the records of the uncompressed batch that `data` holds; return the largest record timestamp (ms).

    `header` is that of `data`, checked and with a count above 0. Raises: InvalidRecord when offset deltas are not 0, 1,
    ... in order; CorruptBatch when the records do not fill the batch exactly.
    """
    end = len(data)
    at = HEADER_BYTES
    latest = 0  # largest zig-zag timestamp delta that is not negative
    all_negative: int | None = None  # else the largest of the negative ones
    none_positive = True
    expected = 0
    try:
        # Fields of one and two bytes are read in place: nearly all are, and a call costs as much as all the rest.
        for _ in range(header.record_count):
            size = data[at]
            at += 1
            if size >= 0x80:
                following = data[at]
                if following < 0x80:
                    size = size & 0x7F | following << 7
                    at += 1
                else:
                    size, at = decode_uvarint(data, at - 1)
            record_end = at + (size >> 1)
            if size & 1 or record_end > end or size >> 1 < _SMALLEST_RECORD_BYTES:
                raise CorruptBatch(f"record {expected >> 1} does not fit its batch")
            at += 1
            delta = data[at]
            at += 1
            if delta >= 0x80:
                following = data[at]
                if following < 0x80:
                    delta = delta & 0x7F | following << 7
                    at += 1
                else:
                    delta, at = decode_uvarint(data, at - 1)
            if delta & 1:
                negative = -(delta >> 1) - 1
                if all_negative is None or negative > all_negative:
                    all_negative = negative
            else:
                none_positive = False
                latest = max(latest, delta)
            delta = data[at]
            at += 1
            if delta >= 0x80:
                following = data[at]
                if following < 0x80:
                    delta = delta & 0x7F | following << 7
                    at += 1
                else:
                    delta, at = decode_uvarint(data, at - 1)
            if delta != expected:
                index = expected >> 1
                raise InvalidRecord(f"Record {index} does not have the offset delta {index}", index)
            if at >= record_end:
                raise CorruptBatch(f"record {expected >> 1} is shorter than its fields")
            expected += 2
            at = record_end
    except IndexError:
        raise CorruptBatch("a record is cut off") from None
    if at != end:
        raise CorruptBatch(f"{end - at} bytes are left after the last record")
    if none_positive and all_negative is not None:
        return header.base_timestamp + all_negative
    return header.base_timestamp + (latest >> 1)
