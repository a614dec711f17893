"""Since when this process has been there, the interpreter's own start included. Linux; elsewhere as near as can be."""

from __future__ import annotations

import os
import time


def ms_since_process_start() -> int:
    """How long this process has been there."""
    try:
        since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return round((since_boot_s - _started_after_boot_s()) * 1_000)
    except (OSError, AttributeError):
        return round(time.process_time() * 1_000)  # no /proc: the processor time is near it


def process_started_s() -> float:
    """When it began, in seconds since the Unix epoch. Raises: OSError without /proc."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + _started_after_boot_s()


def _started_after_boot_s() -> float:
    with open("/proc/self/stat") as stat:  # noqa: PTH123  pathlib is slower, and this is the start
        started_ticks = int(stat.read().rpartition(")")[2].split()[19])
    return started_ticks / os.sysconf("SC_CLK_TCK")
