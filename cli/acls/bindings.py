"""The ACLs and filters that options mean.

Source: Kafka's AclCommand (AclCommandOptions.checkArgs, getResourceToAcls, getProducerResourceToAcls).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from broker.authorization.acl_types import CLUSTER_NAME
from cli.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_ID, _CLUSTER = ResourceType.TRANSACTIONAL_ID, ResourceType.BROKER  # the library's name for what Kafka calls a cluster
_READ, _WRITE, _CREATE, _DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
)
OPERATIONS = {
    one.name.replace("_", ""): one for one in AclOperation if one not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
# What there is to do, by the type of resource.
_KNOWN = {
    _TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    _GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    _ID: "WRITE DESCRIBE ALL",
    _CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
}

Resource = tuple[ResourceType, str]


def resources(options: argparse.Namespace) -> list[Resource]:
    """The resources that the options name."""
    found = [(_TOPIC, name) for name in options.topic] + [(_GROUP, name) for name in options.group]
    found += [(_ID, name) for name in options.transactional_id]
    if options.cluster or getattr(options, "idempotent", False):
        found.append((_CLUSTER, CLUSTER_NAME))
    return found


def bindings(options: argparse.Namespace) -> list[AclBinding]:
    """The ACLs that `add` and `remove` name. Raises: UsageError."""
    pattern = ResourcePatternType[options.resource_pattern_type.upper()]
    made: dict[AclBinding, None] = {}
    for (kind, name), operation in _rights(options):
        for permission, principals, hosts in (
            (AclPermissionType.ALLOW, options.allow_principal, options.allow_host),
            (AclPermissionType.DENY, options.deny_principal, options.deny_host),
        ):
            for principal in principals:
                if ":" not in principal:
                    raise UsageError(f"{principal}: a principal is Type:name, such as User:{principal}")
                for host in hosts or ["*"]:
                    made[AclBinding(kind, name, pattern, principal, host, operation, permission)] = None
    return list(made)


def _rights(options: argparse.Namespace) -> Iterator[tuple[Resource, AclOperation]]:
    if options.producer or options.consumer:
        yield from _of_clients(options)
        return
    for resource in resources(options):
        known = _KNOWN[resource[0]].split()
        for word in options.operation or ["All"]:
            operation = OPERATIONS.get(word.upper().replace("_", ""))
            if operation is None or operation.name not in known:
                raise UsageError(f"--operation {word}: {resource[1]} takes {', '.join(known).lower()}")
            yield resource, operation


def _of_clients(options: argparse.Namespace) -> Iterator[tuple[Resource, AclOperation]]:
    if options.operation:
        raise UsageError("--operation stands without --producer and --consumer")
    if not options.topic:
        raise UsageError("--producer and --consumer take --topic")
    if options.consumer and not options.group:
        raise UsageError("--consumer takes --group")
    if options.producer and options.group and not options.consumer:
        raise UsageError("--group stands with --consumer")
    for name in options.topic:
        wanted = ([_WRITE, _DESCRIBE, _CREATE] if options.producer else []) + ([_READ, _DESCRIBE] * options.consumer)
        yield from (((_TOPIC, name), operation) for operation in wanted)
    if options.consumer:
        yield from (((_GROUP, name), _READ) for name in options.group)
    if options.producer:
        yield from (((_ID, name), operation) for name in options.transactional_id for operation in (_WRITE, _DESCRIBE))
        if options.idempotent:
            yield (_CLUSTER, CLUSTER_NAME), AclOperation.IDEMPOTENT_WRITE


def filters(options: argparse.Namespace) -> list[AclBindingFilter]:
    """What to list, or to remove wholly: everything on the resources that are named, or on all."""
    pattern = ResourcePatternType[options.resource_pattern_type.upper()]
    named = resources(options)
    if not named:
        every = ResourcePatternType.ANY if options.resource_pattern_type == "literal" else pattern
        return [everything(ResourceType.ANY, None, every)]
    return [everything(kind, name, pattern) for kind, name in named]


def everything(kind: ResourceType, name: str | None, pattern: ResourcePatternType) -> AclBindingFilter:
    """All ACLs of one pattern."""
    make: Any = AclBindingFilter  # which is typed as if it took no None
    made: AclBindingFilter = make(kind, name, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY)
    return made


def filter_of(acl: AclBinding) -> AclBindingFilter:
    """The filter that means this ACL; where its pattern is MATCH or ANY, those like it."""
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
    )
