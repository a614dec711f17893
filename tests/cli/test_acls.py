"""`kohort acls` and kafka-acls.sh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.cli.conftest import Run, kohort
from tests.support.broker_process import Kohort
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """A broker with an authorizer, whose super user is everybody."""
    settings = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    with Kohort(tmp_path_factory.mktemp("acls"), settings) as running:
        yield running


@pytest.fixture
def run(authorized: Kohort) -> Run:
    return lambda *words, stdin="": kohort(*words, "--bootstrap-server", authorized.address, stdin=stdin)


def test_an_acl_is_added_listed_and_removed(run: Run, name: str) -> None:
    added = run("acls", "add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", name)
    entry = "\t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    head = f"ACLs for resource `ResourcePattern(resourceType=TOPIC, name={name}, patternType=LITERAL)`:"
    assert added.out == f"Adding {head} \n{entry}\n\n"
    assert run("acls", "list", "--topic", name).out == f"Current {head}\n{entry}\n\n"
    fact = {
        "resource": "TOPIC",
        "name": name,
        "pattern": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    assert run("acls", "list", "--topic", name, "--json").json == [fact]
    assert fact in run("acls", "list", "--json").json
    assert run("acls", "list", "--topic", name, "--principal", "User:bob").out == ""

    words = ("acls", "remove", "--allow-principal", "User:alice", "--operation", "Read", "--topic", name)
    assert run(*words, stdin="n\n").code == 0
    assert run("acls", "list", "--topic", name, "--json").json == [fact]
    assert run(*words, stdin="y\n").code == 0
    assert run("acls", "list", "--topic", name, "--json").json == []


def test_what_producers_and_consumers_need_in_the_words_of_kafka_acls(run: Run, name: str) -> None:
    """SE51"""
    who = ("--allow-principal", "User:a", "--deny-principal", "User:b", "--deny-host", "10.0.0.1")
    words = ("kafka-acls.sh", "--add", *who, "--topic", name, "--group", name, "--transactional-id", name)
    assert run(*words, "--producer", "--consumer", "--idempotent").code == 0
    found = run("kafka-acls.sh", "--list", "--json").json
    rights = {(acl["resource"], acl["operation"]) for acl in found if acl["name"] in (name, "kafka-cluster")}
    assert rights == {
        *(("TOPIC", word) for word in ("READ", "WRITE", "CREATE", "DESCRIBE")),
        ("GROUP", "READ"),
        ("TRANSACTIONAL_ID", "WRITE"),
        ("TRANSACTIONAL_ID", "DESCRIBE"),
        ("CLUSTER", "IDEMPOTENT_WRITE"),
    }
    assert {(acl["principal"], acl["host"], acl["permission"]) for acl in found if acl["name"] == name} == {
        ("User:a", "*", "ALLOW"),
        ("User:b", "10.0.0.1", "DENY"),
    }
    gone = run("kafka-acls.sh", "--remove", "--topic", name, "--group", name, "--transactional-id", name, "--force")
    assert gone.code == 0
    assert not [acl for acl in run("kafka-acls.sh", "--list", "--json").json if acl["name"] == name]


def test_prefixes_are_listed_by_the_names_that_they_cover(run: Run, name: str) -> None:
    prefix = ("--topic", name[:-1], "--resource-pattern-type", "prefixed")
    assert run("acls", "add", "--deny-principal", "User:x", *prefix).code == 0
    assert run("acls", "list", "--topic", name, "--json").json == []
    (found,) = run("acls", "list", "--topic", name, "--resource-pattern-type", "match", "--json").json
    assert (found["pattern"], found["operation"], found["permission"]) == ("PREFIXED", "ALL", "DENY")


def test_what_the_client_library_does_not_know_is_listed_in_words_of_kafka(authorized: Kohort, run: Run) -> None:
    user, create_tokens, allow = 7, 13, 3
    made = AclCreation(
        resource_type=user,
        resource_name="User:carol",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=create_tokens,
        permission_type=allow,
    )
    with Wire(authorized.address) as wire:
        assert wire.call(CreateAclsRequest(creations=[made]), 3).results[0].error_code == 0
    (told,) = (acl for acl in run("acls", "list", "--json").json if acl["name"] == "User:carol")
    assert (told["resource"], told["operation"]) == ("USER", "CREATE_TOKENS")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "--topic", "t"), "add takes a resource, such as --topic, and --allow-principal"),
        (("add", "--topic", "t", "--allow-principal", "alice"), "alice: a principal is Type:name"),
        (("add", "--group", "g", "--allow-principal", "User:a", "--operation", "Write"), "--operation Write: g takes"),
        (("add", "--consumer", "--topic", "t", "--allow-principal", "User:a"), "--consumer takes --group"),
        (("remove", "--force"), "remove takes a resource"),
    ],
)
def test_what_makes_no_acl_is_said_in_a_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    ended = run("acls", *words)
    assert (ended.code, sentence in ended.err) == (2, True), ended


def test_a_broker_without_an_authorizer_says_so(broker: Kohort) -> None:
    ended = kohort("acls", "list", "--bootstrap-server", broker.address)
    assert (ended.code, ended.err) == (1, "kohort: No Authorizer is configured on the broker\n")
