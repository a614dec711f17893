"""ACLs made, found and removed: golden bytes, Kafka's codes, restarts and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.authorization.acl_types import Operation, Permission, ResourceType
from broker.authorization.authorizer import Authorizer
from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.handlers import acls
from broker.handlers.context import CloseConnection
from protocol.errors import ErrorCode
from protocol.frames import encode_request
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.records import metadata_records
from tests.broker.handlers.test_topic_handlers import Desk
from tests.support.catalogue_fixture import CatalogueDriver

if TYPE_CHECKING:
    from pathlib import Path

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4


def creation(name: str = "t", **more: Any) -> AclCreation:
    given = {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:q",
        "host": "*",
        "operation": Operation.DESCRIBE,
        "permission_type": Permission.ALLOW,
        **more,
    }
    return AclCreation(**given)


def wanted(cls: Any = DescribeAclsRequest, name: str | None = None, pattern: int = ANY, **more: Any) -> Any:
    given = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **more,
    }
    return cls(**given)


class AclDesk(Desk):
    """Handlers over a real catalogue, with an authorizer that allows everything to everybody in these tests."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        catalogue = self.driver.catalogue
        self.authorizer = Authorizer(
            (), super_users=(), allow_everyone=False, now_ms=self.driver.runtime.now_ms, at=lambda *_: None
        )
        catalogue.queue.listeners.append(self.authorizer)
        self.broker.authorizer = self.authorizer

    def create(self, *creations: AclCreation) -> list[int]:
        answer = self.ask(acls.create_acls, CreateAclsRequest(creations=list(creations)), 3)
        return [one.error_code for one in answer.results]

    def described(self, **given: Any) -> list[tuple[str, int, list[str]]]:
        answer = self.ask(acls.describe_acls, wanted(**given), 3)
        assert answer.error_code == 0
        return sorted(
            (one.resource_name, one.pattern_type, [a.principal for a in one.acls]) for one in answer.resources
        )

    def delete(self, *filters: DeleteAclsFilter) -> list[tuple[int, list[str]]]:
        answer = self.ask(acls.delete_acls, DeleteAclsRequest(filters=list(filters)), 3)
        return [(one.error_code, [acl.resource_name for acl in one.matching_acls]) for one in answer.filter_results]


@pytest.fixture
def desk(tmp_path: Path) -> AclDesk:
    return AclDesk(tmp_path)


def test_golden_bytes(desk: AclDesk) -> None:
    """A request of a real client's, Kafka's answer, and its record."""
    request = CreateAclsRequest(creations=[creation("d1"), creation("d1"), creation("")])
    assert encode_request(request, 3, 0x12, "k").hex() == (
        "0000003f001e00030000001200016b0004020364310307557365723a71022a080300"
        "020364310307557365723a71022a08030002010307557365723a71022a08030000"
    )
    answer = desk.ask(acls.create_acls, request, 3)
    assert bytes(answer.encode(3)).hex() == (
        "000000000400000100000001 00002a1c496e76616c696420656d707479207265736f75726365206e616d650000".replace(" ", "")
    )
    record = metadata_records.AccessControlEntryRecord(
        id=bytes.fromhex("4392348e057d4cbfa7d4fe3aa11f1d84"),
        resource_type=3,
        resource_name="g",
        pattern_type=3,
        principal="User:carol",
        host="*",
        operation=3,
        permission_type=3,
    )
    frame = metadata_records.encode_frame(record).hex()
    assert frame == "0112004392348e057d4cbfa7d4fe3aa11f1d840302670 30b557365723a6361726f6c022a030300".replace(" ", "")


@pytest.mark.parametrize("version", [1, 3])
def test_without_an_authorizer_there_are_no_acls(tmp_path: Path, version: int) -> None:
    """SE33: SECURITY_DISABLED, at the top of 29, in each entry of 30 and 31."""
    desk = Desk(tmp_path)
    desk.broker.authorizer = None
    disabled = ErrorCode.SECURITY_DISABLED
    assert desk.ask(acls.describe_acls, wanted(), version).error_code == disabled
    request = CreateAclsRequest(creations=[creation(), creation()])
    assert [one.error_code for one in desk.ask(acls.create_acls, request, version).results] == [disabled] * 2
    removal = DeleteAclsRequest(filters=[wanted(DeleteAclsFilter)])
    assert [one.error_code for one in desk.ask(acls.delete_acls, removal, version).filter_results] == [disabled]


def test_odd_creations(desk: AclDesk) -> None:
    """SE47: each has a verdict of its own, and what is good is made."""
    bad = [
        creation(""),
        creation(resource_type=4),
        creation(resource_type=8),
        creation(resource_type=ANY),
        creation(resource_pattern_type=ANY),
        creation(resource_pattern_type=MATCH),
        creation(resource_pattern_type=5),
        creation(operation=ANY),
        creation(operation=16),
        creation(permission_type=ANY),
        creation(permission_type=4),
        creation(principal="q"),
        creation(principal=""),
        creation(host=""),
        creation(host="10.0.0.0/33"),
        creation(host="10.0.0.0/255.0.0.0"),
        creation(host="a-name/8"),
    ]
    odd = [
        creation("kafka-cluster", resource_type=4),
        creation(principal="User:"),
        creation(host="10.0.0.0/8"),
        creation(host="a-name"),
        creation(operation=Operation.IDEMPOTENT_WRITE),
        creation("*", resource_pattern_type=PREFIXED),
        creation("no topic/has this name"),
        creation("u", resource_type=ResourceType.USER),
    ]
    assert desk.create(*bad) == [ErrorCode.INVALID_REQUEST] * len(bad)
    assert desk.create(*bad[:1], *odd, *bad[:1]) == [42, *[0] * len(odd), 42]
    assert len(desk.authorizer.acls) == len(odd)
    assert desk.create(*odd, odd[0]) == [0] * (len(odd) + 1)
    assert len(desk.authorizer.acls) == len(odd)
    for unknown in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        with pytest.raises(CloseConnection):
            desk.create(creation(**{unknown: 0}))


def test_filters(desk: AclDesk) -> None:
    """SE48: what MATCH, ANY, LITERAL, PREFIXED and null mean."""
    desk.create(
        creation("orders"),
        creation("ord", resource_pattern_type=PREFIXED),
        creation("*"),
        creation("other", principal="User:*", operation=Operation.ALL),
        creation("orders", resource_type=3),
    )
    everything = desk.described()
    assert len(everything) == 5
    orders, ord_, star, other = (
        ("orders", LITERAL, ["User:q"]),
        ("ord", PREFIXED, ["User:q"]),
        ("*", LITERAL, ["User:q"]),
        ("other", LITERAL, ["User:*"]),
    )
    topics = {"resource_type_filter": 2}
    assert desk.described(name="orders", pattern=MATCH, **topics) == [star, ord_, orders]
    assert desk.described(name="orders", pattern=ANY, **topics) == [orders]
    assert desk.described(name="orders", pattern=LITERAL, **topics) == [orders]
    assert desk.described(name="orders", pattern=PREFIXED, **topics) == []
    assert desk.described(name="*", pattern=LITERAL, **topics) == [star]
    assert desk.described(pattern=PREFIXED) == [ord_]
    assert desk.described(operation=Operation.ALL) == [other]
    assert desk.described(principal_filter="User:*") == [other]
    assert desk.described(operation=99) == []
    with pytest.raises(CloseConnection):
        desk.described(operation=0)


def test_what_two_filters_mean_is_told_twice_and_removed_once(desk: AclDesk) -> None:
    """SE48"""
    desk.create(creation("a"), creation("b"))
    of_a = wanted(DeleteAclsFilter, "a", LITERAL, resource_type_filter=2)
    nothing, wrong = wanted(DeleteAclsFilter, "c"), wanted(DeleteAclsFilter, operation=99)
    found = desk.delete(of_a, wanted(DeleteAclsFilter), nothing, wrong)
    assert found == [(0, ["a"]), (0, ["a", "b"]), (0, []), (ErrorCode.INVALID_REQUEST, [])]
    assert desk.described() == []
    assert desk.delete(of_a) == [(0, [])]


def test_too_many_at_once_are_refused_and_none_is_made(desk: AclDesk) -> None:
    assert set(desk.create(*(creation(f"t{number}") for number in range(1_001)))) == {ErrorCode.INVALID_REQUEST}
    assert not len(desk.authorizer.acls)
    assert set(desk.create(*(creation(f"t{number}") for number in range(1_000)))) == {0}


@pytest.mark.parametrize("snapshot", [False, True])
def test_acls_survive_a_restart(tmp_path: Path, snapshot: bool) -> None:
    """From the log, and from a snapshot that took its place; and one that is there already is not made again."""
    driver = CatalogueDriver(tmp_path, snapshots=SnapshotPolicy(record_bytes=1) if snapshot else None)
    driver.all(lambda answer: driver.catalogue.create_acls([creation("a"), creation("b")], answer))
    gone = next(one for one in driver.catalogue.state.kept.acls.values() if one.resource_name == "a")
    driver.all(lambda answer: driver.catalogue.delete_acls([gone], answer))

    again = CatalogueDriver(tmp_path, seed=1, acls_hold=True)
    again.all(lambda answer: again.catalogue.create_acls([creation("b"), creation("c")], answer))
    assert [one.resource_name for one in again.catalogue.state.kept.acls.values()] == ["b", "c"]
