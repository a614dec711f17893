"""The clock that measures, and the lock of worker threads: no other room imports `time` or `threading` (D6).

`perf_counter` and `perf_counter_ns` say how long something took. When something happens is `Runtime.now_ms`'s to say.
"""

from threading import Lock
from time import perf_counter, perf_counter_ns

__all__ = ["Lock", "perf_counter", "perf_counter_ns"]
