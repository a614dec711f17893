"""Which node leads which partition: the only place that may learn of other nodes. Today it is this one (D8)."""

from __future__ import annotations


class Placement:
    """A cluster of one node."""

    __slots__ = ("node_id",)

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id

    def leader_of(self, topic: str, partition: int) -> int:  # the seam has the arguments before it has other nodes
        """The node that leads the partition."""
        return self.node_id
