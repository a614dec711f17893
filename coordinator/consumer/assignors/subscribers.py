"""Who subscribes to which topic."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from coordinator.consumer.assignor import AssignmentSpec
from coordinator.consumer.assignors.hash_order import PIECE


def subscribers_by_topic(
    spec: AssignmentSpec, member_ids: Sequence[str]
) -> Generator[None, None, dict[bytes, Sequence[int]]]:
    """Topic id -> the indexes of its subscribers in `member_ids`, ascending; the topics in the same order every time.

    Ten thousand members with a hundred topics each are a million subscriptions, but in few different sets as a rule. So
    members are gathered by their set first, and a topic's subscribers are put together from whole lists.
    """
    members = spec.members
    by_set: dict[frozenset[bytes], list[int]] = {}
    work = 0
    for index, member_id in enumerate(member_ids):
        topic_ids = members[member_id].topic_ids
        same = by_set.get(topic_ids)
        if same is None:
            by_set[topic_ids] = [index]
            work += len(topic_ids)
        else:
            same.append(index)
        work += 1
        if work >= PIECE:
            work = 0
            yield

    lists: dict[bytes, list[list[int]]] = {}
    for topic_ids, indexes in by_set.items():
        for topic_id in sorted(topic_ids):  # a set's own order is another one in every process
            lists.setdefault(topic_id, []).append(indexes)
        work += len(topic_ids)
        if work >= PIECE:
            work = 0
            yield

    subscribers: dict[bytes, Sequence[int]] = {}
    for topic_id, some in lists.items():
        if len(some) == 1:
            subscribers[topic_id] = some[0]  # Shared between topics: nobody changes it.
        else:
            together = [index for indexes in some for index in indexes]
            together.sort()
            subscribers[topic_id] = together
            work += len(together)
        if work >= 5 * PIECE:  # these turns are short ones
            work = 0
            yield
    return subscribers
