"""Users, ACLs and quotas on a directory that goes from Kohort to Apache Kafka and back: the next one holds them all."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.test_scram import final
from tests.reference import graduation as g
from tests.reference.beside import SCRAM
from tests.reference.test_changed_security import alter, described
from tests.reference.test_doors_beside_kafka import once_served
from tests.reference.test_quotas_beside_kafka import MUCH_BYTES
from tests.reference.test_rights_beside_kafka import (
    ALL,
    ALLOW,
    ANYTHING,
    CLUSTER,
    DENY,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TRANSACTION,
    WRITE,
    acl,
)
from tests.support.broker_process import BrokerProcess, Kafka, Kohort, eventually, free_port, need
from tests.support.data_plane import batch
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

VERSION = "4.4.0"
TOPICS = ("orders", "orders-closed", "other")
PASSWORDS = {user: f"{user}-secret" for user in ("alice", "bob", "carol", "dave")}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
PRODUCE, CONSUME, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATE, CONNECT = "controller_mutation_rate", "connection_creation_rate"
ANY_USER, ANY_CLIENT = ("user", None), ("client-id", None)
APP = ("client-id", "app")
LIMITED = range(30, 60)
BROKERS_OWN = 2
LIMIT = "listener.name.plaintext.max.connections"
Entity = tuple[tuple[str, str | None], ...]

ACLS = [
    *(acl(ALLOW, ALL, "*", principal=f"User:{user}") for user in ("bob", "carol")),
    acl(ALLOW, WRITE, "ord", resource_pattern_type=PREFIXED),
    acl(DENY, WRITE, "orders-closed"),
    acl(ALLOW, READ, "other", host="127.0.0.0/8"),
    acl(ALLOW, READ, "orders", host="10.0.0.1"),
    acl(DENY, ALL, "other", principal="User:bob"),
    acl(DENY, READ, "orders-", principal="User:*", resource_pattern_type=PREFIXED),
    acl(ALLOW, READ, "*", GROUP, principal="User:*"),
    acl(DENY, ALL, "team-", GROUP, principal="User:bob", resource_pattern_type=PREFIXED),
    acl(ALLOW, WRITE, "pay", TRANSACTION, resource_pattern_type=PREFIXED),
    acl(ALLOW, DESCRIBE, "kafka-cluster", CLUSTER, principal="User:carol"),
]
"""Of alice, bob, carol and everybody: by name, by prefix and for all; allowed and denied; from ranges of hosts."""

QUOTAS: dict[Entity, dict[str, float]] = {
    (("user", "alice"), APP): {PRODUCE: 500, CONSUME: 77},
    (("user", "alice"), ANY_CLIENT): {PRODUCE: 1_000},
    (("user", "bob"),): {PRODUCE: 2_000, REQUEST: 87.5},
    (ANY_USER, APP): {PRODUCE: 4_000},
    (ANY_USER, ANY_CLIENT): {PRODUCE: 8_000, CONSUME: 9e15},
    (ANY_USER,): {PRODUCE: 100, MUTATE: 0.5},
    (APP,): {PRODUCE: 16_000},
    (ANY_CLIENT,): {PRODUCE: 32_000, REQUEST: 99.9},
    (("ip", "127.0.0.1"),): {CONNECT: 5_000},
    **{(("ip", f"127.0.0.{number}"),): {CONNECT: 1} for number in LIMITED},
    (("ip", None),): {CONNECT: 2},
}
"""Of every kind of entity; the bytes lie so far from each other that a wait tells which of them counts."""
RATES = [keys[PRODUCE] for keys in QUOTAS.values() if PRODUCE in keys]
HELD = {("alice", "app"): 500, ("alice", "other"): 1_000, ("bob", "app"): 2_000, ("carol", "app"): 4_000,
        ("carol", "other"): 8_000}  # fmt: skip
"""The rate that each client is held to, as long as all of these are there; and when `change` has been there."""
HELD_LATER = {("alice", "app"): 2_000, ("alice", "other"): 1_000, ("bob", "app"): 100, ("carol", "app"): 100}
HELD_LAST = {("carol", "app"): 16_000, ("carol", "other"): 32_000}
"""When no user has a quota any more."""
RIGHTS = {
    "alice orders": 272, "alice orders-closed": 256, "alice other": 264, "alice cluster": 0,
    "alice team-a": 264, "alice solo": 264,
    "bob orders": 3_576, "bob orders-closed": 3_568, "bob other": -29, "bob cluster": 0,
    "bob team-a": -30, "bob solo": 264,
    "carol orders": 3_576, "carol orders-closed": 3_568, "carol other": 3_576, "carol cluster": 256,
    "carol team-a": 264, "carol solo": 264,
}  # fmt: skip
"""The operations that each is told that it has, as bits; or an error's code, negative."""
RIGHTS_LATER = RIGHTS | {"alice orders-closed": 272, "carol orders": 3_568, "carol other": 3_568}


@pytest.fixture
def tidy() -> Iterator[Callable[[Any], Any]]:
    """tidy(broker) -> broker, which is killed after the test if it still runs."""
    need("java", "mvn")
    yield from g.ending([])


class Lives:
    """One directory, which Kohort and Apache Kafka have in turn, on the same addresses."""

    def __init__(self, folder: Path, tidy: Callable[[Any], Any]) -> None:
        self._folder, self._tidy = folder, tidy
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self._port, self._sasl_port = free_port(), free_port()
        self._graduated: dict[str, str] = {}
        self.sasl = f"127.0.0.1:{self._sasl_port}"
        self._settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},SASL_PLAINTEXT://{self.sasl}",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS.values()),
            **{
                f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": SCRAM
                for mechanism in MECHANISMS.values()
            },
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "offsets.topic.num.partitions": 1,
        }

    def of(self, name: str) -> BrokerProcess:
        """The next one, which runs."""
        made = self._tidy(self._kohort() if name == "kohort" else self._kafka())
        made.start()
        return made

    def _kohort(self) -> Kohort:
        made = g.kohort_on(self._folder / "kohort", self._port, self.data)
        made.settings.update(self._settings)
        return made

    def _kafka(self) -> Kafka:
        listeners = self._settings["listeners"]
        settings = {
            **self._settings,
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._port + 1}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
        }
        settings = self._graduated or settings
        return g.kafka_on(self._folder / "kafka", self.data, self._port, version=VERSION, settings=settings)

    def end(self, broker: BrokerProcess) -> None:
        """It stops; what Kohort says that Kafka is to be told Kafka is told."""
        broker.stop()
        if isinstance(broker, Kohort):
            self._graduated = g.graduated(broker, "--to", VERSION)


# --- what is written


def ask(broker: BrokerProcess, request: Any, version: int) -> Any:
    """Of a super user."""
    with Wire(broker.address) as wire:
        return wire.call(request, version)


def set_quotas(broker: BrokerProcess, quotas: dict[Entity, dict[str, float | None]]) -> None:
    """None: removed."""
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in keys.items()],
        )
        for entity, keys in quotas.items()
    ]
    answer = ask(broker, AlterClientQuotasRequest(entries=entries), 1)
    assert {one.error_code for one in answer.entries} == {0}


def credential(user: str, mechanism: int, password: str, iterations: int) -> ScramCredentialUpsertion:
    """As a client makes it."""
    salt = f"salt-of-{user}".encode()
    name = {1: "sha256", 2: "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def set_users(
    broker: BrokerProcess, *upsertions: ScramCredentialUpsertion, gone: tuple[tuple[str, int], ...] = ()
) -> None:
    """One credential of each user in a request."""
    deletions = [ScramCredentialDeletion(name=user, mechanism=mechanism) for user, mechanism in gone]
    asked = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=list(upsertions))
    assert {one.error_code for one in ask(broker, asked, 0).results} == {0}


def write_everything(broker: BrokerProcess) -> None:
    """Topics, users by both mechanisms, ACLs of every kind, quotas of every entity."""
    with Wire(broker.address) as wire:
        for topic in TOPICS:
            assert wire.create_topic(topic, 1) == 0
        eventually(lambda: wire.coordinator_error("solo") == 0, what="the topic of groups")
    set_users(
        broker,
        credential("alice", 1, PASSWORDS["alice"], 4_096),
        credential("bob", 2, PASSWORDS["bob"], 8_192),
        credential("carol", 1, PASSWORDS["carol"], 4_097),
    )
    set_users(broker, credential("alice", 2, PASSWORDS["alice"], 4_096))
    made = ask(broker, CreateAclsRequest(creations=ACLS), 3)
    assert {one.error_code for one in made.results} == {0}
    set_quotas(broker, {entity: dict(keys) for entity, keys in QUOTAS.items()})


def change(broker: BrokerProcess) -> None:
    """Something of everything: made, replaced, removed; and a limit of a listener's."""
    set_users(broker, credential("dave", 2, PASSWORDS["dave"], 4_096), gone=(("alice", 1), ("carol", 1)))
    set_users(broker, credential("carol", 1, "another", 4_096))
    closed = {**ANYTHING, "resource_name_filter": "orders-closed", "pattern_type_filter": 3}
    removed = ask(broker, DeleteAclsRequest(filters=[DeleteAclsFilter(**closed)]), 3)
    assert len(removed.filter_results[0].matching_acls) == 1
    made = ask(broker, CreateAclsRequest(creations=[acl(DENY, READ, "*", principal="User:carol")]), 3)
    assert {one.error_code for one in made.results} == {0}
    gone: dict[str, float | None] = {PRODUCE: None}
    assert alter(broker, {LIMIT: "900"})[0] == 0
    set_quotas(broker, {(("user", "alice"), APP): {PRODUCE: 2_000}, (("user", "bob"),): gone, (ANY_USER, APP): gone,
                        (ANY_USER, ANY_CLIENT): gone, (("ip", None),): {CONNECT: 1}})  # fmt: skip


# --- what is held


def told(broker: BrokerProcess) -> dict[str, Any]:
    """All that it tells of users, ACLs, quotas and that limit."""
    users = {
        one.user: sorted((info.mechanism, info.iterations) for info in one.credential_infos)
        for one in ask(broker, DescribeUserScramCredentialsRequest(users=None), 0).results
    }
    quotas = ask(broker, DescribeClientQuotasRequest(components=[], strict=False), 1).entries
    acls = ask(broker, DescribeAclsRequest(**ANYTHING), 3).resources
    return {
        "limit": [value for value, source, *_ in described(broker, [LIMIT]).values() if source == BROKERS_OWN],
        "users": users,
        "quotas": {
            tuple(sorted((part.entity_type, part.entity_name) for part in one.entity)): {
                value.key: value.value for value in one.values
            }
            for one in quotas
        },
        "acls": sorted(
            (one.resource_type, one.resource_name, one.pattern_type, each.principal, each.host, each.operation,
             each.permission_type)
            for one in acls for each in one.acls
        ),
    }  # fmt: skip


def log_in(address: str, user: str, password: str, mechanism: int = 1, client: str = "wire") -> Wire | None:
    """A connection of a user's; None: refused."""
    wire = Wire(address, client_id=client)
    name, bare = MECHANISMS[mechanism], f"n={user},r=abc"
    assert wire.call(SaslHandshakeRequest(mechanism=name), 1).error_code == 0
    first = wire.call(SaslAuthenticateRequest(auth_bytes=f"n,,{bare}".encode()), 2)
    if not first.error_code:
        last = final(bytes(first.auth_bytes), bare, password, name)
        if not wire.call(SaslAuthenticateRequest(auth_bytes=last), 2).error_code:
            return wire
    wire.close()
    return None


LOG_INS = {
    "alice by 256": ("alice", PASSWORDS["alice"], 1),
    "alice by 512": ("alice", PASSWORDS["alice"], 2),
    "alice by another password": ("alice", "another", 1),
    "bob by 256": ("bob", PASSWORDS["bob"], 1),
    "bob by 512": ("bob", PASSWORDS["bob"], 2),
    "carol": ("carol", PASSWORDS["carol"], 1),
    "carol by another password": ("carol", "another", 1),
    "dave": ("dave", PASSWORDS["dave"], 2),
}


def let_in(address: str) -> set[str]:
    """Whose log-ins are taken."""
    found = set()
    for name, (user, password, mechanism) in LOG_INS.items():
        wire = log_in(address, user, password, mechanism)
        if wire is not None:
            found.add(name)
            wire.close()
    return found


def _connection(address: str, user: str, client: str = "wire") -> Wire:
    """Of a user's, by whatever log-in is taken."""
    ways = [(password, mechanism) for who, password, mechanism in LOG_INS.values() if who == user]
    return next(wire for wire in (log_in(address, user, *way, client=client) for way in ways) if wire is not None)


def rights(address: str) -> dict[str, int]:
    """The operations that each user is told it has, of topics, groups and the cluster; an error's code, negative."""
    found = {}
    topics = [MetadataRequestTopic(name=topic) for topic in TOPICS]
    asked = MetadataRequest(
        topics=topics, include_topic_authorized_operations=True, include_cluster_authorized_operations=True,
        allow_auto_topic_creation=False,
    )  # fmt: skip
    groups = DescribeGroupsRequest(groups=["team-a", "solo"], include_authorized_operations=True)
    for user in ("alice", "bob", "carol"):
        with _connection(address, user) as wire:
            answer = wire.call(asked, 9)
            found |= {f"{user} {one.name}": -one.error_code or one.topic_authorized_operations for one in answer.topics}
            found[f"{user} cluster"] = answer.cluster_authorized_operations

            def described(wire: Wire = wire) -> list[Any]:
                told = list(wire.call(groups, 4).groups)
                return [] if any(one.error_code in g.NOT_YET for one in told) else told

            for one in eventually(described, what="groups are loaded"):
                found[f"{user} {one.group_id}"] = -one.error_code or one.authorized_operations
    return found


def waits_ms(address: str, user: str, client: str) -> int:
    """How long a client is told to wait for much; the bytes count whether the topic is the user's or not."""
    topic = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=0, records=batch(b"v" * MUCH_BYTES))]
    )
    with _connection(address, user, client) as wire:
        answer: Any = wire.call(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def holding(address: str, *who: tuple[str, str]) -> dict[tuple[str, str], float]:
    """The rate that each of these clients is held to, of those that were ever set; 0: none."""
    found = {}
    for user, client in who:
        told_ms = waits_ms(address, user, client)
        rate = MUCH_BYTES / (told_ms / 1_000 + 10)  # ten seconds' worth is free
        found[user, client] = min(RATES, key=lambda each: max(each / rate, rate / each)) if told_ms else 0
    return found


def served(broker: BrokerProcess, source: str, count: int) -> int:
    """How many of so many connections at once from an address are served."""
    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(lambda _: once_served(broker.address, source), range(count)))


def eventually_serves(broker: BrokerProcess, sources: Iterator[str], count: int, of: int) -> None:
    """Each try from another address: Kafka's network side hears of quotas a little later."""
    eventually(lambda: served(broker, next(sources), of) == count, every_s=0.5, what=f"{count} of {of} connections")


@pytest.mark.parametrize("order", [("kohort", "kafka", "kohort"), ("kafka", "kohort", "kafka")], ids="-".join)
def test_users_acls_and_quotas_hold_on_the_next_broker_and_back(
    tmp_path: Path, tidy: Any, order: tuple[str, str, str]
) -> None:
    """SE49: what one has written the other tells of and enforces, and what that one changes the first does."""
    lives = Lives(tmp_path, tidy)
    limited, others = (iter([f"127.0.0.{number}" for number in places]) for places in (LIMITED, range(100, 250)))

    broker = lives.of(order[0])
    write_everything(broker)
    written = {tuple(sorted(entity)): keys for entity, keys in QUOTAS.items()}
    eventually(lambda: told(broker)["quotas"] == written, what="what was written")
    said = told(broker)
    assert len(said["acls"]) == len(ACLS)
    lives.end(broker)

    broker = lives.of(order[1])
    eventually(lambda: told(broker) == said, what="what the first has told")
    assert let_in(lives.sasl) == {"alice by 256", "alice by 512", "bob by 512", "carol"}
    assert rights(lives.sasl) == RIGHTS
    assert holding(lives.sasl, *HELD) == HELD
    eventually_serves(broker, limited, 10, 14)
    eventually_serves(broker, others, 20, 24)
    change(broker)
    eventually(lambda: told(broker)["quotas"][(("ip", None),)] == {CONNECT: 1}, what="what was changed")
    said = told(broker)
    assert said["limit"] == ["900"]
    lives.end(broker)

    broker = lives.of(order[2])
    eventually(lambda: told(broker) == said, what="what the second has told")
    assert let_in(lives.sasl) == {"alice by 512", "bob by 512", "carol by another password", "dave"}
    assert rights(lives.sasl) == RIGHTS_LATER
    assert holding(lives.sasl, *HELD_LATER) == HELD_LATER
    eventually_serves(broker, others, 10, 14)
    set_quotas(broker, {(ANY_USER,): {PRODUCE: None}})
    eventually(lambda: PRODUCE not in told(broker)["quotas"][(ANY_USER,)], what="a quota that is gone")
    assert holding(lives.sasl, *HELD_LAST) == HELD_LAST
    lives.end(broker)
