"""The columns of everything that sources and decoders yield, as Arrow schemas, and the same for Spark.

Declared once: the kernels build record batches of these schemas, Spark is told `ddl(SCHEMA)`, and a table's column
names are `SCHEMA.names`. All fields are nullable for Spark's sake; which ones may really be null says docs/pipeline.md.
"""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
"""A moment. Kafka's milliseconds times a thousand, which is what Spark stores."""


def list_of(element: pa.DataType) -> pa.DataType:
    """A list, whose element is called what Spark calls it, which compares schemas."""
    return pa.list_(pa.field("element", element))


HEADERS = list_of(pa.struct([("key", pa.string()), ("value", pa.binary())]))

RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
"""One record, exactly as Spark's own Kafka source has it."""

RAW_WITH_HEADERS = RAW.append(pa.field("headers", HEADERS))

SOURCE = pa.schema(
    [
        ("file", pa.string()),
        ("position", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("is_transactional", pa.bool_()),
    ]
)
"""Where a record's batch lies: added by `includeSource`. Position in bytes."""

GROUP_SOURCE = pa.schema([field for field in SOURCE if field.name != "leader_epoch"])
"""The same for group records, whose `leader_epoch` is that of the offset committed."""

BATCHES = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("record_count", pa.int32()),
        ("base_timestamp", TIMESTAMP),
        ("max_timestamp", TIMESTAMP),
        ("size_bytes", pa.int32()),
        ("compression", pa.string()),
        ("producer_id", pa.int64()),
        ("is_transactional", pa.bool_()),
        ("is_control", pa.bool_()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("marker", pa.string()),
    ]
)
"""One batch header: `records=batch`. Last offset inclusive; producer_id null when there is none.

marker: how a transaction ended, `commit` or `abort`; null in any other batch.
"""

PROBLEMS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("kind", pa.string()),
        ("reason", pa.string()),
    ]
)
"""What a reader with `onCorrupt=skip` leaves out (kind `skipped`) or merely notices (`notice`): `records=problems`.

The lost offsets are first to last, both inclusive; last is null when nothing readable follows.
"""

GROUP_RECORDS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("logged_at", TIMESTAMP),
        ("record_type", pa.string()),
        ("key_type", pa.int16()),
        ("value_version", pa.int16()),
        ("tombstone", pa.bool_()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("committed_at", TIMESTAMP),
        ("expires_at", TIMESTAMP),
        ("topic_id", pa.string()),
        ("member_id", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("key_bytes", pa.int32()),
        ("value_bytes", pa.int32()),
        ("problem", pa.string()),
    ]
)
"""One record of `__consumer_offsets`, none dropped. Key and value are null in well-formed offset commits."""

OFFSET_COMMITS = pa.schema(
    [
        *[GROUP_RECORDS.field(name) for name in ("log_partition", "log_offset", "logged_at", "group_id", "topic")],
        *[GROUP_RECORDS.field(name) for name in ("partition", "committed_offset", "leader_epoch", "metadata")],
        *[GROUP_RECORDS.field(name) for name in ("committed_at", "expires_at", "topic_id", "value_version")],
        ("tombstone", pa.bool_()),
        ("record_bytes", pa.int32()),
    ]
)
"""One offset commit or its tombstone."""

TOPIC_PARTITIONS = list_of(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))

MEMBER = pa.struct(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("subscribed_topics", list_of(pa.string())),
        ("owned", TOPIC_PARTITIONS),
        ("rack_id", pa.string()),
        ("user_data", pa.binary()),
        ("assigned", TOPIC_PARTITIONS),
        ("undecoded", pa.string()),
    ]
)

GROUP_GENERATIONS = pa.schema(
    [
        *[GROUP_RECORDS.field(name) for name in ("log_partition", "log_offset", "logged_at", "group_id")],
        ("tombstone", pa.bool_()),
        ("protocol_type", pa.string()),
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_changed_at", TIMESTAMP),
        ("state", pa.string()),
        ("member_count", pa.int32()),
        ("members", list_of(MEMBER)),
    ]
)
"""One GroupMetadata record of a classic group; state is Stable, Empty or Removed."""

OWNED_PARTITIONS = list_of(
    pa.struct(
        [("topic_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("assignment_epoch", pa.int32())]
    )
)

CONSUMER_GROUP_RECORDS = pa.schema(
    [
        *[GROUP_RECORDS.field(name) for name in ("log_partition", "log_offset", "logged_at", "group_id")],
        *[GROUP_RECORDS.field(name) for name in ("record_type", "member_id", "tombstone")],
        ("group_epoch", pa.int32()),
        ("metadata_hash", pa.int64()),
        ("target_epoch", pa.int32()),
        ("assigned_at", TIMESTAMP),
        ("member_epoch", pa.int32()),
        ("previous_member_epoch", pa.int32()),
        ("member_state", pa.string()),
        ("instance_id", pa.string()),
        ("rack_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("subscribed_topics", list_of(pa.string())),
        ("subscribed_topic_regex", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),
        ("server_assignor", pa.string()),
        ("classic_session_timeout_ms", pa.int32()),
        ("partitions", OWNED_PARTITIONS),
        ("pending_revocation", OWNED_PARTITIONS),
    ]
)
"""One record of a KIP-848 group (types 3-8 and 16). `topic` inside the arrays is filled by the transformation."""

LEDGER_EVENTS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("logged_at", TIMESTAMP),
        ("kind", pa.string()),
        ("version", pa.int32()),
        ("at", TIMESTAMP),
        ("group_id", pa.string()),
        ("group_type", pa.string()),
        ("generation", pa.int32()),
        ("rebalance_id", pa.string()),
        ("from_generation", pa.int32()),
        ("to_generation", pa.int32()),
        ("outcome", pa.string()),
        ("trigger", pa.string()),
        ("reason", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("began_at", TIMESTAMP),
        ("joined_at", TIMESTAMP),
        ("assigned_at", TIMESTAMP),
        ("ended_at", TIMESTAMP),
        ("duration_ms", pa.int64()),
        ("join_ms", pa.int64()),
        ("assign_ms", pa.int64()),
        ("sync_ms", pa.int64()),
        ("stopped_ms", pa.int64()),
        ("initial_delay_ms", pa.int64()),
        ("slowest_member", pa.string()),
        ("protocol_type", pa.string()),
        ("protocol", pa.string()),
        ("mode", pa.string()),
        ("leader", pa.string()),
        ("leader_changed", pa.bool_()),
        ("members_before", pa.int32()),
        ("members_after", pa.int32()),
        ("joined", list_of(pa.string())),
        ("left", list_of(pa.string())),
        ("partitions_total", pa.int32()),
        ("partitions_moved", pa.int32()),
        ("event", pa.string()),
        ("problem", pa.string()),
    ]
)
"""One record of the rebalance ledger. What a kind does not have is null; `event` is its whole JSON.

trigger, reason, member_id and the client's two are those of the first cause, or of the event itself where it has
no cause. An unknown kind or version, or a value that is no JSON object, is the kind `unknown` with a problem.
"""

METADATA_RECORDS = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("logged_at", TIMESTAMP),
        ("record_type", pa.string()),
        ("type_key", pa.int32()),
        ("version", pa.int32()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("fields", pa.string()),
        ("value", pa.binary()),
        ("problem", pa.string()),
    ]
)
"""One record of `__cluster_metadata`; `fields` is JSON, `value` the bytes of what could not be decoded."""

_SCALARS = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    TIMESTAMP: "timestamp",
}


def ddl(schema: pa.Schema) -> str:
    """The columns in Spark's words: `key binary, partition int, ...`."""
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        inner = [kind.field(index) for index in range(kind.num_fields)]
        return f"struct<{', '.join(f'`{field.name}`: {_spark_type(field.type)}' for field in inner)}>"
    return _SCALARS[kind]
