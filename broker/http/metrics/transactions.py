"""Transactions, as `broker.transactions.figures` has counted them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.metrics.labels import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.metrics.exposition import Scrape


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about transactions."""
    broker = scrape.app.broker
    figures = broker.transaction_figures
    ids = sum(len(leader.shard.states) for leader in broker.transactions.leaders)
    yield scrape.one("kohort_transactional_ids", "gauge", "Transactional ids that are known.", ids)
    yield scrape.one("kohort_transactions_open", "gauge", "Transactions that are open.", len(figures.open))
    yield scrape.one("kohort_transactions_ending", "gauge", "Transactions that wait for markers.", len(figures.ending))
    oldest_ms = figures.oldest_ms
    age_ms = 0 if oldest_ms is None else max(broker.runtime.now_ms() - oldest_ms, 0)
    yield scrape.one(
        "kohort_transaction_oldest_open_seconds",
        "gauge",
        "How long the oldest open transaction has been open; 0 when none is.",
        age_ms / 1_000,
    )
    yield from scrape.many(
        "kohort_transactions_total",
        "counter",
        "Transactions that ended, by outcome and who ended them: client, fenced, timed_out, loaded.",
        (
            f'{{cause="{escaped(cause)}",outcome="{"committed" if committed else "aborted"}"}} {count}'
            for (committed, cause), count in tuple(figures.ended.items())
        ),
    )
    yield scrape.one(
        "kohort_transaction_open_seconds_total",
        "counter",
        "Time that transactions were open, from their first partition to their decision.",
        figures.open_ms / 1_000,
    )
    yield scrape.one(
        "kohort_transaction_markers_seconds_total",
        "counter",
        "Time from the decision of transactions to their last marker.",
        figures.markers_ms / 1_000,
    )
    yield scrape.one(
        "kohort_transaction_markers_delayed_total",
        "counter",
        "How often markers had to be tried again; the 1st, 2nd, 4th, 8th try of a transaction count.",
        figures.markers_delayed,
    )
    yield from scrape.many(
        "kohort_transaction_requests_refused_total",
        "counter",
        "Requests of producers that were refused: fenced, or not fitting the transaction's state.",
        (
            f'{{error="{escaped(error)}",request="{escaped(request)}"}} {count}'
            for (request, error), count in tuple(figures.refused.items())
        ),
    )
