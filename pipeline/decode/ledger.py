"""The rebalance ledger as rows of `schemas.LEDGER_EVENTS`: what a kind does not have is null, nothing is dropped.

Plain Python, row by row: a ledger has one record for each change of a group. Unknown fields stay in `event`, the whole
JSON; an unknown kind or version is the kind `unknown`, with a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pipeline.decode.schemas import LEDGER_EVENTS, TIMESTAMP
from protocol.records.errors import UnparsableRecord
from protocol.records.ledger import KINDS, VERSION, decode_value

_JOINED = frozenset({"joined"})
_LEFT = frozenset({"left", "expired", "removed"})
_MOMENTS = {"at": "at_ms", "began_at": "began_at_ms", "joined_at": "joined_at_ms", "assigned_at": "assigned_at_ms"}
_MOMENTS["ended_at"] = "ended_at_ms"
_FIRST_COLUMNS = 3


def ledger_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode (key, value, partition, offset, timestamp)."""
    pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    rows = [_row(key, value) for key, value in pairs]
    arrays = [
        batch.column("partition").cast(pa.int32()),
        batch.column("offset").cast(pa.int64()),
        batch.column("timestamp").cast(TIMESTAMP),
    ]
    arrays += [_column(rows, field) for field in list(LEDGER_EVENTS)[_FIRST_COLUMNS:]]
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGER_EVENTS)


def _column(rows: list[dict[str, Any]], field: pa.Field) -> Any:
    return pa.array([_fitting(row.get(field.name), field.type) for row in rows], field.type)


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value if it is of the column's type: a field that another version fills differently is null, not an end."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return value * 1000 if isinstance(value, int) and abs(value) < 1 << 52 else None
    if pa.types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if pa.types.is_integer(kind):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole and abs(value) < 1 << (kind.bit_width - 1) else None
    if pa.types.is_list(kind):
        return value if isinstance(value, list) else None
    return value if isinstance(value, str) else None


def _row(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    group_id = None if key is None else key.decode("utf-8", "replace")
    try:
        event = decode_value(value)
    except (UnparsableRecord, UnicodeDecodeError) as error:
        text = None if value is None else value.decode("utf-8", "replace")
        return {"kind": "unknown", "group_id": group_id, "event": text, "problem": str(error)}
    assert value is not None
    row = {name: event.get(name) for name in LEDGER_EVENTS.names[_FIRST_COLUMNS:]}
    row |= {column: event.get(name) for column, name in _MOMENTS.items()}
    row["event"] = value.decode("utf-8", "replace")
    row["problem"] = _problem(event)
    if row["problem"]:
        row["kind"] = "unknown"
        return row
    cause = event.get("cause") or event.get("first_cause")
    if isinstance(cause, Mapping):
        row |= {name: cause.get(name) for name in ("trigger", "reason", "member_id", "client_id", "client_host")}
    row["joined"] = row["left"] = row["members_after"] = None
    if event["kind"] == "member_replaced":
        row["member_id"] = event.get("new_member_id")
    elif event["kind"] == "member_fenced":
        row["member_id"] = event.get("refused_member_id")
    elif event["kind"] == "rebalance_ended":
        _members(row, event)
    return row


def _problem(event: Mapping[str, Any]) -> str | None:
    if event["kind"] not in KINDS:
        return f"unknown kind {event['kind']}"
    return None if event.get("version") == VERSION else f"unknown version {event.get('version')} of {event['kind']}"


def _members(row: dict[str, Any], event: Mapping[str, Any]) -> None:
    members = [member for member in event.get("members") or () if isinstance(member, Mapping)]
    by_change = [(member.get("change"), str(member.get("member_id"))) for member in members]
    row["joined"] = sorted(member for change, member in by_change if change in _JOINED)
    row["left"] = sorted(member for change, member in by_change if change in _LEFT)
    truncated = event.get("members_truncated") or 0
    row["members_after"] = len(members) - len(row["left"]) + truncated if event.get("members") is not None else None
    # In a consumer group members come to an epoch by their own heartbeats: who had to give up is who was waited for.
    names = ("slowest_to_revoke",) if event.get("slowest_to_revoke") else ("slowest_to_join", "slowest_to_sync")
    waited = [event.get(name) for name in names]
    slowest = [one for one in waited if isinstance(one, Mapping) and isinstance(one.get("after_ms"), int)]
    if slowest:
        row["slowest_member"] = max(slowest, key=lambda one: one["after_ms"]).get("member_id")
