"""What `kohort storage dump` found, as lines for people: batches at one indent, records at two."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any


def line_of(found: dict[str, Any]) -> str:
    """One line for one thing found."""
    kind = found["kind"]
    if kind == "batch":
        return "  " + _batch(found)
    if kind == "record":
        return "    " + _record(found)
    return "  " + " ".join(f"{key} {_text(value)}" for key, value in found.items() if key != "kind")


def _batch(found: dict[str, Any]) -> str:
    parts = [f"batch at {found['position']}: offsets {found['base_offset']}-{found['last_offset']}"]
    parts.append(f"{found['count']} records, {found['size_bytes']} bytes, epoch {found['leader_epoch']}")
    parts.append(f"{found['timestamp_type']} to {moment(found['max_timestamp'])}")
    if found["compression"] != "none":
        parts.append(found["compression"])
    if found["producer_id"] >= 0:
        sequence = found["base_sequence"]
        parts.append(f"producer {found['producer_id']} epoch {found['producer_epoch']} sequence {sequence}")
    parts += [name for name in ("transactional", "control") if found[f"is_{name}"]]
    return ", ".join(parts)


def _record(found: dict[str, Any]) -> str:
    parts = [f"{found['offset']} {moment(found['timestamp'])}"]
    if "type" in found:
        parts.append(found["type"])
    for key in ("key", "key_base64", "value", "value_base64"):
        if key in found:
            parts.append(f"{key}={_text(found[key])}")
    if "headers" in found:
        parts.append(f"headers={_text(found['headers'])}")
    return " ".join(parts)


def _text(value: Any) -> str:
    """Text as it is when it stays on its line, everything else as JSON."""
    if isinstance(value, str) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False)


def moment(timestamp_ms: int) -> str:
    """A timestamp in UTC with its milliseconds; `-` for none, the number itself beyond what a calendar holds."""
    if timestamp_ms < 0:
        return "-"
    try:
        whole = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
