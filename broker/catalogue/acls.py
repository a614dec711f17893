"""What may happen to ACLs: created, found by a filter, deleted. Pure: values in, records or a refusal out.

Source: KIP-140, KIP-290; Kafka's AclControlManager, AclApis, AccessControlEntryFilter, ResourcePatternFilter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.catalogue.kept_records import value_of
from broker.config.host_ranges import network
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from broker.catalogue.cluster_state import ClusterState
    from protocol.messages.create_acls import AclCreation

MOST_CREATIONS = 1_000  # of one request: some ten milliseconds
MOST_DELETIONS = 10_000  # of one request, as in Kafka
CLUSTER_NAME = "kafka-cluster"
DENY = 2
_CLUSTER = 4
_WILDCARD = "*"
_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4
_RESOURCES, _PATTERNS, _OPERATIONS, _PERMISSIONS = range(2, 8), (_LITERAL, _PREFIXED), range(2, 16), (DENY, 3)

Acl = records.AccessControlEntryRecord
Refusal = tuple[ErrorCode, str]


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which ACLs are meant; None and ANY for all. Pattern MATCH: those that cover the resource of this name."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def means(self, acl: Acl) -> bool:
        """Whether this ACL is one of them."""
        return (
            self.resource_type in (_ANY, acl.resource_type)
            and self.operation in (_ANY, acl.operation)
            and self.permission_type in (_ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._means_pattern(acl)
        )

    def _means_pattern(self, acl: Acl) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (_ANY, _MATCH, acl.pattern_type):
            return False
        if name is None or acl.resource_name == name:
            return True
        if wanted != _MATCH:
            return False
        if acl.pattern_type == _LITERAL:
            return bool(acl.resource_name == _WILDCARD)
        return name.startswith(acl.resource_name)

    @property
    def has_unknown(self) -> bool:
        """Whether a code of it is 0, which no client of Kafka's can send."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission_type)

    @property
    def is_out_of_range(self) -> bool:
        """Whether a code of it stands for nothing."""
        return (
            self.resource_type not in (_ANY, *_RESOURCES)
            or self.pattern_type not in (_ANY, _MATCH, *_PATTERNS)
            or self.operation not in (_ANY, *_OPERATIONS)
            or self.permission_type not in (_ANY, *_PERMISSIONS)
        )


def refusal(wish: AclCreation) -> Refusal | None:
    """Why there can be no such ACL."""
    text = None
    if wish.resource_type == _CLUSTER and wish.resource_name != CLUSTER_NAME:
        text = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not wish.resource_name:
        text = "Invalid empty resource name"
    elif wish.resource_type not in _RESOURCES:
        text = f"Invalid resourceType {wish.resource_type}"
    elif wish.resource_pattern_type not in _PATTERNS:
        text = f"Invalid patternType {wish.resource_pattern_type}"
    elif wish.operation not in _OPERATIONS:
        text = f"Invalid operation {wish.operation}"
    elif wish.permission_type not in _PERMISSIONS:
        text = f"Invalid permissionType {wish.permission_type}"
    elif ":" not in wish.principal:
        text = (
            f"Could not parse principal from `{wish.principal}` (no colon is present separating the principal type "
            "from the principal name)"
        )
    elif not wish.host:
        text = "Host pattern cannot be null or empty"
    elif "/" in wish.host and network(wish.host) is None:
        text = f"Invalid CIDR host pattern: {wish.host}"
    return None if text is None else (ErrorCode.INVALID_REQUEST, text)


def create(state: ClusterState, wishes: Iterable[AclCreation], new_uuid: Callable[[], bytes]) -> list[Any]:
    """The records of ACLs that are not there yet."""
    made: dict[tuple[Any, ...], Acl] = {}
    for wish in wishes:
        acl = Acl(
            resource_type=wish.resource_type,
            resource_name=wish.resource_name,
            pattern_type=wish.resource_pattern_type,
            principal=wish.principal,
            host=wish.host,
            operation=wish.operation,
            permission_type=wish.permission_type,
        )
        value = value_of(acl)
        if value not in made and value not in state.kept.acl_ids:
            acl.id = new_uuid()
            made[value] = acl
    return list(made.values())


def delete(state: ClusterState, found: Sequence[Acl]) -> list[Any]:
    """The records that remove these, of those that are still there."""
    ids = dict.fromkeys(acl.id for acl in found)
    return [records.RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids if acl_id in state.kept.acls]
