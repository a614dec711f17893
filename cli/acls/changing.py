"""ACLs listed, added, removed; printed as Kafka's tool prints them.

Source: Kafka's AclCommand.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import ResourcePatternType, ResourceType

from cli.acls.bindings import CLUSTER_NAME, bindings, everything, filter_of, filters
from cli.cluster import Cluster, said
from cli.errors import DONE, Failed, UsageError
from cli.options import print_json
from cli.tables import plain
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from confluent_kafka.admin import AclBindingFilter

# Its fields are typed as what the library takes for them; it always gives enums.
Binding = Any
Acls = dict[tuple[str, str, str], list[Binding]]


def list_acls(options: argparse.Namespace) -> int:
    """Print ACLs. Raises: Failed."""
    cluster = Cluster(options)
    found = _found(cluster, filters(options))
    if not found:
        _has_authorizer(cluster)
    if options.principal:
        found = [acl for acl in found if acl.principal in options.principal]
    if options.json:
        print_json([_facts(acl) for acl in found])
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
    _print_all("Adding", wanted)
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
        what = "\n".join(map(_line, wanted)) or "all ACLs of these resources"
        print(f"Are you sure you want to remove ACLs: \n{what}\n (y/n)", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return DONE
    cluster = Cluster(options)
    _, errors = cluster.results(cluster.admin.delete_acls(means, request_timeout=cluster.timeout_s))
    for error in errors.values():
        raise Failed(said(error))
    return DONE


_LITERAL, _PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


def _found(cluster: Cluster, wanted: Iterable[AclBindingFilter]) -> list[Binding]:
    found: dict[Binding, None] = {}
    for one in wanted:
        future: Any = cluster.admin.describe_acls(one, request_timeout=cluster.timeout_s)
        found.update(dict.fromkeys(cluster.result(future)))
    return list(found)


def _has_authorizer(cluster: Cluster) -> None:
    """The library does not tell when ACLs cannot be listed at all, only when they cannot be removed. Raises: Failed."""
    nothing = everything(ResourceType.TOPIC, "\\ no topic has this name", _LITERAL)
    _, errors = cluster.results(cluster.admin.delete_acls([nothing], request_timeout=cluster.timeout_s))
    for error in errors.values():
        if error.code() == ErrorCode.SECURITY_DISABLED:
            raise Failed(said(error))


def _grouped(acls: Iterable[Binding]) -> Acls:
    grouped: Acls = {}
    for acl in acls:
        kind = "CLUSTER" if acl.name == CLUSTER_NAME and acl.restype == ResourceType.BROKER else acl.restype.name
        grouped.setdefault((kind, acl.name, acl.resource_pattern_type.name), []).append(acl)
    return grouped


def _print_all(word: str, acls: Iterable[Binding]) -> None:
    for (kind, name, pattern), entries in _grouped(acls).items():
        resource = f"ResourcePattern(resourceType={kind}, name={plain(name)}, patternType={pattern})"
        # Kafka's tool puts a blank at the end of one head and not of the other.
        print(f"{word} ACLs for resource `{resource}`:{' ' if word == 'Adding' else ''}")
        print(*map(_line, entries), sep="\n", end="\n\n")


def _line(acl: Binding) -> str:
    return (
        f"\t(principal={plain(acl.principal)}, host={plain(acl.host)}, operation={acl.operation.name}, "
        f"permissionType={acl.permission_type.name})"
    )


def _facts(acl: Binding) -> dict[str, str]:
    ((kind, name, pattern),) = _grouped([acl])
    return {
        "resource": kind,
        "name": name,
        "pattern": pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission_type.name,
    }
