"""`uniform`: as many partitions to each member as to any other, and as few moves as that allows.

Two algorithms: one for groups whose members all subscribe to the same topics, which always balances to a difference of
one, and one for all others, which comes close to it. Which one is the group's to say, as in Kafka (`homogeneous`).

Source: Kafka's UniformAssignor.
"""

from __future__ import annotations

from coordinator.consumer.assignor import AssignmentSpec, Steps
from coordinator.consumer.assignors.uniform_heterogeneous import heterogeneous
from coordinator.consumer.assignors.uniform_homogeneous import homogeneous


class UniformAssignor:
    """Kafka's `uniform`, the default."""

    name = "uniform"

    def steps(self, spec: AssignmentSpec) -> Steps:
        """The target, in pieces."""
        if not spec.members:
            return {}
        return (yield from (homogeneous(spec) if spec.homogeneous else heterogeneous(spec)))
