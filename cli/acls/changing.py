"""ACLs listed, added, removed; printed as Kafka's tool prints them.

They are listed over a connection of our own: to the client library a DescribeAcls that is refused has found nothing.

Source: Kafka's AclCommand.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka.admin import ResourcePatternType

from broker.authorization.acl_types import Operation, PatternType, Permission, ResourceType
from cli.acls.bindings import bindings, filter_of, filters
from cli.cluster import Cluster, said
from cli.errors import DONE, Failed, UsageError
from cli.options import print_json
from cli.tables import plain
from cli.wire import told
from protocol.messages.describe_acls import DescribeAclsRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from enum import IntEnum

_VERSION = 1
# Their fields are typed as what the library takes for them; it always gives enums.
Binding = Any
Filter = Any


class Acl(NamedTuple):
    """One ACL in Kafka's words, as --json has it."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


def list_acls(options: argparse.Namespace) -> int:
    """Print ACLs. Raises: Failed."""
    cluster = Cluster(options)
    found = _found(cluster, filters(options))
    if options.principal:
        found = [acl for acl in found if acl.principal in options.principal]
    if options.json:
        print_json([acl._asdict() for acl in found])
    else:
        _print_all("Current", found)
    return DONE


def add(options: argparse.Namespace) -> int:
    """Make the ACLs that are named, and print them. Raises: Failed, UsageError."""
    wanted = bindings(options)
    if not wanted:
        raise UsageError("add takes a resource, such as --topic, and --allow-principal or --deny-principal")
    if any(acl.resource_pattern_type not in (_LITERAL, _PREFIXED) for acl in wanted):
        raise UsageError(f"--resource-pattern-type {options.resource_pattern_type}: an ACL is literal or prefixed")
    cluster = Cluster(options)
    _print_all("Adding", map(_of_binding, wanted))
    _, errors = cluster.results(cluster.admin.create_acls(wanted, request_timeout=cluster.timeout_s))
    for error in errors.values():
        raise Failed(said(error))
    return DONE


def remove(options: argparse.Namespace) -> int:
    """Take ACLs away. Raises: Failed, UsageError."""
    wanted = bindings(options)
    means = [filter_of(acl) for acl in wanted] or filters(options)
    if not (wanted or options.topic or options.group or options.transactional_id or options.cluster):
        raise UsageError("remove takes a resource, such as --topic")
    if not options.force:
        what = "\n".join(_line(_of_binding(acl)) for acl in wanted) or "all ACLs of these resources"
        print(f"Are you sure you want to remove ACLs: \n{what}\n (y/n)", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return DONE
    cluster = Cluster(options)
    _, errors = cluster.results(cluster.admin.delete_acls(means, request_timeout=cluster.timeout_s))
    for error in errors.values():
        raise Failed(said(error))
    return DONE


_LITERAL, _PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


def _found(cluster: Cluster, wanted: Iterable[Filter]) -> list[Acl]:
    """The ACLs that any of the filters means, each once. Raises: Failed."""
    found: dict[Acl, None] = {}
    for one in wanted:
        request = DescribeAclsRequest(
            resource_type_filter=one.restype.value,
            resource_name_filter=one.name,
            pattern_type_filter=one.resource_pattern_type.value,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation.value,
            permission_type=one.permission_type.value,
        )
        answer = cluster.ask(request, _VERSION)
        if answer.error_code:
            raise Failed(told(answer))
        for resource in answer.resources:
            kind, pattern = _word(ResourceType, resource.resource_type), _word(PatternType, resource.pattern_type)
            place = kind, resource.resource_name, pattern
            for acl in resource.acls:
                right = _word(Operation, acl.operation), _word(Permission, acl.permission_type)
                found[Acl(*place, acl.principal, acl.host, *right)] = None
    return list(found)


def _word(words: type[IntEnum], number: int) -> str:
    """Kafka's word for a number of the wire; what is newer is UNKNOWN, as to Kafka's own tools."""
    return words(number).name if number in set(words) else "UNKNOWN"


def _of_binding(acl: Binding) -> Acl:
    kind, pattern = _word(ResourceType, acl.restype.value), acl.resource_pattern_type.name
    return Acl(kind, acl.name, pattern, acl.principal, acl.host, acl.operation.name, acl.permission_type.name)


def _print_all(word: str, acls: Iterable[Acl]) -> None:
    grouped: dict[tuple[str, str, str], list[Acl]] = {}
    for acl in acls:
        grouped.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    for (kind, name, pattern), entries in grouped.items():
        resource = f"ResourcePattern(resourceType={kind}, name={plain(name)}, patternType={pattern})"
        # Kafka's tool puts a blank at the end of one head and not of the other.
        print(f"{word} ACLs for resource `{resource}`:{' ' if word == 'Adding' else ''}")
        print(*map(_line, entries), sep="\n", end="\n\n")


def _line(acl: Acl) -> str:
    return (
        f"\t(principal={plain(acl.principal)}, host={plain(acl.host)}, operation={acl.operation}, "
        f"permissionType={acl.permission})"
    )
