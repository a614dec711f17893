"""What can be wrong with records. Each error carries the wire code that a producer would be answered."""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError


class CorruptBatch(KafkaError):
    """The bytes are no whole, intact record batch: sizes, CRC or the inside disagree."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnsupportedMagic(CorruptBatch):
    """A batch, or message set, of another format than magic 2."""

    code = ErrorCode.INVALID_RECORD

    def __init__(self, magic: int) -> None:
        super().__init__(f"record batch has magic {magic}, only 2 is supported")
        self.magic = magic


class CorruptStream(CorruptBatch):
    """Its codec cannot read what is said to be compressed records. The code is what Kafka answers a producer."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnsupportedCompression(CorruptBatch):
    """The attributes name a codec that does not exist."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class DecompressedTooLarge(CorruptBatch):
    """The compressed records grow beyond the limit that the caller set: a bomb, or far too large a batch."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"records decompress to more than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class InvalidRecord(KafkaError):
    """An intact batch breaks a rule; `record_index` is the first offending record, -1 for the batch as a
    whole.
    """

    code = ErrorCode.INVALID_RECORD

    def __init__(self, message: str, record_index: int = -1) -> None:
        super().__init__(message)
        self.record_index = record_index


class UnparsableRecord(KafkaError):
    """A record of a type that is known has a key or a value that cannot be read: its log cannot be loaded."""

    code = ErrorCode.CORRUPT_MESSAGE
