"""The process, under the names that every Prometheus client uses. Linux; elsewhere what cannot be known is left out."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from broker.http.metrics.labels import escaped
from broker.loop.process_age import process_started_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.metrics.exposition import Scrape


def section(scrape: Scrape) -> Iterator[str]:
    """CPU, memory, files, and since when."""
    times = os.times()
    yield scrape.one(
        "process_cpu_seconds_total",
        "counter",
        "Total user and system CPU time spent in seconds.",
        round(times.user + times.system, 2),
    )
    try:
        pages = Path("/proc/self/statm").read_text().split()
        started_s = process_started_s()
        files = _open_files()
    except OSError:
        return
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    yield scrape.one(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", int(pages[0]) * page_bytes
    )
    yield scrape.one(
        "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", int(pages[1]) * page_bytes
    )
    yield scrape.one(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        round(started_s, 2),
    )
    yield scrape.one("process_open_fds", "gauge", "Number of open file descriptors.", files)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield scrape.one("process_max_fds", "gauge", "Maximum number of open file descriptors.", limit)


def loop(scrape: Scrape) -> Iterator[str]:
    """Who held the loop, and for how long, and whether it sleeps. Source: `broker.loop.stalls`, `busy_polling`."""
    runtime = scrape.app.broker.runtime
    stalls = runtime.stalls
    yield from scrape.many(
        "kohort_loop_longest_stall_seconds",
        "gauge",
        "The longest that all others had to wait for one turn of the loop, by the API or task that took most of it.",
        (f'{{api="{escaped(name)}"}} {took_ns / 1e9}' for name, took_ns in sorted(stalls.longest_ns.items())),
    )
    yield from scrape.many(
        "kohort_loop_stalls_total",
        "counter",
        "Turns of the loop in which others had to wait for more than 50 ms, by what took most of it.",
        (f'{{api="{escaped(name)}"}} {count}' for name, count in sorted(stalls.counts.items())),
    )
    yield scrape.one(
        "kohort_loop_stall_seconds_total",
        "counter",
        "Time of all turns of the loop in which somebody took more than 2 ms.",
        stalls.total_ns / 1e9,
    )
    yield scrape.one(
        "kohort_loop_awake",
        "gauge",
        "1 while the loop looks for the next request after each instead of sleeping at once: up to a core.",
        int(runtime.busy_polling.awake),
    )


def _open_files() -> int:
    """Since Linux 6.2 the folder's size is their number; listing ten thousand would take ten milliseconds."""
    path = Path("/proc/self/fd")
    return path.stat().st_size or sum(1 for _ in path.iterdir())
