"""Which partition of `__consumer_offsets` a group belongs to.

Source: Kafka's GroupCoordinatorService.partitionFor, Utils.abs, java.lang.String.hashCode.
"""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """The hash of Java's `String`: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    # "surrogatepass": a lone surrogate is a code unit like any other to Java.
    encoded = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` that holds everything of this group."""
    value = java_hash(group_id)
    # Kafka's abs: the smallest integer has no positive counterpart and gives 0.
    return 0 if value == -0x8000_0000 else abs(value) % partition_count
