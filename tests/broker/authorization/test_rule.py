"""The rule of ACLs: what covers, what applies, what wins."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from broker.authorization import authorizer as remembering
from broker.authorization.acl_types import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from broker.authorization.authorizer import Authorizer
from broker.authorization.rule import AclIndex, Verdict, allowed_on_any, decide
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from protocol.records.metadata_records import AccessControlEntryRecord as Acl

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC = ResourceType.TOPIC
ALICE, BOB = "User:alice", "User:bob"
HERE = "10.0.0.1"
PRINCIPALS = (ALICE, BOB, "User:*", "Group:alice")
HOSTS = (HERE, "10.0.0.2", "*")
NAMES = ("a", "ab", "abc", "b", "*")
OPERATIONS = tuple(Operation(number) for number in range(2, 16))


def acl(
    permission: Permission = Permission.ALLOW,
    operation: int = Operation.READ,
    name: str = "t",
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: int = TOPIC,
) -> Acl:
    acl.count += 1  # type: ignore[attr-defined]
    return Acl(
        id=acl.count.to_bytes(16),  # type: ignore[attr-defined]
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


acl.count = 0  # type: ignore[attr-defined]


def random_acl(rng: random.Random) -> Acl:
    return acl(
        rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        rng.choice(OPERATIONS),
        rng.choice(NAMES),
        principal=rng.choice(PRINCIPALS),
        host=rng.choice(HOSTS),
        pattern=rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        kind=rng.choice((TOPIC, ResourceType.GROUP)),
    )


def said(acls: Iterable[Acl], operation: int, name: str = "t", principal: str = ALICE, host: str = HERE) -> Verdict:
    return decide(AclIndex(acls).covering(TOPIC, name), principal, host, operation)[0]


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), allow_everyone: bool = False) -> Authorizer:
    return Authorizer(
        acls, super_users=super_users, allow_everyone=allow_everyone, now_ms=lambda: 0, at=lambda *_: None
    )


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_allowing_some_operations_allows_describe_and_denying_them_does_not(operation: Operation) -> None:
    """SE36"""
    assert said([acl(operation=operation)], Operation.DESCRIBE) is Verdict.ALLOWED
    allowed = acl(operation=Operation.DESCRIBE)
    assert said([allowed, acl(Permission.DENY, operation)], Operation.DESCRIBE) is Verdict.ALLOWED
    assert said([allowed, acl(Permission.DENY, Operation.ALL)], Operation.DESCRIBE) is Verdict.DENIED


def test_a_super_user_passes_before_every_deny_and_is_known_by_exact_text() -> None:
    """SE36"""
    denied = acl(Permission.DENY, Operation.ALL, "*", principal="User:*")
    judge = authorizer(denied, super_users=("User:admin",))
    assert judge.rights("User:admin", HERE).may(Operation.READ, TOPIC, "t")
    assert not judge.rights("user:admin", HERE).may(Operation.READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("deny", "asked", "verdict"),
    [
        (acl(Permission.DENY, name="or", pattern=PatternType.PREFIXED), "orders", Verdict.DENIED),
        (acl(Permission.DENY, name="ox", pattern=PatternType.PREFIXED), "orders", Verdict.ALLOWED),
        (acl(Permission.DENY, name="*"), "orders", Verdict.DENIED),
        (acl(Permission.DENY, name="*", pattern=PatternType.PREFIXED), "orders", Verdict.ALLOWED),
        (acl(Permission.DENY, name="*", pattern=PatternType.PREFIXED), "*x", Verdict.DENIED),
        (acl(Permission.DENY, name="orders", principal="User:*"), "orders", Verdict.DENIED),
        (acl(Permission.DENY, name="orders", principal=BOB), "orders", Verdict.ALLOWED),
        (acl(Permission.DENY, name="orders", host=HERE), "orders", Verdict.DENIED),
        (acl(Permission.DENY, name="orders", host="10.0.0.2"), "orders", Verdict.ALLOWED),
        (acl(Permission.DENY, Operation.WRITE, "orders"), "orders", Verdict.ALLOWED),
        (acl(Permission.DENY, name="orders", kind=ResourceType.GROUP), "orders", Verdict.ALLOWED),
    ],
)
def test_a_deny_wins_where_it_applies(deny: Acl, asked: str, verdict: Verdict) -> None:
    """SE37"""
    assert said([acl(name="orders"), acl(name="*x"), deny], Operation.READ, asked) is verdict


@pytest.mark.parametrize(
    ("other", "closed"),
    [
        (acl(name="x1", principal=BOB), True),
        (acl(name="x", principal=BOB, pattern=PatternType.PREFIXED), True),
        (acl(name="*", principal=BOB), True),
        (acl(name="x", principal=BOB), False),
    ],
)
def test_an_acl_for_somebody_else_closes_what_it_covers(other: Acl, closed: bool) -> None:
    """SE39: allow.everyone.if.no.acl.found counts where no ACL at all covers; taking the ACL away opens again."""
    judge = authorizer(other, allow_everyone=True)
    alice = judge.rights(ALICE, HERE)
    assert alice.may(Operation.READ, TOPIC, "x1") is not closed
    judge.acls.remove(other.id)
    judge.generation += 1
    assert alice.may(Operation.READ, TOPIC, "x1")
    assert not authorizer().rights(ALICE, HERE).may(Operation.READ, TOPIC, "x1")


@pytest.mark.parametrize(
    ("stored", "host", "meant"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("localhost", "127.0.0.1", False),
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.9/30", "127.0.0.10", True),
        ("127.0.0.9/30", "127.0.0.12", False),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "127.0.0.1", False),
        ("127.0.0.0/255.0.0.0", "127.0.0.1", False),
        ("127.0.0.0/33", "127.0.0.1", False),
        ("", "127.0.0.1", False),
    ],
)
def test_hosts_are_addresses_whatever_their_spelling(stored: str, host: str, meant: bool) -> None:
    """SE40"""
    assert (said([acl(host=stored)], Operation.READ, host=host) is Verdict.ALLOWED) is meant


def test_the_index_decides_as_a_loop_over_all_acls() -> None:
    """SE38: 10,000 random questions; ACLs come and go meanwhile."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    index = AclIndex()
    for _ in range(10_000):
        if rng.random() < 0.5 or not len(index):
            index.add(random_acl(rng))
        else:
            index.remove(rng.choice([one.id for one in index]))
        name, principal, operation = rng.choice(NAMES), rng.choice(PRINCIPALS[:2]), rng.choice(OPERATIONS)
        covering = [
            one
            for one in index
            if one.resource_type == TOPIC
            and (
                name.startswith(one.resource_name)
                if one.pattern_type == PatternType.PREFIXED
                else one.resource_name in (name, "*")
            )
        ]
        fast = decide(index.covering(TOPIC, name), principal, HERE, operation)[0]
        assert fast is decide(covering, principal, HERE, operation)[0], f"seed {seed}"


def test_writing_somewhere() -> None:
    """SE41: a DENY on `*` overrules all, one on a prefix what begins with it, a literal one the same name."""

    def may(*acls: Acl) -> bool:
        return allowed_on_any(acls, ALICE, HERE, Operation.WRITE)

    def given(name: str, **more: PatternType) -> Acl:
        return acl(operation=Operation.WRITE, name=name, **more)  # type: ignore[arg-type]

    def taken(name: str, **more: PatternType) -> Acl:
        return acl(Permission.DENY, Operation.WRITE, name, **more)  # type: ignore[arg-type]

    prefixed = {"pattern": PatternType.PREFIXED}
    assert may(given("t"))
    assert not may(acl(operation=Operation.READ))
    assert not may(given("t"), taken("*"))
    assert not may(given("t"), taken("t"))
    assert not may(given("tt"), taken("t", **prefixed))
    assert not may(given("tt", **prefixed), taken("t", **prefixed))
    assert may(given("t", **prefixed), taken("t"), taken("tt", **prefixed))
    assert may(given("t"), taken("t"), given("u"))


def test_verdicts_are_remembered_until_an_acl_changes() -> None:
    judge = authorizer(acl())
    alice = judge.rights(ALICE, HERE)
    assert judge.rights(ALICE, HERE) is alice
    assert alice.may(Operation.READ, TOPIC, "t")
    assert alice.verdicts == {(Operation.READ, TOPIC, "t"): True}
    judge.acls.add(acl(Permission.DENY))
    judge.generation += 1
    assert not alice.may(Operation.READ, TOPIC, "t")
    assert alice.verdicts == {}


def test_a_refusal_is_worked_out_once_and_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no rights could have a thousand ACLs looked at with each request."""
    judge = authorizer(*(acl(name="*", principal=f"User:{number}") for number in range(1_000)))
    looks, told = [], []
    verdict = judge.verdict
    monkeypatch.setattr(judge, "verdict", lambda *asked: looks.append(asked) or verdict(*asked))
    monkeypatch.setattr(judge.audit, "decided", lambda allowed, *_: told.append(allowed))
    alice = judge.rights(ALICE, HERE)
    assert not any(alice.may(Operation.READ, TOPIC, "t") for _ in range(5))
    assert (len(looks), told) == (1, [False] * 5)
    judge.acls.add(acl())
    judge.generation += 1
    assert alice.may(Operation.READ, TOPIC, "t")


def test_whether_on_any_is_worked_out_once_for_all_the_acls_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal as well: who has no rights could have every ACL looked at, again and again."""
    judge = authorizer(*(acl(name=f"t{number}", principal=BOB) for number in range(10)))
    looks: list[int] = []
    of_type = AclIndex.of_type

    def counted(index: AclIndex, resource_type: int) -> Iterable[Acl]:
        looks.append(resource_type)
        return of_type(index, resource_type)

    monkeypatch.setattr(AclIndex, "of_type", counted)
    rights = judge.rights(ALICE, HERE)
    assert not any(rights.may_on_any(Operation.WRITE, ResourceType.TOPIC) for _ in range(5))
    assert len(looks) == 1
    judge.acls.add(acl(operation=Operation.WRITE, name="mine"))
    judge.generation += 1
    assert rights.may_on_any(Operation.WRITE, ResourceType.TOPIC)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are the client's choice: what is kept for one principal, and for all, does not grow for ever."""
    monkeypatch.setattr(remembering, "MOST_VERDICTS", 10)
    monkeypatch.setattr(remembering, "MOST_REMEMBERED", 25)
    judge = authorizer(acl(name="*", principal="User:*"))
    users = [judge.rights(f"User:{number}", HERE) for number in range(5)]
    for number in range(100):
        for user in users:
            assert user.may(Operation.READ, TOPIC, f"t{number}")
            assert len(user.verdicts) <= 10
            assert not user.may(Operation.WRITE, TOPIC, f"t{number}")
            assert len(user.verdicts) + len(user.refusals) <= 10
            assert sum(len(one.verdicts) + len(one.refusals) for one in users) <= 25
    users[0].verdicts.clear()
    assert users[0].may(Operation.READ, TOPIC, "x" * 256)
    assert not users[0].verdicts


def test_settings_that_make_no_authorizer_refuse_the_start() -> None:
    with pytest.raises(SettingsError, match=r"authorizer\.class\.name"):
        Settings({"authorizer.class.name": "com.example.Mine"})
    with pytest.raises(SettingsError, match="admin has no type"):
        Settings({"super.users": "User:a;admin"})
    assert Settings({"super.users": "User:CN=a,O=b;User:c"}).super_users == "User:CN=a,O=b;User:c"


def test_the_cluster_has_one_name() -> None:
    given = acl(operation=Operation.ALTER, name=CLUSTER_NAME, kind=ResourceType.CLUSTER)
    assert authorizer(given).rights(ALICE, HERE).may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
