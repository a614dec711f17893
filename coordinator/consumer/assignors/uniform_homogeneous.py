"""`uniform` where all members subscribe to the same topics: shares that differ by at most one.

Everybody keeps what it had up to its share; what is left over goes, in one sweep, to those who have less. Members that
had the larger share tend to keep it.

Source: Kafka's UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.consumer.assignor import AssignmentSpec, Partitions, Steps
from coordinator.consumer.assignors.hash_order import (
    PIECE,
    member_order,
    partition_set_order,
    topic_map_order,
    topic_set_order,
)
from coordinator.consumer.assignors.previous import NOBODY, owners_so_far


def homogeneous(spec: AssignmentSpec) -> Steps:
    """The target, in pieces. There is at least one member."""
    members = yield from member_order(spec.members, spec.newcomer)
    topic_ids = spec.members[members[0]].topic_ids
    owners, kept = yield from owners_so_far(spec, members)

    free: list[tuple[bytes, int]] = []
    total = work = 0
    for topic_id in topic_set_order(topic_ids):
        of_topic = owners[topic_id]
        total += len(of_topic)
        for partition, owner in enumerate(of_topic):
            if owner == NOBODY:
                free.append((topic_id, partition))
            work += 1
            if work == PIECE:
                work = 0
                yield

    share, larger_shares = divmod(total, len(members))
    unfilled: list[tuple[int, int]] = []
    for index, keeps in enumerate(kept):
        has_larger = larger_shares > 0
        left = share + has_larger
        had = sum(map(len, keeps.values()))
        if had > left:
            _cut(keeps, spec.members[members[index]].target, left, free)
            work += had
        left = max(0, left - had)
        # One below the larger share need not get it, as long as enough members come after it that can.
        if left and has_larger and len(members) - index > larger_shares:
            left -= 1
            has_larger = False
        if left:
            unfilled.append((index, left))
        larger_shares -= has_larger
        work += 1
        if work >= PIECE:
            work = 0
            yield

    at = 0
    for index, left in unfilled:
        gets = kept[index]
        for topic_id, partition in free[at : at + left]:
            partitions = gets.get(topic_id)
            if type(partitions) is list:
                partitions.append(partition)
            else:
                gets[topic_id] = [*(partitions or ()), partition]
            work += 1
            if work >= PIECE:
                work = 0
                yield
        at += left
    assert at >= len(free), "partitions were left over"

    target: dict[str, dict[bytes, tuple[int, ...]]] = {}
    for index, keeps in enumerate(kept):
        if keeps:
            target[members[index]] = {topic_id: tuple(sorted(partitions)) for topic_id, partitions in keeps.items()}
        work += 1 + len(keeps)
        if work >= PIECE:
            work = 0
            yield
    return target


def _cut(keeps: dict[bytes, Sequence[int]], had: Partitions, share: int, free: list[tuple[bytes, int]]) -> None:
    """Take from a member what it has above its share. Topics that fit stay whole."""
    for topic_id in topic_map_order(had):
        partitions = keeps.get(topic_id, ())
        if len(partitions) <= share:
            share -= len(partitions)
            continue
        in_order = partition_set_order(partitions)
        free += [(topic_id, partition) for partition in in_order[share:]]
        if share:
            keeps[topic_id] = in_order[:share]
        else:
            del keeps[topic_id]
        share = 0
