"""What a produced batch must be before it may touch a log, and what the broker writes into it.

Every record is looked at, decompressed if need be, as Kafka does: what no consumer could read must not get into a log.
What takes long is for a worker thread (`broker.partitions.checks`): see docs/decisions/looking-into-batches.md.

Source: Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.partitions.errors import RecordsRefused
from broker.partitions.settings import ANY_RECORD_BYTES
from protocol.errors import ErrorCode
from protocol.records.batch import (
    DECOMPRESSED_LIMIT_BYTES,
    BatchHeader,
    encode_batch,
    iterate_records,
    read_header,
    stamp_create_time,
    stamp_log_append_time,
    verify_crc,
)
from protocol.records.batch_validation import walk_records
from protocol.records.compression import decompress_uncopied
from protocol.records.varint import decode_varint
from storage.reading.batches import Parted
from storage.state.log_config import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.partitions.settings import PartitionSettings
    from protocol.records.batch import Record
    from protocol.records.compression import Buffer

_HEADER_BYTES = 61
_CONTROL, _TRANSACTIONAL, _LOG_APPEND_TIME, CODEC = 0x20, 0x10, 0x08, 0x07
_ZSTD = 4

# What may be looked into on the loop: half a millisecond's walk, and what is decompressed in less than that.
_SHORT_RECORDS = 800
SURELY_SHORT_BYTES = _HEADER_BYTES + 7 * _SHORT_RECORDS
"""What is not compressed and shorter than this never takes long: no record is smaller than seven bytes."""
_SHORT_COMPRESSED_BYTES = 65_536
_SHORT_UNCOMPRESSED_BYTES = 2 * 1024 * 1024
SHORT_DECOMPRESSED_BYTES = 512 * 1024
"""What `prepare` may decompress on the loop; a batch that turns out to hold more has to be looked into elsewhere."""

_STAYS_BYTES = 65_536
"""What is larger need not be copied."""
_SURROUNDED_BYTES = 4_096
"""So much may lie around it in the request, all of which stays in memory as long as the batch does."""
_LONG_RECORD_BYTES = 4_096
"""Where records are shorter, walking through them where they are costs more than a copy: each look at a byte of a
`memoryview` does.
"""

Prepared = tuple["bytearray | Parted", "BatchHeader", int]
Refusals = list[tuple[int, str]]


def takes_long(records: bytes | bytearray | memoryview | None, settings: PartitionSettings) -> bool:
    """Whether looking into a batch would hold the loop up, as far as its header shows."""
    if records is None or not _HEADER_BYTES <= len(records) <= settings.max_message_bytes:
        return False  # refused at a glance
    if len(records) < SURELY_SHORT_BYTES and not records[22] & CODEC:
        return False
    compressed = records[22] & CODEC or settings.compression_codec > 0
    if compressed and settings.trusted:
        return len(records) > _SHORT_UNCOMPRESSED_BYTES
    if int.from_bytes(records[57:61], "big") > _SHORT_RECORDS:
        return True
    return len(records) > (_SHORT_COMPRESSED_BYTES if compressed else _SHORT_UNCOMPRESSED_BYTES)


def prepare(
    records: bytes | bytearray | memoryview | None,
    settings: PartitionSettings,
    now_ms: int,
    version: int,
    where: str,
    limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
) -> Prepared:
    """The batch that may be appended, its header, and the time stamped on it (ms, -1 when the producer's times stay).

    `version` is that of the Produce request, `where` names the partition in messages. Copies `records` once, or not at
    all where they may stay in the request. Pure, so that any thread may call it.
    Raises: KafkaError with the code to answer; a `RecordsRefused` may name records. DecompressedTooLarge beyond
    `limit_bytes`.
    """
    size = 0 if records is None else len(records)
    if size < _HEADER_BYTES:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have at least one record batch per partition",
        )
    assert records is not None
    header = read_header(records)
    _check_shape(header, size, version, where)
    if size > settings.max_message_bytes:
        raise _too_large(size, settings, where)  # before it is copied: who refuses much must not hold it twice
    codec = header.attributes & CODEC
    stays = _may_stay(records, header, settings)
    batch = records if stays else bytearray(records)
    verify_crc(batch, header)
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] for a count of {count} records",
        )
    if header.attributes & _CONTROL:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    target = settings.compression_codec
    recompress = target >= 0 and target != codec
    if codec and settings.trusted:
        oldest = max_timestamp = header.max_timestamp
    else:
        walked = batch
        at = _HEADER_BYTES
        if codec:
            walked, at = decompress_uncopied(codec, memoryview(batch)[_HEADER_BYTES:], limit_bytes), 0
        newest_delta, _, oldest_delta, first_keyless = walk_records(walked, at, len(walked), count)
        if codec and settings.max_decompressed_message_bytes < ANY_RECORD_BYTES:
            _check_sizes(walked, count, settings.max_decompressed_message_bytes)
        if first_keyless >= 0 and settings.log.compact:
            raise _keyless(batch, where)
        max_timestamp = header.base_timestamp + newest_delta
        oldest = header.base_timestamp + oldest_delta
        del walked
    if header.attributes & _LOG_APPEND_TIME:
        _check_stamped(header, settings)
        oldest = max_timestamp = header.max_timestamp
    if not settings.log_append_time:
        _check_timestamps(batch, settings, now_ms, oldest, max_timestamp)
    if stays and max_timestamp == header.max_timestamp and not header.attributes & _LOG_APPEND_TIME:
        return Parted(bytearray(batch[:_HEADER_BYTES]), memoryview(batch)[_HEADER_BYTES:]), header, -1
    if not isinstance(batch, bytearray):
        batch = bytearray(batch)
    if recompress:
        batch = _recompress(batch, header, target, settings.compression_level)
        if len(batch) > settings.max_message_bytes:
            raise _too_large(len(batch), settings, where)
    if settings.log_append_time:
        stamp_log_append_time(batch, now_ms)
        return batch, header, now_ms
    if max_timestamp != header.max_timestamp or header.attributes & _LOG_APPEND_TIME:
        # Time look-ups believe the header; Kafka mends it too.
        stamp_create_time(batch, max_timestamp)
    return batch, header, -1


def _may_stay(records: bytes | bytearray | memoryview, header: BatchHeader, settings: PartitionSettings) -> bool:
    """Whether a batch need not be copied to be kept, if nothing but its header is written to."""
    if len(records) <= _STAYS_BYTES or not isinstance(records, memoryview) or settings.log_append_time:
        return False
    frame, codec, target = records.obj, header.attributes & CODEC, settings.compression_codec
    return (
        type(frame) is bytes
        and len(frame) - len(records) <= _SURROUNDED_BYTES
        and target in (-1, codec)
        and (codec != 0 or len(records) > _LONG_RECORD_BYTES * header.record_count)
    )


def _check_shape(header: BatchHeader, size: int, version: int, where: str) -> None:
    if header.magic != 2:
        if not 0 <= header.magic <= 2:
            raise RecordsRefused(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {header.magic}")
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2",
        )
    if header.size_bytes < _HEADER_BYTES:
        raise RecordsRefused(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record batch is corrupted (the size {header.size_bytes} is smaller than the minimum allowed overhead "
            f"{_HEADER_BYTES})",
        )
    if header.size_bytes > size:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} must have at least one record batch per partition; "
            f"{header.size_bytes} bytes are announced, {size} are there",
        )
    codec = header.attributes & CODEC
    if codec == _ZSTD and version < 7:
        raise RecordsRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if codec > _ZSTD:
        raise RecordsRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}")
    if header.size_bytes < size:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
            "partition",
        )
    if header.base_offset != 0:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {where} should be 0, but it is {header.base_offset}",
        )


def _check_sizes(decompressed: Buffer, count: int, limit_bytes: int) -> None:
    at = 0
    for _ in range(count):
        size, at = decode_varint(decompressed, at)
        if size > limit_bytes:
            raise RecordsRefused(
                ErrorCode.INVALID_RECORD,
                f"A record of {size} bytes exceeds max.decompressed.message.bytes, {limit_bytes} bytes",
            )
        at += size


def _check_stamped(header: BatchHeader, settings: PartitionSettings) -> None:
    """Refuse a batch whose producer calls its time that of the broker.

    Where producers' times count, each record has the batch's max timestamp then, and it is refused if that is none.
    Source: Kafka's LogValidator.validateTimestamp.
    """
    if settings.log_append_time or header.max_timestamp == -1:
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            "Invalid timestamp type in message: the producer should not set timestamp type to LogAppendTime.",
            [(0, "Producer should not set timestamp type to LogAppendTime.")],
        )


def _check_timestamps(data: Buffer, settings: PartitionSettings, now_ms: int, oldest: int, newest: int) -> None:
    lowest = now_ms - settings.timestamp_before_max_ms
    highest = min(now_ms + settings.timestamp_after_max_ms, INT64_MAX)  # a delta can lead beyond what fits a header
    # -1 is "no timestamp", which no limit applies to; it can hide others, so the records decide.
    if newest <= highest and (oldest >= lowest or lowest <= -1):
        return

    def out_of_range(record: Record) -> str | None:
        if record.timestamp == -1 or lowest <= record.timestamp <= highest:
            return None
        return (
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{lowest}, {highest}]"
        )

    errors = _failing(data, out_of_range)
    if errors:
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", errors
        )


def _keyless(data: Buffer, where: str) -> RecordsRefused:
    def has_no_key(record: Record) -> str | None:
        return (
            f"Compacted topic cannot accept message without key in topic partition {where}."
            if record.key is None
            else None
        )

    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        "One or more records have been rejected",
        _failing(data, has_no_key),
    )


def _failing(data: Buffer, why: Callable[[Record], str | None]) -> Refusals:
    found: Refusals = []
    for index, record in enumerate(iterate_records(data)):
        reason = why(record)
        if reason is not None:
            found.append((index, reason))
    return found


def _too_large(size: int, settings: PartitionSettings, where: str) -> RecordsRefused:
    return RecordsRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {where} is {size} bytes which exceeds the maximum configured value "
        f"of {settings.max_message_bytes}.",
    )


def _recompress(data: bytearray, header: BatchHeader, codec: int, level: int | None) -> bytearray:
    return encode_batch(
        iterate_records(data),
        compression=codec,
        compression_level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
