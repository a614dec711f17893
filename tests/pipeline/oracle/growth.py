"""Who fills `__consumer_offsets`, and one row for each group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tests.pipeline.oracle.files import PartitionLog
from tests.pipeline.oracle.records import Row, group_record
from tests.pipeline.oracle.tables import framed_bytes, sound

HOUR_MS = 3_600_000


def growth(rows: Iterable[Row]) -> list[Row]:
    """7.8, one row per group and hour."""
    hours: dict[tuple[int, str], list[Row]] = {}
    for row in sound(rows):
        if row["group_id"] is not None:
            hours.setdefault((row["logged_at"] // HOUR_MS * HOUR_MS, row["group_id"]), []).append(row)
    totals: dict[int, int] = {}
    for (hour, _), mine in hours.items():
        totals[hour] = totals.get(hour, 0) + sum(map(framed_bytes, mine))
    return [_hour(hour, group_id, mine, totals[hour]) for (hour, group_id), mine in hours.items()]


def _hour(hour: int, group_id: str, rows: list[Row], total: int) -> Row:
    commits = [row for row in rows if row["record_type"] == "offset_commit" and not row["tombstone"]]
    pairs: dict[tuple[str, int], list[int]] = {}
    for row in commits:
        pairs.setdefault((row["topic"], row["partition"]), []).append(row["committed_offset"])
    advances = sorted(b - a for offsets in pairs.values() for a, b in itertools.pairwise(offsets) if b > a)
    size = sum(map(framed_bytes, rows))
    each = bool(advances) and advances[(len(advances) - 1) // 2] <= 1
    often = len(commits) / 3600 > 5 * len(pairs)
    tombstones = sum(row["tombstone"] for row in rows)
    return {
        "group_id": group_id,
        "window_start": hour,
        "commits": len(commits),
        "tombstones": tombstones,
        "group_records": len(rows) - len(commits) - tombstones,
        "bytes": size,
        "share": size / total,
        "distinct_keys": len(pairs),
        "commits_per_key": len(commits) / len(pairs) if pairs else 0.0,
        "commits_per_second": len(commits) / 3600,
        "bytes_per_day": size * 24,
        "verdict": "commit_per_message" if each or often else None,
    }


def growth_partitions(logs: Iterable[PartitionLog]) -> list[Row]:
    """7.8, one row for each partition of `__consumer_offsets` that has a batch."""
    return [_partition(log) for log in logs if log.batches]


def _partition(log: PartitionLog) -> Row:
    rows = [group_record(record) for record in log.records()]
    files = list(dict.fromkeys(batch.file for batch in log.batches))
    closed = [batch for batch in log.batches if batch.file != files[-1]]
    dirty_from = log.first_dirty_offset or 0
    dirty = sum(batch.size_bytes for batch in closed if batch.last_offset >= dirty_from)
    ratio = dirty / sum(batch.size_bytes for batch in closed) if closed else 0.0
    newest: dict[bytes | None, bool] = {}
    sizes: dict[str, int] = {}
    for record, row in zip(log.records(), rows, strict=True):
        newest[record.key] = row["tombstone"]
        if row["group_id"] is not None:
            sizes[row["group_id"]] = sizes.get(row["group_id"], 0) + framed_bytes(row)
    blocked = None
    if len(files) == 1:
        blocked = "only the active segment"
    elif log.first_dirty_offset is None:
        blocked = "no clean checkpoint"
    elif log.open_transaction_from is not None and log.open_transaction_from <= log.first_dirty_offset:
        first = next(batch for batch in log.batches if batch.base_offset == log.open_transaction_from)
        began = datetime.fromtimestamp(first.base_timestamp_ms / 1000, UTC)
        blocked = f"open transaction since {began:%Y-%m-%dT%H:%M:%S}.{began.microsecond // 1000:03}Z"
    elif ratio < 0.5:
        blocked = "ratio below threshold"
    return {
        "log_partition": log.partition,
        "size_bytes": sum(batch.size_bytes for batch in log.batches),
        "segments": len(files),
        "log_start_offset": log.log_start_offset,
        "first_dirty_offset": log.first_dirty_offset,
        "log_end_offset": log.log_end_offset,
        "dirty_bytes": dirty,
        "dirty_ratio": ratio,
        "live_keys": sum(not tombstone for tombstone in newest.values()),
        "tombstones": sum(row["tombstone"] for row in rows),
        "oldest_segment_at": log.batches[0].base_timestamp_ms,
        "open_transaction_from": log.open_transaction_from,
        "largest_group": min(sizes, key=lambda group: (-sizes[group], group), default=""),
        "load_seconds_estimate": len(rows) / 400_000,
        "blocked_by": blocked,
    }


def groups(
    rows: Iterable[Row], generations: list[Row], consumer: list[Row], rebalances: list[Row], lag: list[Row]
) -> list[Row]:
    """7.10 for classic, KIP-848 and simple groups. `consumer`: rows of 7.3."""
    rows = list(rows)
    now = max((row["logged_at"] for row in sound(rows)), default=0)
    out = []
    for group_id in sorted({row["group_id"] for row in sound(rows) if row["group_id"] is not None}):
        mine = [row for row in sound(rows) if row["group_id"] == group_id]
        last: Row | None = next((row for row in reversed(generations) if row["group_id"] == group_id), None)
        offsets: dict[tuple[str, int], Row] = {}
        for row in mine:
            if row["record_type"] == "offset_commit":
                offsets[row["topic"], row["partition"]] = row
        live = {place for place, row in offsets.items() if not row["tombstone"]}
        owned = {
            (part["topic"], part["partition"])
            for member in (last or {"members": ()})["members"]
            for part in member["assigned"] or ()
        }
        modern = ConsumerGroup([row for row in consumer if row["group_id"] == group_id])
        owned |= modern.owned
        ended = [row["finished_at"] for row in rebalances if row["group_id"] == group_id]
        at_end: dict[tuple[str, int], Row] = {}
        for row in lag:
            if row["group_id"] == group_id:
                at_end[row["topic"], row["partition"]] = row
        known = [row["lag_messages"] for row in at_end.values() if row["lag_messages"] is not None]
        commits = [r["logged_at"] for r in mine if r["record_type"] == "offset_commit" and not r["tombstone"]]
        alive: Any = last is not None and not last["tombstone"]
        if modern.is_alive:
            kind, state, generation, members = "consumer", modern.state, modern.epoch, len(modern.members)
        elif alive and last:
            kind, state, generation, members = "classic", last["state"], last["generation"], last["member_count"]
        elif live:
            kind, state, generation, members = "offsets_only", "Empty", None, 0
        else:
            told = [(last["log_offset"], "classic")] if last else []
            told += [(modern.last_offset, "consumer")] if modern.last_offset is not None else []
            kind, state, generation, members = max(told, default=(0, "offsets_only"))[1], "Removed", None, 0
        out.append(
            {
                "group_id": group_id,
                "type": kind,
                "state": state,
                "generation": generation,
                "members": members,
                "topics": len({topic for topic, _ in live | owned}),
                "partitions": len(live | owned),
                "last_rebalance_at": max(ended, default=None),
                "last_commit_at": max(commits, default=None),
                "rebalances_24h": sum(now - at < 86_400_000 for at in ended),
                "lag_messages": sum(known) if known else None,
            }
        )
    return out


class ConsumerGroup:
    """A KIP-848 group as its newest records leave it."""

    def __init__(self, rows: list[Row]) -> None:
        newest: dict[tuple[str, str | None], Row] = {(row["record_type"], row["member_id"]): row for row in rows}
        live = [row for row in newest.values() if not row["tombstone"]]

        def of(kind: str) -> dict[str, Row]:
            return {row["member_id"]: row for row in live if row["record_type"] == f"consumer_group_{kind}"}

        self.last_offset = max((row["log_offset"] for row in rows), default=None)
        self.is_alive = bool(live)
        self.members = set(of("member_metadata"))
        self.epoch = max((row["group_epoch"] for row in of("metadata").values()), default=1)
        target = max((row["target_epoch"] for row in of("target_assignment_metadata").values()), default=1)
        current = of("current_member_assignment")
        settled = {
            name for name, row in current.items() if (row["member_state"], row["member_epoch"]) == ("Stable", target)
        }
        self.owned = {
            (part["topic"] or part["topic_id"], part["partition"])
            for row in current.values()
            for part in row["partitions"] or ()
        }
        if not self.members:
            self.state = "Empty"
        elif self.epoch > target:
            self.state = "Assigning"
        else:
            self.state = "Stable" if self.members <= settled else "Reconciling"
