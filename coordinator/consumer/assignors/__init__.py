"""The assignors of the broker: `uniform` and `range`, with Kafka's results.

`assignors/hash_order.py` says where Kafka's result hangs on the order of a hash table, and gives that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coordinator.consumer.assignor import Assignor
from coordinator.consumer.assignors.range_assignor import RangeAssignor
from coordinator.consumer.assignors.uniform import UniformAssignor

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {assignor.name: assignor for assignor in (UniformAssignor(), RangeAssignor())}
)
"""By name, in the order of the default of `group.consumer.assignors`."""
