"""The records of `__transaction_state`: one key for each transactional id, its value the state of its transaction.

Source: Kafka's TransactionLogKey.json, TransactionLogValue.json, TransactionLog.
"""

from __future__ import annotations

import struct as fixed
from typing import NamedTuple

from protocol.errors import EncodeError, ProtocolError
from protocol.records.errors import UnparsableRecord
from protocol.schema import Array, Int8, Int16, Int32, Int64, Message, Nullable, String, Struct, field, message, struct

KEY_VERSION = 0
NEWEST_VALUE = 1


class TransactionLogKey(NamedTuple):
    """A transactional id."""

    transactional_id: str
    record_type: int = KEY_VERSION


class UnknownTransactionKey(NamedTuple):
    """A record to be skipped: nobody has defined its type."""

    record_type: int


@struct
class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic: str = field(String)
    partition_ids: list[int] = field(Array(Int32))


@message(versions=(0, 1), flexible_from=1)
class TransactionLogValue(Message):
    """Times in ms since the epoch; the start is -1 while no transaction has begun, and kept when it has ended.

    `transaction_partitions` is null in Empty, and empty in the Complete states. Version 1 came with KIP-890. It has
    room for a second producer id, since an epoch that reaches its end goes on with another id.
    """

    producer_id: int = field(Int64)
    previous_producer_id: int = field(Int64, since=1, default=-1, tag=0)  # that the state before this one had
    next_producer_id: int = field(Int64, since=1, default=-1, tag=1)  # of the transaction after this one, if another
    producer_epoch: int = field(Int16)
    next_producer_epoch: int = field(Int16, since=1, default=-1, tag=3)  # nobody writes it yet
    transaction_timeout_ms: int = field(Int32)
    transaction_status: int = field(Int8)
    transaction_partitions: list[PartitionsSchema] | None = field(Nullable(Array(PartitionsSchema)), default=None)
    transaction_last_update_timestamp_ms: int = field(Int64)
    transaction_start_timestamp_ms: int = field(Int64, default=-1)
    client_transaction_version: int = field(Int16, since=1, tag=2)


class VersionedValue(NamedTuple):
    """A value and the version to write it in: 0 where the feature `transaction.version` is 0, else 1."""

    version: int
    value: TransactionLogValue


def encode_key(key: TransactionLogKey) -> bytes:
    """The bytes of a key: int16 type, then the id. Raises: EncodeError on an id over 32,767 bytes."""
    data = key.transactional_id.encode()
    if len(data) > 0x7FFF:
        raise EncodeError(f"a transactional id of {len(data)} bytes is longer than a record can hold")
    return _HEAD.pack(key.record_type, len(data)) + data


def decode_key(data: bytes | None) -> TransactionLogKey | UnknownTransactionKey:
    """The typed key. Raises: UnparsableRecord when there is none, or it is cut off."""
    if data is None or len(data) < 2:
        raise UnparsableRecord("a transaction record has no key type")
    try:
        (record_type,) = _INT16.unpack_from(data)
        if record_type != KEY_VERSION:
            return UnknownTransactionKey(record_type)
        _, length = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        if length < 0 or end > len(data):
            raise UnparsableRecord(f"a transactional id of {length} bytes passes the end of its key")
        return TransactionLogKey(data[_HEAD.size : end].decode())
    except (fixed.error, UnicodeDecodeError) as error:
        raise UnparsableRecord(f"the key of a transaction record cannot be read: {error}") from error


def encode_value(value: VersionedValue) -> bytes:
    """The bytes of a value: int16 version, then its fields. Raises: EncodeError when a field does not fit."""
    version, content = value
    return _INT16.pack(version) + content.encode(version)


def decode_value(data: bytes | None) -> VersionedValue | None:
    """The value; None for a tombstone, that is, for a transactional id that has expired.

    Raises: UnparsableRecord, of the kind `UnknownValueVersion` when only its version is not known.
    """
    if data is None:
        return None
    try:
        (version,) = _INT16.unpack_from(data)
        if not 0 <= version <= NEWEST_VALUE:
            raise UnknownValueVersion(version)
        # What lies behind the last field is not looked at, as in Kafka.
        value, _ = TransactionLogValue.decoder(version)(data, 2)
    except (IndexError, fixed.error, UnicodeDecodeError, ProtocolError) as error:
        raise UnparsableRecord(f"the value of a transaction record cannot be read: {error}") from error
    return VersionedValue(version, value)


class UnknownValueVersion(UnparsableRecord):
    """A value of a version that is newer than this program."""

    def __init__(self, version: int) -> None:
        super().__init__(f"a transaction record has value version {version}, known are 0-{NEWEST_VALUE}")
        self.version = version


_INT16 = fixed.Struct(">h")
_HEAD = fixed.Struct(">hh")
