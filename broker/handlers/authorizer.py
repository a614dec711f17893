"""What handlers ask before they answer (D13): whether the principal of a request may do something.

Without `authorizer.class.name` everybody may do everything.

Source: KIP-11, KIP-430, KIP-679; Kafka's AuthHelper.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.authorization.acl_types import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.handlers.context import RequestContext

__all__ = [
    "CLUSTER_NAME",
    "Operation",
    "ResourceType",
    "authorize",
    "authorize_by_name",
    "authorize_on_any",
    "authorized_operations",
    "cluster_operations",
    "probe",
]

# The operations that exist per resource, as the bit field of the `*_authorized_operations` response fields.
_OPERATIONS = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
}
_OPERATION_BITS = {kind: sum(1 << number for number in numbers) for kind, numbers in _OPERATIONS.items()}


def authorize(context: RequestContext, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
    """Whether the principal of `context` may do `operation` on the `resource` of this name; a refusal is told."""
    rights = context.rights
    if rights is None:
        return True
    if (operation, resource, name) in rights.verdicts and rights.generation == rights.authorizer.generation:
        return True
    return rights.may(operation, resource, name)


def authorize_by_name(context: RequestContext, operation: int, resource: int) -> Callable[[str], bool] | None:
    """`authorize`, for names that are known later; None where everybody may do everything."""
    return None if context.rights is None else partial(authorize, context, operation, resource)


def probe(context: RequestContext, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
    """As `authorize`, where a no refuses nothing: it leaves out, or asks for another right. Nothing is told."""
    return context.rights is None or context.rights.may(operation, resource, name, tell=False)


def authorize_on_any(context: RequestContext, operation: int, resource: int) -> bool:
    """Whether the principal may do it on some resource of a type, whichever."""
    return context.rights is None or context.rights.may_on_any(operation, resource)


def authorized_operations(context: RequestContext, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
    """What the principal may do on the resource, as the bit field of the `*_authorized_operations` fields."""
    rights = context.rights
    if rights is None:
        return _OPERATION_BITS[resource]
    return sum(1 << number for number in _OPERATIONS[resource] if rights.may(number, resource, name, tell=False))


def cluster_operations(context: RequestContext) -> int:
    """What the principal may do on the cluster, in the same form; nothing without DESCRIBE on it."""
    if not probe(context, Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER)
