"""The clock that measures, and the locks of worker threads: no other room imports `time` or `threading` (D6).

`perf_counter` and `perf_counter_ns` say how long something took. When something happens is `Runtime.now_ms`'s to say.
"""

from threading import Lock, RLock
from time import perf_counter, perf_counter_ns

__all__ = ["Lock", "RLock", "perf_counter", "perf_counter_ns"]
