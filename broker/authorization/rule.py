"""Whether ACLs allow something: Kafka's StandardAuthorizer as a pure rule over an index of ACL records.

An ACL covers a resource of its type if its pattern means the name: literally, as a prefix, or as `*`. It applies if
principal, host and operation fit too. A DENY that applies decides; else an ALLOW that applies; else the default counts
where no ACL at all covers the resource, and denies where one does.

Source: KIP-11, KIP-290, KIP-679; Kafka's StandardAuthorizerData, Authorizer.authorizeByResourceType.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from broker.authorization.acl_types import EVERYBODY, WILDCARD, Operation, PatternType, Permission
from broker.config.host_ranges import network

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from ipaddress import IPv4Address

    from protocol.records.metadata_records import AccessControlEntryRecord as Acl

_IMPLY_DESCRIBE = frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE})
_IMPLY_DESCRIBE_CONFIGS = frozenset({Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS})


class Verdict(Enum):
    """What ACLs say, and by which rule."""

    ALLOWED = "an ALLOW applies"
    DENIED = "a DENY applies"
    NOT_ALLOWED = "no ALLOW applies"
    NO_ACL = "no ACL covers it"


@lru_cache(10_000)
def address(text: str) -> IPv4Address | IPv6Address | None:
    """A host as an address, IPv4 in IPv6 as IPv4; None for a name, which means nobody, and for a range."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


class AclIndex:
    """ACLs by what they cover, so that a decision looks at few of them."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._literal: dict[tuple[int, str], dict[bytes, Acl]] = {}
        self._prefixed: dict[tuple[int, str], dict[bytes, Acl]] = {}
        self._lengths: dict[int, dict[int, int]] = {}  # type -> length of a prefix -> how many prefixes have it
        self._by_id: dict[bytes, Acl] = {}
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._by_id.values())

    def add(self, acl: Acl) -> None:
        """One more; its id is new."""
        key = acl.resource_type, acl.resource_name
        self._by_id[acl.id] = acl
        if acl.pattern_type == PatternType.PREFIXED:
            if key not in self._prefixed:
                lengths = self._lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1
            self._prefixed.setdefault(key, {})[acl.id] = acl
        else:
            self._literal.setdefault(key, {})[acl.id] = acl

    def remove(self, acl_id: bytes) -> None:
        """One less; an id that is not there changes nothing."""
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            return
        key = acl.resource_type, acl.resource_name
        prefixed = acl.pattern_type == PatternType.PREFIXED
        among = self._prefixed if prefixed else self._literal
        del among[key][acl_id]
        if not among[key]:
            del among[key]
            if prefixed:
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.resource_name)] -= 1
                if not lengths[len(acl.resource_name)]:
                    del lengths[len(acl.resource_name)]

    def exactly(self, resource_type: int, name: str, pattern_type: int) -> Iterable[Acl]:
        """Those with this very pattern."""
        among = self._prefixed if pattern_type == PatternType.PREFIXED else self._literal
        return among.get((resource_type, name), {}).values()

    def covering(self, resource_type: int, name: str) -> Iterator[Acl]:
        """Those that cover a resource."""
        yield from self._literal.get((resource_type, name), {}).values()
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), {}).values()
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), {}).values()

    def of_type(self, resource_type: int) -> Iterator[Acl]:
        """Those on resources of a type."""
        return (acl for acl in self._by_id.values() if acl.resource_type == resource_type)


def decide(covering: Iterable[Acl], principal: str, host: str, operation: int) -> tuple[Verdict, Acl | None]:
    """What the ACLs that cover a resource say, and the one that decided."""
    allowed: Acl | None = None
    verdict = Verdict.NO_ACL
    for acl in covering:
        if verdict is Verdict.NO_ACL:
            verdict = Verdict.NOT_ALLOWED
        if not (_is_for(acl, principal, host) and _means(acl, operation)):
            continue
        if acl.permission_type != Permission.ALLOW:
            return Verdict.DENIED, acl
        allowed = acl
    return (verdict, None) if allowed is None else (Verdict.ALLOWED, allowed)


def _is_for(acl: Acl, principal: str, host: str) -> bool:
    if acl.principal not in (principal, EVERYBODY):
        return False
    if acl.host in (WILDCARD, host):
        return True
    peer, stored = address(host), address(acl.host)
    if peer is None:
        return False
    if stored is not None:
        return stored == peer
    hosts = network(acl.host)
    return hosts is not None and peer in hosts


def _means(acl: Acl, operation: int) -> bool:
    """Whether the ACL's operation takes in this one. ALLOW of some imply DESCRIBE; DENY implies nothing."""
    given = acl.operation
    if given in (operation, Operation.ALL):
        return True
    if acl.permission_type != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return given in _IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and given in _IMPLY_DESCRIBE_CONFIGS


def allowed_on_any(acls: Iterable[Acl], principal: str, host: str, operation: int) -> bool:
    """Whether the ACLs of one type allow an operation on some resource of it.

    Source: KIP-679; Kafka's Authorizer.authorizeByResourceType, after its first question.
    """
    deny_literal: set[str] = set()
    deny_prefixed: set[str] = set()
    allow: list[Acl] = []
    for acl in acls:
        # Here an operation is meant by itself or by ALL, and implies nothing.
        if acl.operation not in (operation, Operation.ALL) or not _is_for(acl, principal, host):
            continue
        if acl.permission_type == Permission.ALLOW:
            allow.append(acl)
        elif acl.pattern_type == PatternType.PREFIXED:
            deny_prefixed.add(acl.resource_name)
        elif acl.resource_name == WILDCARD:
            return False
        else:
            deny_literal.add(acl.resource_name)
    for acl in allow:
        name = acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            if name == WILDCARD:
                return True
            if name in deny_literal:
                continue
        if not any(name[:length] in deny_prefixed for length in range(1, len(name) + 1)):
            return True
    return False
