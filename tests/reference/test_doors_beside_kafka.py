"""Certificates, subjects, connection limits and odd ACLs: Kohort and Apache Kafka come to the same."""

from __future__ import annotations

import contextlib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from broker.security.subjects import mapped, parse_rules, subject_text
from protocol.frames import decode_response, encode_request
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.reference.beside import EIGHT, RULES, SLOW
from tests.reference.talk import end_of, read, versions
from tests.support.broker_process import eventually
from tests.support.certificates import Authority, Issued
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.reference.beside import Side
    from tests.reference.conftest import Sides

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

SUBJECTS: dict[str, x509.Name] = {
    name: x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    for name, parts in {
        "plain": [(NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, "alice")],
        "e-mail": [(NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "x")],
        "serial number": [(NameOID.SERIAL_NUMBER, "7"), (NameOID.COMMON_NAME, "s")],
        "escapes": [(NameOID.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i#j')],
        "blanks": [(NameOID.COMMON_NAME, "  a b ")],
        "umlauts": [(NameOID.COMMON_NAME, "Jürgen ✓")],
        "a number sign in front": [(NameOID.COMMON_NAME, "#a")],
        "many": [
            (NameOID.COUNTRY_NAME, "DE"), (NameOID.STATE_OR_PROVINCE_NAME, "BY"), (NameOID.LOCALITY_NAME, "M"),
            (NameOID.STREET_ADDRESS, "S 1"), (NameOID.DOMAIN_COMPONENT, "example"), (NameOID.USER_ID, "u"),
        ],
    }.items()
}  # fmt: skip
RULED: dict[str, x509.Name] = {
    name: x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    for name, parts in {
        "upper": [(NameOID.ORGANIZATIONAL_UNIT_NAME, "Dev"), (NameOID.COMMON_NAME, "alice")],
        "lower, and no such group": [(NameOID.ORGANIZATIONAL_UNIT_NAME, "a b"), (NameOID.COMMON_NAME, "Bob")],
        "default": [(NameOID.ORGANIZATIONAL_UNIT_NAME, "Ops"), (NameOID.COMMON_NAME, "carol")],
    }.items()
}


class Caller:
    """Who shows a certificate, or none, on TLS 1.2 or 1.3."""

    def __init__(self, folder: Path, shown: Issued | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._context.minimum_version = self._context.maximum_version = version
        if shown is not None:
            self._context.load_cert_chain(*shown.write(folder, f"shown-{id(shown)}"))

    def asks(self, address: str, request: Any = None) -> str | Any:
        """What it is answered: `in` for ApiVersions, or the answer to the request; `out` if it is sent away."""
        host, _, port = address.rpartition(":")
        try:
            with (
                socket.create_connection((host, int(port)), timeout=120) as bare,
                self._context.wrap_socket(bare) as peer,
            ):
                peer.sendall(versions().said if request is None else encode_request(request, 9, 1, "k"))  # type: ignore[arg-type]
                frame = read(peer)
        except (ssl.SSLError, ConnectionError):
            return "out"
        if not frame:
            return "out"
        return "in" if request is None else decode_response(3, 9, frame)[1]


def test_each_certificate_is_taken_or_not_as_by_kafka(both: Sides) -> None:
    """SE05: asked never, if there is one, and always; none, a good one, an expired one and a foreign one."""
    own, foreign = both.folder.authority, Authority("Foreign")
    shown = {
        "none": None,
        "good": own.issue("alice"),
        "expired": own.issue("alice", from_day=-10, days=5),
        "not yet": own.issue("alice", from_day=5, days=5),
        "foreign": foreign.issue("alice"),
    }
    told: list[dict[str, str]] = []
    for side in both[:2]:
        found = {}
        for listener in ("NEVER", "ASKS", "MUST"):
            for name, certificate in shown.items():
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    caller = Caller(both.folder.place, certificate, version)
                    found[f"{listener} {name} {version.name}"] = caller.asks(side.addresses[listener])
        told.append(found)
    assert told[0] == told[1]
    assert {name for name, outcome in told[0].items() if outcome == "in" and not name.startswith("NEVER")} == {
        *(f"{listener} good {version}" for listener in ("ASKS", "MUST") for version in ("TLSv1_2", "TLSv1_3")),
        *(f"ASKS none {version}" for version in ("TLSv1_2", "TLSv1_3")),
    }


def test_each_subject_is_the_principal_that_kafka_makes_of_it(both: Sides) -> None:
    """SE06, SE07: what ours is called is given a right on both, and has it on both."""
    wanted = {
        f"MUST {name}": ("MUST", subject, subject_text(subject.public_bytes())) for name, subject in SUBJECTS.items()
    }
    rules = parse_rules(RULES)
    for name, subject in RULED.items():
        called = mapped(rules, subject_text(subject.public_bytes()))
        assert called is not None
        wanted[f"ASKS {name}"] = ("ASKS", subject, called)
    assert [called for _, _, called in list(wanted.values())[-3:-1]] == ["ALICE", "x-bob$9"]
    callers = {
        name: Caller(both.folder.place, both.folder.authority.issue(subject, hosts=()))
        for name, (_, subject, _) in wanted.items()
    }
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    for side in both[:2]:
        side.grant(())
        before = {name: caller.asks(side.addresses[wanted[name][0]], asked) for name, caller in callers.items()}
        assert {answer.topics[0].error_code for answer in before.values()} == {29}
        creations = [creation("t", principal=f"User:{called}", operation=8) for _, _, called in wanted.values()]
        made = ask(side, CreateAclsRequest(creations=creations), 3)
        assert {one.error_code for one in made.results} == {0}

        def refused(side: Side = side) -> dict[str, int]:
            answers = {name: caller.asks(side.addresses[wanted[name][0]], asked) for name, caller in callers.items()}
            return {
                name: answer.topics[0].error_code for name, answer in answers.items() if answer.topics[0].error_code
            }

        eventually(lambda refused=refused: not refused(), deadline_s=20, every_s=0.2, what=f"rights on {side.broker}")
        side.grant(())


def test_what_is_no_tls_ends_as_with_kafka(both: Sides) -> None:
    """SE09: the end, and before it an alert or nothing; and TLS on a listener without it."""
    hello = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    client_hello = hello.read()
    sent: dict[str, Any] = {
        "Kafka": versions().said,
        "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "noise": bytes(range(100)),
        "a record of SSL 3": bytes.fromhex("160300000401000000"),
    }
    for side in both[:2]:
        told = {name: spoken(side.addresses["NEVER"], data) for name, data in sent.items()}
        told |= {
            listener: spoken(side.addresses[listener], client_hello) for listener in ("PLAINTEXT", "SASL_PLAINTEXT")
        }
        assert set(told.values()) <= {"alert", "nothing"}, told


def spoken(address: str, data: bytes) -> str:
    """`alert`, `nothing` or `something`, and then the end."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=120) as peer:
        peer.sendall(data)
        came = end_of(peer)
    return "nothing" if not came else "alert" if came[0] == 0x15 else f"something: {came.hex()}"


# --- limits


def _called(address: str, source: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=120, source_address=(source, 0))


def test_a_ninth_connection_of_an_address_ends_as_with_kafka(both: Sides) -> None:
    """SE59: those before it are served, and one more when one of them has gone."""
    for side in both[:2]:
        with contextlib.ExitStack() as stack:
            first = [stack.enter_context(_called(side.broker.address, EIGHT)) for _ in range(8)]
            for peer in first:
                assert _is_served(peer)
            assert not _is_served(stack.enter_context(_called(side.broker.address, EIGHT)))
            first[0].close()
            eventually(lambda side=side: once_served(side.broker.address, EIGHT), what="a place that is free")
            assert _is_served(first[1])


def test_who_connects_too_fast_is_let_in_or_not_as_by_kafka(both: Sides) -> None:
    """SE60: one a second: a burst of ten, and the others are held and sent away."""
    for side in both[:2]:
        ops = [OpData(key="connection_creation_rate", value=1.0, remove=False)]
        entries = [EntryData(entity=[EntityData(entity_type="ip", entity_name=name)], ops=ops) for name in SLOW]
        answer = ask(side, AlterClientQuotasRequest(entries=entries, validate_only=False), 1)
        assert {one.error_code for one in answer.entries} == {0}
        addresses = iter(SLOW)

        def served(side: Side = side, addresses: Iterator[str] = addresses) -> int:
            source = next(addresses)
            with ThreadPoolExecutor(14) as pool:
                return sum(pool.map(lambda _: once_served(side.broker.address, source), range(14)))

        # Kafka's network side hears of a quota some time after it was set.
        eventually(lambda served=served: served() == 10, every_s=0.5, what="ten of fourteen")


def once_served(address: str, source: str) -> bool:
    """Whether one connection from there is answered."""
    with _called(address, source) as peer:
        return _is_served(peer)


def _is_served(peer: socket.socket) -> bool:
    try:
        peer.sendall(versions().said)  # type: ignore[arg-type]
        return bool(read(peer))
    except ConnectionError:
        return False


# --- ACLs


def ask(side: Side, request: Any, version: int) -> Any:
    """Of a super user."""
    with Wire(side.broker.address) as wire:
        return wire.call(request, version)


def creation(name: str, **more: Any) -> AclCreation:
    """READ on a topic for User:q."""
    wanted = {"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:q", "host": "*",
              "operation": 3, "permission_type": 3}  # fmt: skip
    return AclCreation(**{**wanted, **more})


GOOD = [
    creation("orders"), creation("ord", resource_pattern_type=4), creation("*"), creation("orders", resource_type=3),
    creation("other", principal="User:*", operation=2), creation("kafka-cluster", resource_type=4),
    creation("*", resource_pattern_type=4), creation("no topic/has this name"), creation("u", resource_type=7),
    creation("o", host="a-name"), creation("o", principal="User:"), creation("o", host="10.0.0.0/8"),
    creation("o", permission_type=2), creation("o", operation=12), creation("Orders"),
    creation("o", principal="user:q"),
]  # fmt: skip
BAD = [
    creation(""), creation("x", resource_type=4), creation("x", resource_type=99), creation("x", operation=99),
    creation("x", permission_type=99), creation("x", resource_pattern_type=99), creation("x", principal="q"),
    creation("x", principal=""), creation("x", host=""),
    creation("x", host="10.0.0.0/33"), creation("x", host="a-name/8"),
]  # fmt: skip
ANYTHING = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
FILTERS: list[dict[str, Any]] = [
    {},
    *({"resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": kind}
      for name in ("orders", "ord", "*", "o", "nothing") for kind in (1, 2, 3, 4)),
    {"pattern_type_filter": 2},
    {"pattern_type_filter": 4},
    {"principal_filter": "User:*"},
    {"principal_filter": "User:q"},
    {"principal_filter": "User:"},
    {"host_filter": "*"},
    {"host_filter": "a-name"},
    {"operation": 2},
    {"operation": 3},
    {"permission_type": 2},
    {"operation": 99},
    {"resource_type_filter": 99},
    {"resource_type_filter": 7},
]  # fmt: skip


def test_odd_acls_are_made_found_and_removed_as_by_kafka(both: Sides) -> None:
    """SE47, SE48: what is no ACL, and each kind of filter; what two filters mean is told twice and removed once."""
    told: list[list[Any]] = []
    for side in both[:2]:
        side.grant(())
        seen: list[Any] = [[one.error_code for one in ask(side, CreateAclsRequest(creations=BAD), 3).results]]
        seen.append([one.error_code for one in ask(side, CreateAclsRequest(creations=[*GOOD, GOOD[0]]), 3).results])

        def described(wanted: dict[str, Any], side: Side = side) -> list[Any]:
            answer = ask(side, DescribeAclsRequest(**{**ANYTHING, **wanted}), 3)
            return [answer.error_code, sorted(
                (one.resource_type, one.resource_name, one.pattern_type, acl.principal, acl.host, acl.operation,
                 acl.permission_type)
                for one in answer.resources for acl in one.acls
            )]  # fmt: skip

        eventually(lambda described=described: len(described({})[1]) == len(GOOD), what="all of them")
        seen += [(wanted, described(wanted)) for wanted in FILTERS]
        filters = [{"resource_name_filter": "orders", "pattern_type_filter": 2}, {"principal_filter": "User:*"}, {},
                   {"resource_name_filter": "nothing"}]  # fmt: skip
        removed = ask(side, DeleteAclsRequest(filters=[DeleteAclsFilter(**{**ANYTHING, **one}) for one in filters]), 3)
        for one in removed.filter_results:
            acls = [
                (acl.error_code, acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host,
                 acl.operation, acl.permission_type)
                for acl in one.matching_acls
            ]  # fmt: skip
            seen.append((one.error_code, sorted(acls)))
        eventually(lambda described=described: not described({})[1], what="none of them")
        told.append(seen)
    for ours, theirs in zip(*told, strict=True):
        assert ours == theirs
