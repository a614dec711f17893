"""Who may do what. Every handler asks here first (D13); today the answer is always yes.

Source: KIP-11; Kafka's AclOperation and ResourceType, whose numbers these are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.handlers.context import RequestContext


class Operation(IntEnum):
    """What a principal wants to do to a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """The kinds of things that rights are given on."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME = "kafka-cluster"

# The operations that exist per resource, as the bit field of the `*_authorized_operations` response fields.
_OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8),
}
_OPERATION_BITS = {kind: sum(1 << number for number in numbers) for kind, numbers in _OPERATIONS.items()}


def authorize(context: RequestContext, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
    """Whether the principal of `context` may do `operation` on the `resource` of this name."""
    return True


def authorized_operations(context: RequestContext, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
    """What the principal may do on the resource, as the bit field of the `*_authorized_operations` fields."""
    return _OPERATION_BITS[resource]
