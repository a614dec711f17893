"""`python -m benchmarks.loop_clock serve ...`: the broker, whose loop measures by the CPU time of its own thread.

What its metrics then call a stall (`kohort_loop_longest_stall_seconds`) is what an API has cost the loop, however busy
the machine is with others. What the loop waits for (a disk, the lock of the interpreter) is not in it.
"""

import sys
import time

from broker.loop import loop_runtime


def main() -> None:
    """Run the program with the other clock."""
    loop_runtime.perf_counter_ns = time.thread_time_ns

    from kohort.__main__ import main as kohort  # noqa: PLC0415  behind the clock

    sys.exit(kohort())


if __name__ == "__main__":
    main()
