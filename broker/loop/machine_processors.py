"""How many processors this process may have.

Source: Linux's cgroup v2 and v1 (CFS bandwidth control), sched_setaffinity(2).
"""

from __future__ import annotations

import os
from contextlib import suppress

from broker.loop.cgroups import of_all_groups, of_the_container


def processors() -> float:
    """The smallest limit of the container's groups and of what the process may run on."""
    try:
        limits = [float(len(os.sched_getaffinity(0)))]
    except (AttributeError, OSError):  # macOS has no such call
        limits = [float(os.cpu_count() or 1)]
    quotas = [text.split() for text in of_all_groups("cpu.max")]
    quotas.append([of_the_container("cpu", f"cpu.cfs_{name}_us") for name in ("quota", "period")])
    for quota in quotas:
        with suppress(ValueError, ZeroDivisionError):  # "max", and not two numbers where there is no file
            quota_us, period_us = map(int, quota)
            if quota_us > 0:
                limits.append(quota_us / period_us)
    return min(limits)
