"""How long things took, counted in buckets: a count costs one shift, one `bit_length` and one addition.

Bucket n holds the durations below 2**n units of 2**`DURATION_SHIFT` ns (16.4 us) and not below half of that. Their ends
are 16 us, 33 us, 66 us, ... 0.54 s, 1.07 s, ...
"""

from __future__ import annotations

DURATION_SHIFT = 14
DURATION_BUCKETS = 52
"""As many as 64 bits of ns can need: nobody has to check the index."""


def bound_s(bucket: int) -> float:
    """The duration that bucket `bucket` ends below, in seconds."""
    return (1 << (bucket + DURATION_SHIFT)) / 1_000_000_000
