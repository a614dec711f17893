"""`/metrics`: what the broker measures, as Prometheus reads it (docs/metrics.md has every name).

A scrape is made section by section and slice by slice: first the figures of topics and groups are gathered, then they
are written, a millisecond of a loop turn at a time, so that one with a million series holds nobody up. Who asks while
one is being made shares it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.answers import Answer
from broker.http.metrics import broker_figures, consumer_groups, process, rebalances, requests, topics, transactions
from broker.http.metrics.exposition import OPENMETRICS, PROMETHEUS, Scrape
from broker.http.shared_scrape import SharedScrape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.app import App
    from broker.http.request import Request

SECTIONS = (
    broker_figures.section,
    requests.section,
    topics.section,
    consumer_groups.section,
    rebalances.section,
    transactions.section,
    process.section,
    process.loop,
)


def metrics(app: App, request: Request) -> Answer:
    """Everything, in OpenMetrics when that is asked for, else in Prometheus' text format."""
    openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
    scrape = app.scrapes.get(openmetrics)
    if scrape is None or not scrape.may_be_joined:

        def over(ended: SharedScrape) -> None:
            if app.scrapes.get(openmetrics) is ended:
                del app.scrapes[openmetrics]

        scrape = app.scrapes[openmetrics] = SharedScrape(_pieces(Scrape(app, openmetrics=openmetrics)), over)
    return Answer(scrape.read(), OPENMETRICS if openmetrics else PROMETHEUS)


def _pieces(scrape: Scrape) -> Iterator[bytes]:
    for section in SECTIONS:
        for text in section(scrape):
            yield text.encode("utf-8", "replace")
    if scrape.openmetrics:
        yield b"# EOF\n"
    for _ in scrape.topics.dissolve():
        yield b""
