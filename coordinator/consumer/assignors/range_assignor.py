"""`range`: of each topic, one run of neighbouring partitions to each subscriber, in the order of the members.

Topics with as many partitions and the same subscribers are co-partitioned: partition n of each goes to one member. What
members had does not matter; static members come first, by instance id, so that a restart leaves everything in place.

Source: Kafka's RangeAssignor.
"""

from __future__ import annotations

from coordinator.consumer.assignor import AssignmentSpec, Steps
from coordinator.consumer.assignors.hash_order import PIECE, instances_first
from coordinator.consumer.assignors.subscribers import subscribers_by_topic


class RangeAssignor:
    """Kafka's `range`. Its result hangs on nothing but what is in the specification."""

    name = "range"

    def steps(self, spec: AssignmentSpec) -> Steps:
        """The target, in pieces."""
        members = instances_first({member.member_id: member.instance_id for member in spec.members.values()})
        yield
        subscribers = yield from subscribers_by_topic(spec, members)
        target: dict[str, dict[bytes, tuple[int, ...]]] = {}
        work = 0
        for topic_id, indexes in subscribers.items():
            count = spec.topics[topic_id].partition_count
            quota, extra = divmod(count, len(indexes))
            start = 0
            for at, index in enumerate(indexes):
                if start == count:
                    break  # More subscribers than partitions: the rest get none.
                end = start + quota + (at < extra)
                target.setdefault(members[index], {})[topic_id] = tuple(range(start, end))
                start = end
                work += 1
                if work == PIECE:
                    work = 0
                    yield
        return target
