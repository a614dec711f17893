"""Requests and connections: how many, how long, what waits. Counted by `broker.network.connection` in plain ints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.durations import bound_s
from broker.http.metrics.exposition import histogram
from broker.http.metrics.labels import escaped
from broker.network.memory import NO_BOUND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.handlers.dispatch import Route
    from broker.http.metrics.exposition import Scrape

_FIRST, _LAST = 1, 20  # of the buckets shown: 33 us to 17 s
_BOUNDS_S = [bound_s(bucket) for bucket in range(_FIRST, _LAST + 1)]
_CONNECTIONS_AT_ONCE = 50


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about requests."""
    server = scrape.app.server
    routes = sorted(server.routes.made.values(), key=lambda route: (route.name, route.version))
    name = "kohort_requests_total"
    yield from scrape.many(
        name,
        "counter",
        "Requests answered, by API and version.",
        (f'{{api="{route.name}",version="{route.version}"}} {sum(route.durations)}' for route in routes),
    )
    yield from _durations(scrape, routes)
    yield from _waiting(scrape)
    yield from _memory(scrape)
    yield from _client_metrics(scrape)
    counters = server.counters
    yield scrape.one("kohort_connections", "gauge", "Client connections that are open.", len(server.connections))
    yield scrape.one(
        "kohort_connections_accepted_total", "counter", "Client connections that were made.", counters.accepted
    )
    yield scrape.one(
        "kohort_connections_refused_total",
        "counter",
        "Client connections over a limit, closed.",
        server.admission.refused + server.admission.door.turned_away,
    )
    yield scrape.one(
        "kohort_connections_throttled_total",
        "counter",
        "Client connections that came too fast: they waited, or were closed.",
        server.admission.throttled + server.admission.door.waited,
    )
    yield from _quotas(scrape)
    yield from _security(scrape)
    yield scrape.one(
        "kohort_bad_requests_total",
        "counter",
        "Requests that could not be understood; each ended its connection.",
        counters.bad_frames,
    )
    yield scrape.one(
        "kohort_requests_with_trailing_bytes_total",
        "counter",
        "Requests followed by bytes that are no part of them.",
        counters.requests_with_trailing_bytes,
    )


def _quotas(scrape: Scrape) -> Iterator[str]:
    meters = scrape.app.broker.quotas.meters
    quotas = (meters.produce, meters.fetch, meters.request, meters.mutations)
    yield from scrape.many(
        "kohort_quota_throttled_total",
        "counter",
        "Requests that a quota let wait.",
        (f'{{quota="{quota.key}"}} {quota.throttled}' for quota in quotas),
    )
    yield from scrape.many(
        "kohort_quota_throttle_seconds_total",
        "counter",
        "How long they had to wait together.",
        (f'{{quota="{quota.key}"}} {quota.throttled_ms / 1_000}' for quota in quotas),
    )
    yield from scrape.many(
        "kohort_quota_held",
        "gauge",
        "Users and client ids whose requests a quota has measured lately.",
        (f'{{quota="{quota.key}"}} {len(quota.meters)}' for quota in quotas),
    )


def _security(scrape: Scrape) -> Iterator[str]:
    server = scrape.app.server
    yield scrape.one(
        "kohort_authentications_total", "counter", "Successful SASL authentications.", server.counters.authenticated
    )
    yield scrape.one(
        "kohort_authentications_failed_total",
        "counter",
        "SASL authentications and TLS handshakes that failed.",
        server.failures.total,
    )
    yield scrape.one(
        "kohort_sessions_expired_total",
        "counter",
        "Connections closed since their SASL session had ended.",
        server.counters.sessions_expired,
    )
    yield from scrape.many(
        "kohort_certificate_not_after_seconds",
        "gauge",
        "When a listener's certificate ends, in seconds since 1970.",
        (
            f'{{listener="{escaped(security.name)}"}} {security.tls.loaded.not_after_ms // 1_000}'
            for security in server.securities.values()
            if security.tls is not None
        ),
    )


def _memory(scrape: Scrape) -> Iterator[str]:
    memory = scrape.app.server.memory
    yield scrape.one(
        "kohort_request_memory_bytes",
        "gauge",
        "Memory held by requests that are not handled yet or in flight, and by answers that are not read.",
        memory.used_bytes,
    )
    if memory.limit_bytes < NO_BOUND.requests:
        yield scrape.one(
            "kohort_request_memory_limit_bytes",
            "gauge",
            "How much that may be before connections are not read any further.",
            memory.limit_bytes,
        )
    yield scrape.one(
        "kohort_request_memory_shortages_total",
        "counter",
        "How often connections had to wait until there was memory for their requests.",
        memory.shortages,
    )
    yield scrape.one(
        "kohort_request_memory_evictions_total",
        "counter",
        "Connections closed because they held memory that others waited for, and did nothing.",
        memory.evicted,
    )


def _durations(scrape: Scrape, routes: list[Route]) -> Iterator[str]:
    name = "kohort_request_duration_seconds"
    yield scrape.head(
        name, "histogram", "From a request's arrival until its answer was ready, by API; waiting on purpose included."
    )
    counts: dict[str, list[int]] = {}
    total_ns: dict[str, int] = {}
    for route in routes:
        shown = counts.setdefault(route.name, [0] * (_LAST - _FIRST + 2))
        for bucket, count in enumerate(route.durations):
            if count:
                shown[min(max(bucket, _FIRST), _LAST + 1) - _FIRST] += count
        total_ns[route.name] = total_ns.get(route.name, 0) + route.total_ns
    for api, shown in counts.items():
        yield histogram(name, f'api="{api}"', _BOUNDS_S, shown, total_ns[api] / 1e9)


def _waiting(scrape: Scrape) -> Iterator[str]:
    owed: dict[str, int] = {}
    backlog = 0
    for number, connection in enumerate(list(scrape.app.server.connections)):
        backlog += connection.backlog
        for route in connection.parked():
            owed[route.name] = owed.get(route.name, 0) + 1
        if number % _CONNECTIONS_AT_ONCE == 0:
            yield ""
    yield from scrape.many(
        "kohort_requests_in_flight",
        "gauge",
        "Requests whose answer is owed: joins and fetches that wait, writes that become durable.",
        (f'{{api="{api}"}} {count}' for api, count in sorted(owed.items())),
    )
    yield scrape.one(
        "kohort_requests_queued", "gauge", "Requests that have come and that nobody has looked at yet.", backlog
    )


def _client_metrics(scrape: Scrape) -> Iterator[str]:
    broker = scrape.app.broker
    told = broker.client_metrics
    yield scrape.one(
        "kohort_client_metrics_clients",
        "gauge",
        "Clients that asked lately which metrics to push (KIP-714).",
        told.known(broker.runtime.now_ms()),
    )
    yield from scrape.many(
        "kohort_client_metrics_pushes_total",
        "counter",
        "Pushes of metrics by clients, by error; NONE for those that were taken.",
        (f'{{error="{name}"}} {count}' for name, count in sorted(told.pushes.items())),
    )
    yield scrape.one(
        "kohort_client_metrics_pushed_bytes_total",
        "counter",
        "Bytes of metrics that clients have pushed, as they came.",
        told.pushed_bytes,
    )
