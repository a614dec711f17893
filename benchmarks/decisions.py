"""What does a decision cost a request? One that is remembered: allowed, and refused.

Of the broker's own `Rights`, in a loop, less what the loop costs; the least of thirty runs.
"""

import io
import time
from timeit import repeat

from benchmarks.common import machine
from broker.authorization.authorizer import Authorizer, Rights
from broker.loop import logs

TIMES = 20_000


def rights(*, everyone: bool) -> Rights:
    """Of somebody who may everything, or nothing."""
    judge = Authorizer(
        (), super_users=(), allow_everyone=everyone, now_ms=lambda: time.monotonic_ns() // 1_000_000, at=lambda *_: None
    )
    return judge.rights("User:somebody", "127.0.0.1")


def least_us(statement: str, names: dict[str, object]) -> float:
    """Of one time."""
    return min(repeat(statement, globals=names, number=TIMES, repeat=30)) / TIMES * 1e6


def main() -> None:
    """Measure and print."""
    logs.configure(level="info", stream=io.StringIO())
    print(machine())
    for name, everyone in (("allowed", True), ("refused", False)):
        names: dict[str, object] = {"may": rights(everyone=everyone).may}
        took_us = least_us("may(3, 3, 'a-group')", names) - least_us("pass", names)
        print(f"{name:8} {took_us:5.2f} us")


if __name__ == "__main__":
    main()
