"""The orders in which Kafka comes upon members, topics and partitions, where they are those of a Java hash table.

Kafka's `uniform` goes through the members in the order of a `HashMap` of their ids, through the topics in that of a
`HashSet` of theirs, and through what a member had in that of a `HashMap` and a `HashSet`. Who gets the odd partition,
and which ones move, hangs on it. These functions give the same orders, so that the same group gets the same target.

A table's order is: buckets ascending, and within a bucket as things were put in. What was put in first is known of
members (`member_order`); topics and partitions are taken ascending. Not followed: a bucket of more than eight, which
Java answers with a larger table or a tree.

Source: java.util.HashMap, HashSet; Kafka's TimelineHashMap, BaseHashTable, OverlayMap, Uuid.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Mapping, Sequence

from coordinator.routing import java_hash

PIECE = 1_000
"""How much is done between two yields, in turns of an inner loop of some 0.3 to 3 us each."""

UUID_WORDS = struct.Struct(">4I")
UUID_HALVES = struct.Struct(">2q")
FIBONACCI = -7046029254386353131  # 2^64 / golden ratio, as Java's signed long


def member_order(member_ids: Iterable[str], newcomer: str | None = None) -> Generator[None, None, list[str]]:
    """The members as Kafka's assignors see them. `member_ids` are in the order in which they joined.

    Kafka goes through the `TimelineHashMap` in which it keeps its members and puts them into a `HashMap`; the one whose
    first heartbeat this is (`newcomer`) comes last. The first table never shrinks; here it is taken to be as large as
    the members of now need.
    """
    ids = list(member_ids)
    spread: dict[str, int] = {}
    slots: dict[int, list[str]] = {}
    shift = _timeline_shift(len(ids) - (newcomer in ids))
    for at, member_id in enumerate(ids):
        code = java_hash(member_id)
        spread[member_id] = _spread(code)
        if member_id != newcomer:
            slots.setdefault(((code * FIBONACCI) & 0xFFFF_FFFF_FFFF_FFFF) >> shift, []).append(member_id)
        if at % PIECE == PIECE - 1:
            yield
    # Within a slot Kafka's iterator gives the newest first.
    met = [member_id for slot in sorted(slots) for member_id in reversed(slots[slot])]
    if newcomer is not None and newcomer in spread:
        met.append(newcomer)
    yield
    mask = _grown_table(len(ids)) - 1
    buckets: dict[int, list[str]] = {}
    for member_id in met:
        buckets.setdefault(spread[member_id] & mask, []).append(member_id)
    yield
    return [member_id for bucket in sorted(buckets) for member_id in buckets[bucket]]


def topic_set_order(topic_ids: Iterable[bytes]) -> list[bytes]:
    """Topics as a `HashSet` that was made of a collection gives them."""
    topics = sorted(topic_ids, key=UUID_HALVES.unpack)
    mask = _copied_table(len(topics)) - 1
    return sorted(topics, key=lambda topic_id: _spread(_uuid_hash(topic_id)) & mask)


def topic_map_order(topic_ids: Iterable[bytes]) -> list[bytes]:
    """Topics as a `HashMap` gives them into which they were put one by one."""
    topics = sorted(topic_ids, key=UUID_HALVES.unpack)
    mask = _grown_table(len(topics)) - 1
    return sorted(topics, key=lambda topic_id: _spread(_uuid_hash(topic_id)) & mask)


def partition_set_order(partitions: Sequence[int]) -> Sequence[int]:
    """Ascending partitions as a `HashSet` that was made of them gives them."""
    mask = _copied_table(len(partitions)) - 1
    if partitions and partitions[-1] <= mask:
        return partitions
    return sorted(partitions, key=lambda partition: _spread(partition) & mask)


def topic_sort_key(topic_id: bytes) -> tuple[int, ...]:
    """What Kafka compares topic ids by: two signed halves."""
    return UUID_HALVES.unpack(topic_id)


def utf16_key(text: str) -> bytes:
    """What Java compares strings by: UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def instances_first(instance_ids: Mapping[str, str | None]) -> list[str]:
    """Member ids in the order of `range`: static members by instance id, then the others by member id."""
    static = [member_id for member_id, instance_id in instance_ids.items() if instance_id is not None]
    dynamic = [member_id for member_id, instance_id in instance_ids.items() if instance_id is None]
    static.sort(key=lambda member_id: utf16_key(instance_ids[member_id] or ""))
    # Of ASCII the order is the same without a key, and ten thousand are sorted in a third of the time.
    dynamic.sort(key=None if all(map(str.isascii, dynamic)) else utf16_key)
    return static + dynamic


def _spread(code: int) -> int:
    """`HashMap.hash`: its low bits choose the bucket."""
    code &= 0xFFFF_FFFF
    return code ^ code >> 16


def _uuid_hash(topic_id: bytes) -> int:
    one, two, three, four = UUID_WORDS.unpack(topic_id)
    return int(one ^ two ^ three ^ four)


def _grown_table(count: int) -> int:
    """Buckets of a `HashMap` that began empty: it doubles when it is more than three quarters full."""
    size = 16
    while count > size * 3 // 4:
        size *= 2
    return size


def _copied_table(count: int) -> int:
    """Buckets of a `HashSet` made of a collection: Java 17's. From Java 19 on, twelve fit into sixteen."""
    return 1 << int(max(count / 0.75 + 1, 16) - 1).bit_length()


def _timeline_shift(count: int) -> int:
    """By how many bits a 64-bit hash is shifted to give the slot in a `TimelineHashMap` of this size."""
    bits = 1
    while count * 0.75 > 1 << bits:
        bits += 1
    return 64 - bits
