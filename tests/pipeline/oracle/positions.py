"""What the logs of ordinary topics add: lag on a grid, stuck partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.pipeline.oracle.files import LogDirectory, PartitionLog
from tests.pipeline.oracle.records import Row
from tests.pipeline.oracle.tables import offset_commits

Place = tuple[str, int]


def logs_of(directory: LogDirectory) -> dict[Place, PartitionLog]:
    """The logs that have a batch: those whose end and times are known."""
    return {place: log for place, log in directory.partitions.items() if log.batches}


def histories(commits: Iterable[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """The commits and tombstones of each (group, topic, partition), in log order."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in commits:
        found.setdefault((row["group_id"], row["topic"], row["partition"]), []).append(row)
    return found


def newest_moment(commits: Iterable[Row], logs: Mapping[Place, PartitionLog]) -> int:
    """The newest commit or batch."""
    times = [row["logged_at"] for row in commits]
    times += [batch.max_timestamp_ms for log in logs.values() for batch in log.batches]
    return max(times, default=0)


def end_at(log: PartitionLog, at_ms: int) -> int | None:
    """The log end at a moment, by the newest batch that is not younger."""
    ends = [batch.last_offset + 1 for batch in log.batches if batch.max_timestamp_ms <= at_ms]
    return max(ends) if ends else 0 if log.batches[0].base_offset == 0 else None


def written_at(log: PartitionLog, offset: int) -> float:
    """When the record at an offset was written: a linear share of its batch."""
    batch = next(batch for batch in log.batches if batch.last_offset >= offset)
    if offset <= batch.base_offset:
        return batch.base_timestamp_ms
    share = (offset - batch.base_offset) / (batch.last_offset - batch.base_offset)
    return batch.base_timestamp_ms + (batch.max_timestamp_ms - batch.base_timestamp_ms) * share


def lag(commits: list[Row], directory: LogDirectory, every_ms: int = 60_000) -> list[Row]:
    """7.6 at batch grain: one row per (group, topic, partition, grid point)."""
    topics = {row["topic"] for row in commits}
    logs = {place: log for place, log in logs_of(directory).items() if place[0] in topics}
    committed_logs = {(row["topic"], row["partition"]) for row in commits}
    logs = {place: log for place, log in logs.items() if place in committed_logs}
    end = -(-newest_moment(commits, logs) // every_ms) * every_ms
    out = []
    for (group_id, topic, partition), history in histories(commits).items():
        first = min(-(-row["logged_at"] // every_ms) * every_ms for row in history)
        for at in range(first, end + 1, every_ms):
            newest = max(
                (row for row in history if row["logged_at"] <= at), key=lambda row: row["log_offset"], default=None
            )
            if newest is None:
                continue
            out.append(_lag_row((group_id, topic, partition), at, newest, logs.get((topic, partition))))
    return out


def worst_lag(commits: list[Row], directory: LogDirectory) -> list[Row]:
    """By group the lag just before each of its commits, and at the end: the largest."""
    topics = {(row["topic"], row["partition"]) for row in commits}
    logs = {place: log for place, log in logs_of(directory).items() if place in topics}
    end = newest_moment(commits, logs)
    by_group: dict[str, list[Row]] = {}
    for (group_id, topic, partition), history in histories(commits).items():
        told = sorted(history, key=lambda row: row["log_offset"])
        moments = [(later["logged_at"], row) for row, later in pairwise(told)] + [(end, told[-1])]
        by_group.setdefault(group_id, []).extend(
            _lag_row((group_id, topic, partition), at, row, logs.get((topic, partition))) for at, row in moments
        )
    return [
        {
            "group_id": group_id,
            "worst_lag_messages": max(
                (row["lag_messages"] for row in rows if row["lag_messages"] is not None), default=None
            ),
            "worst_lag_seconds": max(
                (row["lag_seconds"] for row in rows if row["lag_seconds"] is not None), default=None
            ),
        }
        for group_id, rows in by_group.items()
    ]


def _lag_row(pair: tuple[str, str, int], at: int, newest: Row, log: PartitionLog | None) -> Row:
    committed = newest["committed_offset"]
    row: Row = {
        "group_id": pair[0],
        "topic": pair[1],
        "partition": pair[2],
        "at": at,
        "committed_offset": committed,
        "committed_at": newest["committed_at"],
        "log_start_offset": None,
        "log_end_offset": None,
        "lag_messages": None,
        "lag_seconds": None,
        "data_lost": False,
        "idle_seconds": (at - newest["logged_at"]) / 1000,
    }
    if log is None:
        return row
    row["log_start_offset"] = log.batches[0].base_offset
    row["log_end_offset"] = end = end_at(log, at)
    if committed is None:
        return row
    row["data_lost"] = committed < row["log_start_offset"]
    oldest = max(committed, row["log_start_offset"])
    if end is not None:
        row["lag_messages"] = max(0, end - oldest)
        seconds: Any = 0.0 if row["lag_messages"] == 0 else max(0.0, (at - written_at(log, oldest)) / 1000)
        row["lag_seconds"] = seconds
    return row


def stuck(rows: list[Row], directory: LogDirectory, spans: Iterable[Row], lasting_ms: int) -> list[Row]:
    """7.7 as of the newest group record, of whatever type, or batch of a topic of groups."""
    logs = {place: log for place, log in logs_of(directory).items() if not place[0].startswith("__")}
    commits = offset_commits(rows)
    now = newest_moment(rows, logs)
    owners = {(s["group_id"], s["topic"], s["partition"]): s for s in spans if s["owned_to"] is None}
    past = histories(commits)
    out = []
    for pair in past.keys() | owners.keys():
        log, owner, run = logs.get(pair[1:]), owners.get(pair), _last_run(past.get(pair, []))
        committed = run[-1]["committed_offset"] if run else None
        if log is None or (committed is None and owner is None):
            continue
        start, end = log.batches[0].base_offset, log.batches[-1].last_offset + 1
        oldest = start if committed is None else max(committed, start)
        still = run[0]["logged_at"] if run else owner["owned_from"]  # type: ignore[index]  # one of both is there
        arrived = _arrived(log, oldest, still, never=committed is None)
        if end <= oldest or arrived is None or now - max(still, arrived) < lasting_ms:
            continue
        since = max(still, arrived)
        later = sum(row["logged_at"] > since for row in run)
        out.append(
            {
                "group_id": pair[0],
                "topic": pair[1],
                "partition": pair[2],
                "stuck_since": since,
                "committed_offset": committed,
                "commits_since": later,
                "log_end_offset": end,
                "lag_messages": end - oldest,
                "owner_member_id": owner["member_id"] if owner else None,
                "owner_client_host": owner["client_host"] if owner else None,
                "verdict": "no_owner" if owner is None else "no_progress" if later else "no_commits",
            }
        )
    return out


def _last_run(history: list[Row]) -> list[Row]:
    """The newest commits that all say the same offset."""
    run: list[Row] = []
    for row in history:
        if run and run[-1]["committed_offset"] != row["committed_offset"]:
            run = []
        run.append(row)
    return run


def _arrived(log: PartitionLog, oldest: int, still: int, *, never: bool) -> int | None:
    """When the log first went past an offset; for owners that never committed, what came after they did."""
    times = [batch.max_timestamp_ms for batch in log.batches if batch.last_offset >= oldest]
    if not times:
        return None
    if never and min(times) <= still:
        return still if max(times) > still else None
    return min(times)
