"""A report whose rows the oracle made: what the page tests look at, without a session."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.report import ReportData, choose_groups
from tests.pipeline import oracle

_MOMENTS = {"at", "finished_at", "started_at", "owned_from", "owned_to", "window_start", "stuck_since"}
_MOMENTS |= {"last_rebalance_at", "last_commit_at"}


def report_data(directory: Path, every_ms: int = 1000, stuck_after_ms: int = 5_000) -> ReportData:
    """All tables of a directory, from the oracle."""
    log = oracle.LogDirectory(directory)
    rows = oracle.group_records(log.records(committed=True))
    generations = oracle.group_generations(rows)
    consumer = oracle.consumer_group_records(rows, log.topic_names())
    by_epoch, owned_by_epoch = oracle.consumer_epochs(consumer)
    rebalances = oracle.rebalances(generations) + by_epoch
    membership = oracle.membership(generations) + owned_by_epoch
    commits = oracle.offset_commits(rows)
    lag = oracle.lag(commits, log, every_ms)
    worst: dict[tuple[str, int], dict[str, Any]] = defaultdict(lambda: {"lag_messages": None, "lag_seconds": None})
    for row in lag:
        one = worst[row["group_id"], row["at"]]
        one.update(group_id=row["group_id"], at=row["at"])
        for name in ("lag_messages", "lag_seconds"):
            if row[name] is not None:
                one[name] = max(one[name] or 0, row[name])
    behind = {row["group_id"]: row for row in oracle.worst_lag(commits, log)}
    told = oracle.groups(rows, generations, consumer, rebalances, lag)
    groups, others = choose_groups([row | behind.get(row["group_id"], {}) for row in told])
    return ReportData(
        source=str(directory),
        made_at=datetime.now(UTC),
        groups=with_moments(groups),
        lag=with_moments(worst.values()),
        rebalances=with_moments(rebalances),
        membership=with_moments(membership),
        growth=with_moments(oracle.growth(rows)),
        stuck=with_moments(oracle.stuck(rows, log, membership, stuck_after_ms)),
        unknown=[f"{sum(row['problem'] is not None for row in rows)} of {len(rows)} records were not decoded"],
        others=with_moments(others),
        partitions=with_moments(lag),
        resets=with_moments({"client_id": None} | row for row in oracle.offset_resets(commits, membership)),
        facts={"records": len(rows)},
    )


def with_moments(rows: Any) -> list[dict[str, Any]]:
    """Epoch milliseconds as moments, in the columns that are."""
    return [
        {
            name: datetime.fromtimestamp(value / 1000, UTC) if name in _MOMENTS and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]
