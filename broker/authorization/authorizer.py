"""The authorizer: the rule on the ACLs of the metadata log, with super users, and verdicts that are remembered.

Verdicts are kept for each principal at each host, and forgotten together when any ACL changes, so that a decision that
was made before costs two look-ups.

Source: Kafka's StandardAuthorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.authorization.acl_types import Operation, ResourceType
from broker.authorization.audit import Audit, Refusal, log
from broker.authorization.rule import AclIndex, Verdict, allowed_on_any, decide
from broker.catalogue.listeners import Rereading
from broker.catalogue.topics_delta import TopicsListener
from protocol.records.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The class that `authorizer.class.name` names, the only one."""
ORDINARY_NAME = "hardcode"
"""Kafka's name of a resource that stands for any, to find super users and defaults."""
MOST_RIGHTS = 10_000  # principals at hosts
MOST_VERDICTS = 1_000  # of one of them
MOST_REMEMBERED = 200_000  # of all together, some 40 MB
LONGEST_NAME = 255  # of what is remembered


class Rights:
    """What one principal may do from one host. Its verdicts are those of generation `generation` of the ACLs."""

    __slots__ = ("_host", "_on_any", "authorizer", "generation", "principal", "refusals", "verdicts")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.authorizer = authorizer
        self.principal = principal
        self._host = host
        self.generation = authorizer.generation
        self.verdicts: dict[tuple[int, int, str], bool] = {}  # (operation, resource type, name): all that is allowed
        self.refusals: dict[tuple[int, int, str], Refusal] = {}  # all that is not
        self._on_any: dict[tuple[int, int], bool] = {}  # (operation, resource type): whether it is, on some resource

    def may(self, operation: int, resource: int, name: str, *, tell: bool = True) -> bool:
        """Whether it may; with `tell` the audit log hears of it."""
        authorizer = self.authorizer
        if self.generation != authorizer.generation:
            self._follow()
        key = (operation, resource, name)
        if key in self.verdicts:
            return True
        refusal = self.refusals.get(key)
        if refusal is not None:
            seen = refusal.seen
            if seen is not None and not seen.over:
                seen.count += tell
            elif tell:
                refusal.seen = authorizer.audit.decided(
                    False, self.principal, self._host, operation, resource, name, refusal.rule
                )
            return False
        allowed, rule = authorizer.verdict(self.principal, self._host, operation, resource, name)
        seen = None
        if tell and (not allowed or log.debugs):
            seen = authorizer.audit.decided(allowed, self.principal, self._host, operation, resource, name, rule)
        if len(name) <= LONGEST_NAME:
            if not allowed:
                self._make_room()
                self.refusals[key] = Refusal(rule, seen)
            elif not (tell and log.debugs):  # else the audit log is to hear of it each time
                self._make_room()
                self.verdicts[key] = True
        return allowed

    def _make_room(self) -> None:
        """For one verdict more."""
        if len(self.verdicts) + len(self.refusals) >= MOST_VERDICTS:
            self.forget()
        self.authorizer.remembered()

    def forget(self) -> None:
        """Decide anew."""
        self.verdicts.clear()
        self.refusals.clear()

    def may_on_any(self, operation: int, resource: int) -> bool:
        """Whether it may do it to some resource of a type."""
        if self.generation != self.authorizer.generation:
            self._follow()
        key = (operation, resource)
        found = self._on_any.get(key)
        if found is None:  # it looks at every ACL of the type: a refusal is remembered too
            found = self._on_any[key] = self.may(operation, resource, ORDINARY_NAME, tell=False) or allowed_on_any(
                self.authorizer.acls.of_type(resource), self.principal, self._host, operation
            )
        return found

    def _follow(self) -> None:
        self.forget()
        self._on_any.clear()
        self.generation = self.authorizer.generation


class Authorizer(TopicsListener, Rereading):
    """All ACLs, and who is above them. A listener of the catalogue."""

    def __init__(
        self,
        acls: Iterable[AccessControlEntryRecord],
        *,
        super_users: Iterable[str],
        allow_everyone: bool,
        now_ms: Callable[[], int],
        at: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self.acls = AclIndex(acls)
        self.audit = Audit(now_ms, at)
        self.generation = 0
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._rights: dict[tuple[str, str], Rights] = {}
        self._remembered = 0  # verdicts, since all were forgotten

    def rights(self, principal: str, host: str) -> Rights:
        """Those of a principal (`User:alice`) at a host, `127.0.0.1`."""
        key = (principal, host)
        found = self._rights.get(key)
        if found is None:
            if len(self._rights) >= MOST_RIGHTS:
                self._forget()
                self._rights.clear()  # connections that are open keep theirs
            found = self._rights[key] = Rights(self, principal, host)
        return found

    def remembered(self) -> None:
        """One verdict more is: all are forgotten when they are too many."""
        self._remembered += 1
        if self._remembered >= MOST_REMEMBERED:
            self._forget()

    def _forget(self) -> None:
        self._remembered = 0
        for rights in self._rights.values():
            rights.forget()

    def verdict(self, principal: str, host: str, operation: int, resource: int, name: str) -> tuple[bool, str]:
        """Whether it is allowed, and by which rule."""
        if principal in self._super_users:
            return True, "SuperUser"
        said, acl = decide(self.acls.covering(resource, name), principal, host, operation)
        if said is Verdict.NO_ACL:
            return self._allow_everyone, "DefaultAllow" if self._allow_everyone else "DefaultDeny"
        if acl is None:
            return False, "DefaultDeny"
        return said is Verdict.ALLOWED, f"MatchingAcl({_text_of(acl)})"

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:
        """ACLs have changed, perhaps."""
        for record in delta.rights:
            if isinstance(record, AccessControlEntryRecord):
                self.acls.add(record)
                self.generation += 1
            elif isinstance(record, RemoveAccessControlEntryRecord):
                self.acls.remove(record.id)
                self.generation += 1

    def decide_anew(self) -> None:
        """What was remembered is not, so that the audit log hears of it at the level that it has now."""
        self.generation += 1

    def reread(self, state: ClusterState) -> None:
        """ACLs are what `state` says."""
        self.acls = AclIndex(state.kept.acls.values())
        self.generation += 1


def _text_of(acl: AccessControlEntryRecord) -> str:
    kind, operation = ResourceType(acl.resource_type).name, Operation(acl.operation).name
    effect = "ALLOW" if acl.permission_type == 3 else "DENY"
    pattern = "PREFIXED" if acl.pattern_type == 4 else "LITERAL"
    return f"{effect} {operation} to {acl.principal} from {acl.host} on {kind}:{pattern}:{acl.resource_name}"
