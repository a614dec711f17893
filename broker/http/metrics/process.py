"""The process, under the names that every Prometheus client uses. Linux; elsewhere what cannot be known is left out."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

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
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
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
    started_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    yield scrape.one(
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
        round(started_s, 2),
    )
    yield scrape.one("process_open_fds", "gauge", "Number of open file descriptors.", files)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield scrape.one("process_max_fds", "gauge", "Maximum number of open file descriptors.", limit)


def _open_files() -> int:
    """Since Linux 6.2 the folder's size is their number; listing ten thousand would take ten milliseconds."""
    path = Path("/proc/self/fd")
    return path.stat().st_size or sum(1 for _ in path.iterdir())
