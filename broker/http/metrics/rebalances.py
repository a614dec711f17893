"""Rebalances and refused commits, as `broker.groups.figures` has counted them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.figures import BOUNDS_S, PHASES
from broker.http.metrics.exposition import histogram
from broker.http.metrics.labels import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.groups.figures import Figures
    from broker.http.metrics.exposition import Scrape

_GROUPS_AT_ONCE = 100


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about rebalances."""
    counted = scrape.app.broker.group_figures
    figures: list[tuple[str, Figures]] = []
    if scrape.by_group:
        for number, (group_id, one) in enumerate(list(counted.groups.items())):
            figures.append((f'group="{escaped(group_id)}"', one))
            if number % _GROUPS_AT_ONCE == 0:
                yield ""
    else:
        figures.append(("", counted.total))
    yield from scrape.many(
        "kohort_group_rebalances_total",
        "counter",
        "Rebalances that began, by what began them.",
        _by(figures, "trigger", lambda one: one.rebalances),
    )
    name = "kohort_group_rebalance_seconds"
    yield scrape.head(
        name,
        "histogram",
        "Phases of rebalances: join (waiting for members), assign (the leader computes), sync (members fetch).",
    )
    for labels, one in figures:
        comma = "," if labels else ""
        yield "".join(
            histogram(
                name, f'{labels}{comma}phase="{phase}"', BOUNDS_S, one.phase_counts[phase], one.phase_ms[phase] / 1_000
            )
            for phase in PHASES
            if phase in one.phase_counts
        )
    yield from scrape.many(
        "kohort_group_stopped_seconds_total",
        "counter",
        "Time that members stood still in rebalances: in each, the longest of any member.",
        (f"{f'{{{labels}}}' if labels else ''} {one.stopped_ms / 1_000}" for labels, one in figures),
    )
    yield from scrape.many(
        "kohort_group_unread_seconds_total",
        "counter",
        "Time that partitions which moved were read by nobody: in each rebalance, the longest of any partition.",
        (f"{f'{{{labels}}}' if labels else ''} {one.unread_ms / 1_000}" for labels, one in figures),
    )
    yield from scrape.many(
        "kohort_group_commits_refused_total",
        "counter",
        "Commits refused for a stale generation, an unknown member or fencing.",
        _by(figures, "error", lambda one: one.commits_refused),
    )
    yield from _findings(scrape)
    yield scrape.one(
        "kohort_ledger_errors_total",
        "counter",
        "Records of the rebalance ledger that could not be written.",
        scrape.app.broker.ledger.errors,
    )


def _findings(scrape: Scrape) -> Iterator[str]:
    standing = scrape.app.broker.standing_findings
    for _ in standing.refreshed():
        yield ""
    rows: dict[str, int] = {}
    for number, (group_id, rule) in enumerate(standing.standing()):
        labels = f'group="{escaped(group_id)}",rule="{rule}"' if scrape.by_group else f'rule="{rule}"'
        rows[labels] = rows.get(labels, 0) + 1
        if number % _GROUPS_AT_ONCE == 0:
            yield ""
    yield from scrape.many(
        "kohort_group_finding",
        "gauge",
        "Findings of weight about a group, as kohort why tells them, of the last hour.",
        (f"{{{labels}}} {count}" for labels, count in rows.items()),
    )


def _by(figures: list[tuple[str, Figures]], label: str, counts: Callable[[Figures], dict[str, int]]) -> Iterator[str]:
    for labels, one in figures:
        comma = "," if labels else ""
        for key, count in tuple(counts(one).items()):  # a slice may end here, and a rebalance add a trigger meanwhile
            yield f'{{{labels}{comma}{label}="{escaped(key)}"}} {count}'
