"""The two text formats of metrics: Prometheus 0.0.4 and OpenMetrics 1.0. They differ in few places.

A section is a generator of text: whole lines, at most some hundred at a time, or nothing at all to say that some work
was done. All series of a name stand together, after its head.

Source: Prometheus' exposition formats; the OpenMetrics specification, 1.0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.metrics.labels import ESCAPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.http.app import App
    from broker.http.metrics.topic_table import TopicTable

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LINES_AT_ONCE = 100
"""Lines that are written before the clock is looked at."""


class Scrape:
    """One scrape: who is asked, in which format, and what was gathered for it."""

    def __init__(self, app: App, *, openmetrics: bool = False) -> None:
        settings = app.broker.settings
        self.app = app
        self.openmetrics = openmetrics
        self.by_partition: bool = settings.kohort_http_metrics_partitions
        self.by_group: bool = settings.kohort_http_metrics_groups
        self.kminion: bool = settings.kohort_http_metrics_kminion
        self.topics: TopicTable  # made by the section of topics

    def head(self, name: str, kind: str, meaning: str) -> str:
        """The lines before a name's series. `kind`: counter, gauge, histogram, or untyped.

        Gauges whose names end in `_sum`, which are other exporters' names, are untyped: that ending belongs to
        histograms, and `promtool check metrics` says so of any other type.
        """
        if self.openmetrics:
            # A counter's family is named without the ending that all its series have.
            name = name.removesuffix("_total") if kind == "counter" else name
            kind = "unknown" if kind == "untyped" else kind
            meaning = meaning.translate(ESCAPES)
        else:
            meaning = meaning.replace("\\", "\\\\").replace("\n", "\\n")
        return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"

    def one(self, name: str, kind: str, meaning: str, value: float, labels: str = "") -> str:
        """A name with a single series."""
        return f"{self.head(name, kind, meaning)}{name}{labels} {value}\n"

    def many(self, name: str, kind: str, meaning: str, lines: Iterable[str]) -> Iterator[str]:
        """A name with the series that `lines` gives: what follows the name in each, without the end of the line."""
        yield self.head(name, kind, meaning)
        chunk: list[str] = []
        for line in lines:
            if line:
                chunk.append(f"{name}{line}\n")
            if len(chunk) >= LINES_AT_ONCE or not line:
                yield "".join(chunk)
                chunk.clear()
        yield "".join(chunk)


def histogram(name: str, labels: str, bounds_s: Iterable[float], counts: list[int], sum_s: float) -> str:
    """The series of one histogram: `counts[n]` is how many were in bucket n, the last one without an end."""
    lines = []
    total = 0
    comma = "," if labels else ""
    for bound_s, count in zip(bounds_s, counts, strict=False):
        total += count
        lines.append(f'{name}_bucket{{{labels}{comma}le="{bound_s!r}"}} {total}\n')
    total = sum(counts)
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f'{name}_bucket{{{labels}{comma}le="+Inf"}} {total}\n')
    lines.append(f"{name}_sum{braces} {sum_s!r}\n{name}_count{braces} {total}\n")
    return "".join(lines)
