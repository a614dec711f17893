"""Spark's daemon of Python workers, but for one complaint: a query that has enough rows closes the worker's connection.

That is how `first()` and `limit` end. The worker, which has rows left to send, ends too, and Spark's own daemon then
writes a trace to standard error, as if something were lost. Spark starts it as `python -m pipeline.worker_daemon`
(`spark.python.daemon.module`), on this machine only.
"""

from __future__ import annotations

import builtins
import sys

from pyspark import daemon


def _say(*words: object, **how: object) -> None:
    """What the daemon prints, unless it is about a connection that Spark has closed."""
    if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
        builtins.print(*words, **how)  # type: ignore[call-overload]  # as it is called there


daemon.print = _say  # type: ignore[attr-defined]  # in front of the builtin, in that module alone

if __name__ == "__main__":
    daemon.manager()
