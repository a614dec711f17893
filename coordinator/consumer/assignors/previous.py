"""What members may keep of the target so far."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from coordinator.consumer.assignor import AssignmentSpec
from coordinator.consumer.assignors.hash_order import PIECE

NOBODY = -1


def owners_so_far(
    spec: AssignmentSpec, member_ids: Sequence[str]
) -> Generator[None, None, tuple[dict[bytes, list[int]], list[dict[bytes, Sequence[int]]]]]:
    """For each topic the index of each partition's owner, and for each member what it keeps, by topic.

    A member keeps of its target what it still subscribes to and what still exists. Of a partition that stands in two
    targets, which no history of ours writes, the first of the two keeps it: nothing is ever given to two.
    """
    owners = {topic_id: [NOBODY] * topic.partition_count for topic_id, topic in spec.topics.items()}
    kept: list[dict[bytes, Sequence[int]]] = []
    work = 0
    for index, member_id in enumerate(member_ids):
        member = spec.members[member_id]
        keeps: dict[bytes, Sequence[int]] = {}
        for topic_id, partitions in member.target.items():
            of_topic = owners.get(topic_id)
            if of_topic is None or topic_id not in member.topic_ids:
                continue
            count = len(of_topic)
            valid: list[int] = []
            for partition in partitions:
                if partition < count and of_topic[partition] == NOBODY:
                    of_topic[partition] = index
                    valid.append(partition)
            work += len(partitions)
            if valid:
                keeps[topic_id] = valid
        kept.append(keeps)
        work += 1
        if work >= PIECE:
            work = 0
            yield
    return owners, kept
