"""Keys and values of records as things to print: decoded where the topic says how, else as text or base64.

Source: Kafka's DumpLogSegments.
"""

from __future__ import annotations

import base64
import contextlib
import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from broker.catalogue.cluster_state import BROKER_RESOURCE
from broker.config.listener_keys import base_of, is_of_listener
from broker.config.settings import Settings
from broker.config.settings_ignored import DYNAMIC, has_no_effect
from protocol.errors import ProtocolError
from protocol.records import transaction_records
from protocol.records.consumer_protocol import MetadataError, assigned_partitions, subscribed_topics
from protocol.records.control_records import control_type, decode_control_value
from protocol.records.errors import UnparsableRecord
from protocol.records.group_records import GroupMetadataValue, UnknownKey, decode_key, decode_value
from protocol.records.metadata_records import ConfigRecord, MetadataRecordError, decode_frame
from protocol.schema import Struct
from protocol.types import uuid_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.records.batch import Record

Decoded = dict[str, Any]

_IDS = ("id", "dirs", "directories")  # how the names of fields end that hold uuids
_SECRETS = frozenset({"salt", "stored_key", "server_key"})  # of a user's password
_NOT_SHOWN = "(not shown)"


class Undecodable(Exception):
    """A record is not what its topic says; the message says how."""


def decoder_of(topic: str) -> Callable[[Record], Decoded]:
    """How the records of a topic are printed: a function from a record to `key` and `value`, or what stands for them.

    It raises `Undecodable`.
    """
    if topic == "__consumer_offsets":
        return group_record
    if topic == "__cluster_metadata":
        return metadata_record
    if topic == "__transaction_state":
        return transaction_record
    return plain_record


def group_record(record: Record) -> Decoded:
    """A record of `__consumer_offsets`. Raises: Undecodable."""
    try:
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            return {"type": "Unknown", "record_type": key.record_type, **plain_record(record)}
        value = None if record.value is None else decode_value(key, record.value)
    except UnparsableRecord as error:
        raise Undecodable(str(error)) from None
    found = as_json(value)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        for member, shown in zip(value.members, found["members"], strict=True):
            with contextlib.suppress(MetadataError):
                shown["subscription"] = subscribed_topics(member.subscription)
            with contextlib.suppress(MetadataError):
                owned: dict[str, list[int]] = {}
                for topic, partition in sorted(assigned_partitions(member.assignment)):
                    owned.setdefault(topic, []).append(partition)
                shown["assignment"] = owned
    return {"type": type(key).__name__.removesuffix("Key"), "key": as_json(key), "value": found}


def transaction_record(record: Record) -> Decoded:
    """A record of `__transaction_state`. Raises: Undecodable."""
    try:
        key = transaction_records.decode_key(record.key)
        if isinstance(key, transaction_records.UnknownTransactionKey):
            return {"type": "Unknown", "record_type": key.record_type, **plain_record(record)}
        found = transaction_records.decode_value(record.value)
    except UnparsableRecord as error:
        raise Undecodable(str(error)) from None
    shown = None if found is None else {"version": found.version, **as_json(found.value)}
    return {"type": "TransactionLog", "key": {"transactional_id": key.transactional_id}, "value": shown}


def metadata_record(record: Record) -> Decoded:
    """A record of `__cluster_metadata`. Raises: Undecodable."""
    try:
        value = decode_frame(record.value or b"")
    except MetadataRecordError as error:
        raise Undecodable(str(error)) from None
    shown = as_json(value)
    if isinstance(value, ConfigRecord) and value.value is not None and _is_secret(value):
        shown["value"] = _NOT_SHOWN
    return {"type": type(value).__name__, "value": shown}


def _is_secret(record: ConfigRecord) -> bool:
    """Whether a broker's config is one of which nobody is told; so is one that is not known, as in Kafka."""
    if record.resource_type != BROKER_RESOURCE:
        return False
    name = base_of(record.name) if is_of_listener(record.name) else record.name
    known = Settings.definitions.get(name) or DYNAMIC.get(name)
    return not has_no_effect(name) if known is None else known.sensitive


def control_record(record: Record) -> Decoded:
    """A record of a control batch. Raises: Undecodable."""
    try:
        kind = control_type(record.key)
        if kind is None:
            return {"type": "Unknown", **plain_record(record)}
        return {"type": kind.name, "value": as_json(decode_control_value(kind, record.value))}
    except ProtocolError as error:
        raise Undecodable(str(error)) from None


def plain_record(record: Record) -> Decoded:
    """Any other record; a value that is a JSON object, as the rebalance ledger's, is one here too."""
    found: Decoded = {}
    _put(found, "key", record.key)
    _put(found, "value", record.value)
    value = found.get("value")
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(ValueError):
            found["value"] = json.loads(value)
    return found


def headers_of(record: Record) -> list[Decoded]:
    """Its headers, in order."""
    found = []
    for key, value in record.headers:
        header: Decoded = {}
        _put(header, "key", key)
        _put(header, "value", value)
        found.append(header)
    return found


def _put(into: Decoded, name: str, data: bytes | None) -> None:
    try:
        into[name] = None if data is None else bytes(data).decode()
    except UnicodeDecodeError:
        into[f"{name}_base64"] = base64.b64encode(bytes(data or b"")).decode()


def as_json(value: Any, name: str = "") -> Any:
    """A decoded value as JSON has it: ids of 16 bytes are uuids, other bytes base64, secrets are left out."""
    if isinstance(value, Struct):
        return {field.name: as_json(getattr(value, field.name), field.name) for field in value.FIELDS}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named = value._asdict()
        named.pop("record_type", None)
        return {key: as_json(one, key) for key, one in named.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one, name) for one in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        if name in _SECRETS:
            return _NOT_SHOWN
        data = bytes(value)
        is_id = len(data) == 16 and name.endswith(_IDS)
        return uuid_text(data) if is_id else base64.b64encode(data).decode()
    return value.name if isinstance(value, Enum) else value
