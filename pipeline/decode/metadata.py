"""The records of `__cluster_metadata` as rows of `schemas.METADATA_RECORDS`; fields as JSON, one row a record.

Plain Python: such logs have a few thousand records.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pyarrow as pa

from pipeline.decode.group_rows import uuid_text
from pipeline.decode.schemas import METADATA_RECORDS, TIMESTAMP
from protocol.records.errors import CorruptBatch
from protocol.records.metadata_records import RECORDS, MetadataRecordError, decode_frame
from protocol.records.varint import decode_uvarint

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def metadata_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode (value, partition, offset, timestamp). Control records of the quorum never come here."""
    rows = [_row(value) for value in batch.column("value").to_pylist()]
    arrays = [
        batch.column("partition").cast(pa.int32()),
        batch.column("offset").cast(pa.int64()),
        batch.column("timestamp").cast(TIMESTAMP),
        *[pa.array([row.get(field.name) for row in rows], field.type) for field in list(METADATA_RECORDS)[3:]],
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=METADATA_RECORDS)


def _row(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"record_type": "unknown", "problem": "no value"}
    kind = version = None
    try:
        _, at = decode_uvarint(value, 0)
        kind, at = decode_uvarint(value, at)
        version, _ = decode_uvarint(value, at)
    except (IndexError, CorruptBatch):
        pass
    known = RECORDS.get(kind) if kind is not None else None
    row: dict[str, Any] = {
        "record_type": _CAPITAL.sub("_", known.__name__).lower() if known else "unknown",
        "type_key": kind if kind is not None and kind < 1 << 31 else None,
        "version": version if version is not None and version < 1 << 31 else None,
    }
    try:
        decoded = decode_frame(value)
    except MetadataRecordError as error:
        return row | {"value": value, "problem": str(error)}
    fields = plain(decoded)
    return row | {
        "topic": getattr(decoded, "name", None) if row["record_type"] == "topic_record" else None,
        "topic_id": uuid_text(decoded.topic_id) if isinstance(getattr(decoded, "topic_id", None), bytes) else None,
        "partition": getattr(decoded, "partition_id", None),
        "fields": json.dumps(fields, ensure_ascii=False, sort_keys=True),
    }


def plain(value: Any) -> Any:
    """A decoded message as JSON values: uuids as Kafka prints them, other bytes as base64."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return uuid_text(data) if len(data) == 16 else base64.b64encode(data).decode()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    names = getattr(type(value), "__slots__", None)
    if names is not None:  # none at all in a record without fields
        return {name: plain(getattr(value, name)) for name in names if not name.startswith("_")}
    return value
