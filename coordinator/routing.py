"""Which partition of `__consumer_offsets` a group belongs to.

Source: Kafka's GroupCoordinatorService.partitionFor, Utils.abs, java.lang.String.hashCode.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence


def java_hash(text: str) -> int:
    """The hash of Java's `String`: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units: Sequence[int]
    if text.isascii():
        units = text.encode()
    else:
        # "surrogatepass": a lone surrogate is a code unit like any other to Java.
        encoded = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    # Cut to 32 bits once in a while instead of at each unit: a target for ten thousand members hashes all their ids.
    for start in range(0, len(units), 64):
        for unit in units[start : start + 64]:
            value = 31 * value + unit
        value &= 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` that holds everything of this group."""
    value = java_hash(group_id)
    # Kafka's abs: the smallest integer has no positive counterpart and gives 0.
    return 0 if value == -0x8000_0000 else abs(value) % partition_count
