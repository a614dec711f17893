"""The values of groups, not of offsets: classic generations with their members, and the records of KIP-848 groups.

They are few, so these are plain Python, row by row. The rows come from `group_records` without a problem, so their
values decode; tombstones have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pipeline.decode import group_keys
from pipeline.decode.group_rows import uuid_text
from pipeline.decode.schemas import CONSUMER_GROUP_RECORDS, GROUP_GENERATIONS
from protocol.records import group_records
from protocol.records.consumer_group_records import classic_of
from protocol.records.consumer_protocol import MetadataError, TopicPartition, subscription, whole_assignment

_STATES = {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"}


def generation_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `schemas.GROUP_GENERATIONS` from (log_partition, log_offset, logged_at, group_id, value)."""
    rows = [_generation(value) for value in batch.column("value").to_pylist()]
    return _rows(batch, rows, GROUP_GENERATIONS)


def _rows(batch: pa.RecordBatch, rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the input has, then what was decoded; timestamps in there are still ms."""
    arrays = []
    for field in schema:
        if field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
            continue
        values = [row.get(field.name) for row in rows]
        if pa.types.is_timestamp(field.type):
            values = [None if value is None else value * 1000 for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _generation(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"tombstone": True, "state": "Removed", "member_count": 0, "members": []}
    decoded: Any = group_keys.read_value(2, value)
    protocol_type = decoded.protocol_type or None
    return {
        "tombstone": False,
        "protocol_type": protocol_type,
        "generation": decoded.generation,
        "protocol": decoded.protocol,
        "leader": decoded.leader,
        "state_changed_at": None if decoded.current_state_timestamp == -1 else decoded.current_state_timestamp,
        "state": "Stable" if decoded.members else "Empty",
        "member_count": len(decoded.members),
        "members": [_member(member, protocol_type) for member in decoded.members],
    }


def _member(member: Any, protocol_type: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        # -1 in old records: the session timeout counts.
        "rebalance_timeout_ms": member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
        "session_timeout_ms": member.session_timeout,
    }
    if protocol_type != "consumer":
        return row | {"undecoded": f"protocol type {protocol_type or ''}".rstrip()}
    problems = []
    try:
        wanted = subscription(bytes(member.subscription))
        row |= {
            "subscribed_topics": wanted.topics,
            "owned": _pairs(wanted.owned),
            "rack_id": wanted.rack_id,
            "user_data": wanted.user_data,
        }
    except MetadataError as error:
        problems.append(f"subscription: {error}")
    try:
        row["assigned"] = _pairs(whole_assignment(bytes(member.assignment)).partitions)
    except MetadataError as error:
        problems.append(f"assignment: {error}")
    return row | {"undecoded": "; ".join(problems) or None}


def _pairs(partitions: list[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]


def consumer_group_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `schemas.CONSUMER_GROUP_RECORDS` from their first columns and the value."""
    columns = [batch.column(name).to_pylist() for name in ("record_type", "key", "value")]
    rows = [
        _consumer_group(record_type, value) | _regex_of(record_type, key)
        for record_type, key, value in zip(*columns, strict=True)
    ]
    return _rows(batch, rows, CONSUMER_GROUP_RECORDS)


def _consumer_group(record_type: str, value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"tombstone": True}
    key_type = _KEY_TYPES[record_type]
    decoded: Any = group_keys.read_value(key_type, value)
    return {"tombstone": False} | _FIELDS.get(key_type, _nothing)(decoded)


def _regex_of(record_type: str, key: bytes) -> dict[str, Any]:
    """The expression itself stands in the key, of a tombstone too."""
    if record_type != "consumer_group_regular_expression":
        return {}
    decoded: Any = group_records.decode_key(key)
    return {"subscribed_topic_regex": decoded.regex}


def _nothing(_: Any) -> dict[str, Any]:
    return {}


def _group(value: Any) -> dict[str, Any]:
    return {"group_epoch": value.epoch, "metadata_hash": value.metadata_hash or None}


def _topics(value: Any) -> dict[str, Any]:
    """Old logs name the topics' ids here: partition counts become partitions, so that names can be looked up."""
    return {
        "partitions": [
            {
                "topic_id": uuid_text(topic.topic_id),
                "topic": topic.topic_name,
                "partition": partition,
                "assignment_epoch": None,
            }
            for topic in value.topics
            for partition in range(topic.num_partitions)
        ]
    }


def _subscription(value: Any) -> dict[str, Any]:
    classic = classic_of(value)
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topics": value.subscribed_topic_names,
        "subscribed_topic_regex": value.subscribed_topic_regex or None,
        "rebalance_timeout_ms": None if value.rebalance_timeout_ms == -1 else value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "classic_session_timeout_ms": classic.session_timeout_ms if classic else None,
    }


def _target(value: Any) -> dict[str, Any]:
    return {"target_epoch": value.assignment_epoch, "assigned_at": value.assignment_timestamp or None}


def _target_member(value: Any) -> dict[str, Any]:
    return {"partitions": _owned(value.topic_partitions, None)}


def _current(value: Any) -> dict[str, Any]:
    default = max(value.member_epoch, 0)
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "member_state": _STATES.get(value.state, "Unknown"),
        "partitions": _owned(value.assigned_partitions, default),
        "pending_revocation": _owned(value.partitions_pending_revocation, default),
    }


def _owned(topics: list[Any], default_epoch: int | None) -> list[dict[str, Any]]:
    """One entry a partition. Missing assignment epochs, or too many: each counts as assigned at the member's epoch."""
    found = []
    for topic in topics:
        epochs = getattr(topic, "assignment_epochs", None)
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default_epoch] * len(topic.partitions)
        topic_id = uuid_text(topic.topic_id)
        found += [
            {"topic_id": topic_id, "topic": None, "partition": partition, "assignment_epoch": epoch}
            for partition, epoch in zip(topic.partitions, epochs, strict=True)
        ]
    return found


def _regex(value: Any) -> dict[str, Any]:
    return {"subscribed_topics": value.topics}


_KEY_TYPES = {name: key_type for key_type, name in group_keys.RECORD_TYPES.items()}
_FIELDS: dict[int, Callable[[Any], dict[str, Any]]] = {
    3: _group,
    4: _topics,
    5: _subscription,
    6: _target,
    7: _target_member,
    8: _current,
    16: _regex,
}
