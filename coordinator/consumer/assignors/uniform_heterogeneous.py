"""`uniform` where members subscribe to different topics: as even as going through the topics one by one makes it.

Everybody keeps what it had. Of each topic, those with most partitions per subscriber first, what is free goes to the
least loaded of its subscribers; then, topic by topic and up to sixteen times, the most loaded give to the least loaded
until they differ by one. A chain of topics that share only some subscribers may stay uneven along its length.

Source: Kafka's UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from coordinator.consumer.assignor import AssignmentSpec, Steps
from coordinator.consumer.assignors.hash_order import PIECE, member_order, topic_sort_key
from coordinator.consumer.assignors.levelling import Levels
from coordinator.consumer.assignors.previous import NOBODY, owners_so_far
from coordinator.consumer.assignors.subscribers import subscribers_by_topic

ROUNDS_MAX = 16


def heterogeneous(spec: AssignmentSpec) -> Steps:
    """The target, in pieces. There is at least one member."""
    members = yield from member_order(spec.members, spec.newcomer)
    subscribers = yield from subscribers_by_topic(spec, members)
    owners, kept = yield from owners_so_far(spec, members)
    loads = [sum(map(len, keeps.values())) for keeps in kept]
    yield

    topics = _topics_in_turn(spec, subscribers)
    for topic_id in topics:
        yield from _give_free(owners[topic_id], subscribers[topic_id], loads)
    yield from _balance([(owners[topic_id], subscribers[topic_id]) for topic_id in topics], loads)

    target: dict[str, dict[bytes, list[int]]] = {}
    work = 0
    for topic_id in topics:
        for partition, owner in enumerate(owners[topic_id]):
            target.setdefault(members[owner], {}).setdefault(topic_id, []).append(partition)
            work += 1
            if work == PIECE:
                work = 0
                yield
    done: dict[str, dict[bytes, tuple[int, ...]]] = {}
    for member_id, partitions in target.items():
        done[member_id] = {topic_id: tuple(some) for topic_id, some in partitions.items()}
        work += 1 + len(partitions)
        if work >= PIECE:
            work = 0
            yield
    return done


def _topics_in_turn(spec: AssignmentSpec, subscribers: Mapping[bytes, Sequence[int]]) -> list[bytes]:
    """Most partitions per subscriber first, then fewest subscribers: the topics that leave the least choice."""

    def turn(topic_id: bytes) -> tuple[float, int, tuple[int, ...]]:
        count = len(subscribers[topic_id])
        return -spec.topics[topic_id].partition_count / count, count, topic_sort_key(topic_id)

    return sorted(subscribers, key=turn)


def _give_free(owners: list[int], subscribers: Sequence[int], loads: list[int]) -> Generator[None, None, None]:
    """The free partitions of one topic go to its least loaded subscribers."""
    free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
    if not free:
        return
    levels = Levels(subscribers, loads)
    yield
    for done, partition in enumerate(free, 1):
        member = levels.next_least()
        owners[partition] = member
        loads[member] += 1
        if done % PIECE == 0:
            yield


def _balance(topics: Sequence[tuple[list[int], Sequence[int]]], loads: list[int]) -> Generator[None, None, None]:
    """Partitions move until a whole round over the topics found nothing to move."""
    shared = [(owners, subscribers) for owners, subscribers in topics if len(subscribers) > 1]
    last_moved: int | None = None
    work = 0
    for _ in range(ROUNDS_MAX):
        for at, (owners, subscribers) in enumerate(shared):
            if at == last_moved:
                return
            work += len(subscribers)
            if work >= 5 * PIECE:  # these turns are short ones
                work = 0
                yield
            some = list(map(loads.__getitem__, subscribers))
            moved = 0
            if max(some) - min(some) > 1:
                moved = yield from _level(owners, subscribers, loads)
            if moved or last_moved is None:
                last_moved = at


def _level(owners: list[int], subscribers: Sequence[int], loads: list[int]) -> Generator[None, None, int]:
    """Partitions of one topic move from its most to its least loaded subscribers. Returns how many did."""
    levels = Levels(subscribers, loads)
    owned: dict[int, list[int]] = {}
    for partition, owner in enumerate(owners):
        owned.setdefault(owner, []).append(partition)
    yield
    moved = work = 0
    while not levels.are_level():
        giver = levels.next_most()
        while giver is not None and not owned.get(giver):
            levels.set_aside()
            giver = levels.next_most()
            work += 1
        if giver is None:
            break
        work += 1
        if work >= PIECE:
            work = 0
            yield
        partition = owned[giver].pop()
        taker = levels.next_least()
        if levels.are_level():
            break
        owners[partition] = taker
        loads[giver] -= 1
        loads[taker] += 1
        moved += 1
    return moved
