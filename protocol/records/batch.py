"""Record batch v2: everything about it under one name.

A batch is checked once, where it comes in (`verify`, then `validate_records` for clients' batches), stored as
it is but for what `stamp` writes, and read back whole.

Layout: 61 bytes of header (`BatchHeader`), then the records, compressed as one block when the attributes say
so.
Source: Kafka's DefaultRecordBatch.
"""

from protocol.records.batch_encoder import encode_batch, encode_pairs, encoded_pair_bytes
from protocol.records.batch_header import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    check_header,
    iterate_headers,
    read_header,
    stamp,
    stamp_create_time,
    stamp_log_append_time,
    verify,
    verify_crc,
)
from protocol.records.batch_reader import (
    Record,
    iterate_keys_values,
    iterate_records,
    open_records,
    read_keys_values,
)
from protocol.records.batch_validation import RecordFacts, validate_records
from protocol.records.compression import DECOMPRESSED_LIMIT_BYTES, Compression
from protocol.records.errors import (
    CorruptBatch,
    CorruptStream,
    DecompressedTooLarge,
    InvalidRecord,
    UnsupportedCompression,
    UnsupportedMagic,
)

__all__ = [
    "CONTROL",
    "DECOMPRESSED_LIMIT_BYTES",
    "DELETE_HORIZON",
    "HEADER_BYTES",
    "LENGTH_BYTES",
    "LOG_APPEND_TIME",
    "MAGIC",
    "TRANSACTIONAL",
    "BatchHeader",
    "Compression",
    "CorruptBatch",
    "CorruptStream",
    "DecompressedTooLarge",
    "InvalidRecord",
    "Record",
    "RecordFacts",
    "UnsupportedCompression",
    "UnsupportedMagic",
    "check_header",
    "encode_batch",
    "encode_pairs",
    "encoded_pair_bytes",
    "iterate_headers",
    "iterate_keys_values",
    "iterate_records",
    "open_records",
    "read_header",
    "read_keys_values",
    "stamp",
    "stamp_create_time",
    "stamp_log_append_time",
    "validate_records",
    "verify",
    "verify_crc",
]
