"""Users and ACLs beside Apache Kafka: its own tools on both, and what an ACL closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cli.conftest import Ended, kohort
from tests.reference import graduation as g
from tests.reference.test_rights_beside_kafka import (
    ALL,
    ALLOW,
    ANYTHING,
    CLUSTER,
    DENY,
    DESCRIBE,
    PREFIXED,
    READ,
    acl,
)
from tests.support.broker_process import Kafka, Kohort, eventually, need
from tests.support.wire import Wire

NOISE = ("WARN", "Picked up JAVA_TOOL_OPTIONS")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.messages.create_acls import AclCreation
    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

ACLS = "org.apache.kafka.tools.AclCommand"
CREATE = 5
CONFIGS = "kafka.admin.ConfigCommand"
VERSION = "4.4.0"
# Everybody may what no ACL covers, so that both brokers can be asked without a log-in.
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module", params=["kohort", "kafka"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Kohort, then Apache Kafka, each with an authorizer; tests leave no ACL behind."""
    need("java", "mvn")
    tmp_path = tmp_path_factory.mktemp("either")
    made: BrokerProcess = (
        Kohort(tmp_path, AUTHORIZED)
        if request.param == "kohort"
        else Kafka(tmp_path, AUTHORIZED, environment={"KAFKA_VERSION": VERSION, **g.HEAP})
    )
    with made as running:
        yield running


def theirs(broker: BrokerProcess, tool: str, *words: str) -> list[str]:
    """What Kafka's own tool prints, its lines sorted: it leaves them in the order of a hash."""
    return tidied(g.tool(tool, "--bootstrap-server", broker.address, *words))


def tidied(text: str) -> list[str]:
    """Lines without the blanks at either end."""
    lines = (line.strip() for line in text.splitlines() if not any(noise in line for noise in NOISE))
    return sorted(line for line in lines if line)


def test_kafkas_tools_and_ours_say_the_same_of_acls_and_users(either: BrokerProcess) -> None:
    """SE51: each adds, lists and removes; what one has made the other shows."""
    alice = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.1")
    given = ("--add", *alice, "--operation", "Read", "--topic", "t")
    by_kafka = theirs(either, ACLS, *given)
    assert tidied(kohort("kafka-acls.sh", *given, "-b", either.address).out) == by_kafka
    who = ("--allow-principal", "User:p", "--producer", "--topic", "q", "--transactional-id", "x")
    assert kohort("acls", "add", *who, "-b", either.address).code == 0
    prefixed = ("--deny-principal", "User:*", "--group", "g", "--resource-pattern-type", "prefixed")
    assert kohort("acls", "add", *prefixed, "-b", either.address).code == 0
    everything = theirs(either, ACLS, "--list")
    assert len([line for line in everything if "principal=" in line]) == 7
    assert tidied(kohort("kafka-acls.sh", "--list", "-b", either.address).out) == everything
    covering = ("--list", "--group", "g-1", "--resource-pattern-type", "match")
    assert tidied(kohort("kafka-acls.sh", *covering, "-b", either.address).out) == theirs(either, ACLS, *covering)
    theirs(either, ACLS, "--remove", "--topic", "q", "--transactional-id", "x", "--force")
    assert kohort("kafka-acls.sh", "--remove", *prefixed, "--force", "-b", either.address).code == 0
    assert [line for line in theirs(either, ACLS, "--list") if "principal=" in line] == [
        "(principal=User:alice, host=10.0.0.1, operation=READ, permissionType=ALLOW)"
    ]

    user = ("--entity-type", "users", "--entity-name", "alice")
    for added in ("SCRAM-SHA-256=[iterations=8192,password=pw]", "SCRAM-SHA-512=[password=pw]"):  # not both at once
        done = theirs(either, CONFIGS, *user, "--alter", "--add-config", added)
        assert done == ["Completed updating config for user alice."]
    told = theirs(either, CONFIGS, *user, "--describe")
    assert tidied(kohort("kafka-configs.sh", *user, "--describe", "-b", either.address).out) == told
    assert kohort("users", "delete", "alice", "--mechanism", "SCRAM-SHA-512", "-b", either.address).code == 0
    assert theirs(either, CONFIGS, *user, "--describe") == [
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192"
    ]

    # SE51: quotas, in the words of either tool.
    quotas = ("--entity-type", "clients", "--entity-default", "--entity-type", "users", "--entity-name", "alice")
    done = theirs(either, CONFIGS, *quotas, "--alter", "--add-config", "consumer_byte_rate=1024")
    added = ("--alter", "--add-config", "producer_byte_rate=2048")
    assert tidied(kohort("kafka-configs.sh", *quotas, *added, "-b", either.address).out) == done

    def described() -> Ended | None:  # Kafka's broker hears of a change a little later
        said = kohort("kafka-configs.sh", *quotas, "--describe", "-b", either.address)
        return said if "producer_byte_rate" in said.out else None

    told = eventually(described)
    assert told is not None
    assert told.out.startswith("Quota configs for user-principal 'alice', the default client-id are consumer_byte_rate")
    assert tidied(told.out) == theirs(either, CONFIGS, *quotas, "--describe")


def _given(broker: BrokerProcess, *acls: AclCreation) -> None:
    made = _asked(broker, CreateAclsRequest(creations=list(acls)), 3)
    assert [one.error_code for one in made.results] == [0] * len(acls)


def _asked(broker: BrokerProcess, request: Any, version: int) -> Any:
    with Wire(broker.address) as wire:
        return wire.call(request, version)


def _named(broker: BrokerProcess, *topics: str, make: bool = False) -> list[int]:
    """The error code of each topic in Metadata, which may make it. Kafka has them in the order of a hash."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=make)
    found = {one.name: one.error_code for one in _asked(broker, asked, 9).topics}
    return [found[name] for name in topics]


def test_an_acl_for_somebody_else_closes_what_it_covers_and_no_more(either: BrokerProcess) -> None:
    """SE39: by name, by prefix, by `*`; everybody may what no ACL covers, before and behind it too."""
    topics = ("se39", "se39-more", "other")
    for name in topics:
        g.create(either.address, name)
    eventually(lambda: _named(either, *topics) == [0, 0, 0], what="the topics are there")
    bob = "User:bob"
    for covering, told in (
        (acl(ALLOW, READ, "se39", principal=bob), [29, 0, 0]),
        (acl(ALLOW, READ, "se39", principal=bob, resource_pattern_type=PREFIXED), [29, 29, 0]),
        (acl(ALLOW, READ, "*", principal=bob), [29, 29, 29]),
    ):
        _given(either, covering)
        eventually(lambda told=told: _named(either, *topics) == told, what=f"{covering} counts")
        _asked(either, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)]), 3)
        eventually(lambda: _named(either, *topics) == [0, 0, 0], what="it is gone")


def test_who_may_only_describe_a_topic_does_not_make_it_by_naming_it(either: BrokerProcess) -> None:
    """SE44: topics are made when they are named, by who may CREATE them or topics in the cluster."""
    assert _named(either, "se44-before", make=True) != [29]
    nobody = "User:ANONYMOUS"
    _given(
        either,
        acl(ALLOW, ALL, "kafka-cluster", CLUSTER, principal=nobody),
        acl(DENY, CREATE, "kafka-cluster", CLUSTER, principal=nobody),
        acl(ALLOW, DESCRIBE, "se44", principal=nobody, resource_pattern_type=PREFIXED),
    )

    def may_create() -> bool:
        asked = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
        return bool(_asked(either, asked, 9).cluster_authorized_operations & 1 << CREATE)

    eventually(lambda: not may_create(), what="the ACLs count")
    assert _named(either, "se44-after", make=True) == [29]
    _asked(either, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)]), 3)
    eventually(may_create, what="they are gone")
    eventually(lambda: _named(either, "se44-before", "se44-after") == [0, 3], what="one is there, the other is not")
