"""Kohort and Apache Kafka side by side, with the same listeners, users, certificates and rule of rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.registry import APIS
from protocol.schema import Struct
from protocol.schema.layout import message_layout
from tests.broker.handlers.test_authorizer import one_of_everything
from tests.clients.harness import create_topic
from tests.reference import graduation as g
from tests.support.broker_process import Kafka, Kohort, eventually, free_port
from tests.support.certificates import Authority
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess

PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
RULES = r"RULE:^CN=(.*?),OU=Dev.*$/$1/U,RULE:^CN=([^,]*),OU=a b$/x-$1$9/L,DEFAULT"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "AGAIN", "NEVER", "ASKS", "MUST")
"""Who is asked: nobody; users; users, again and again; certificates never, if there is one (with rules), and always."""
SESSION_MS = 2_000
EIGHT = "127.0.0.2"
"""An address that may have eight connections."""
SLOW = [f"127.0.0.{number}" for number in range(30, 60)]
"""Addresses for a quota of their own."""


class Folder:
    """Keys and certificates that both brokers read."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.authority = Authority()
        self.key = rsa.generate_private_key(65_537, 2_048)
        jwk = {**json.loads(RSAAlgorithm.to_jwk(self.key.public_key())), "kid": "one", "alg": "RS256", "use": "sig"}
        (place / "keys.json").write_text(json.dumps({"keys": [jwk]}))
        (place / "server.pem").write_bytes(self.authority.issue().pem())
        (place / "ca.pem").write_bytes(self.authority.certificate_pem)

    def settings(self, addresses: dict[str, str]) -> dict[str, object]:
        """Of either broker."""
        protocols = {"AGAIN": "SASL_PLAINTEXT", "NEVER": "SSL", "ASKS": "SSL", "MUST": "SSL"}
        return {
            "listeners": ",".join(f"{name}://{address}" for name, address in addresses.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{protocols.get(name, name)}" for name in addresses),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
            "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH,
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.place}/keys.json",
            "sasl.oauthbearer.expected.audience": "kafka,other",
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "listener.name.again.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.again.plain.sasl.jaas.config": PLAIN,
            "listener.name.again.scram-sha-256.sasl.jaas.config": SCRAM,
            "listener.name.again.connections.max.reauth.ms": SESSION_MS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.place / "server.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.place / "ca.pem",
            "listener.name.never.ssl.client.auth": "none",
            "listener.name.asks.ssl.client.auth": "requested",
            "listener.name.asks.ssl.principal.mapping.rules": RULES,
            "listener.name.must.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "max.connections.per.ip.overrides": f"{EIGHT}:8",
            "auto.create.topics.enable": "false",
            "num.partitions": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
        }


def logged_in(address: str, user: str = "alice", *, client_id: str = "wire", timeout_s: float = 30) -> Wire:
    """A connection of a user's, by PLAIN."""
    wire = Wire(address, client_id=client_id, timeout_s=timeout_s)
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}-secret".encode())
    assert wire.call(token, 2).error_code == 0
    return wire


class Side:
    """One broker, and alice, who logs in to it."""

    def __init__(self, broker: BrokerProcess, addresses: dict[str, str]) -> None:
        self.broker = broker
        self.addresses = addresses
        self.sasl = addresses["SASL_PLAINTEXT"]
        create_topic(broker.address, "t", 1)
        with Wire(broker.address) as wire:
            eventually(lambda: wire.coordinator_error("g") == 0)
        self._wire: Wire | None = None
        with Wire(broker.address) as wire:
            topics = wire.call(_metadata(), 12).topics
            self.topic_id: bytes = next(topic.topic_id for topic in topics if topic.name == "t")
            served = wire.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).api_keys
        self.served = {one.api_key: (one.min_version, one.max_version) for one in served}

    def grant(self, rights: tuple[tuple[ResourceType, str], ...]) -> None:
        """All operations on these, and nothing else."""
        admin = AdminClient({"bootstrap.servers": self.broker.address, **g.QUIET})
        anything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        for future in admin.delete_acls([anything]).values():
            future.result(60)
        who = ("User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        wanted = [AclBinding(kind, name, ResourcePatternType.LITERAL, *who) for kind, name in rights]
        for future in (admin.create_acls(wanted) if wanted else {}).values():
            future.result(60)

    def keep(self, user: str, password: str) -> None:
        """A SCRAM credential."""
        admin = AdminClient({"bootstrap.servers": self.broker.address, **g.QUIET})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
        upsertion = UserScramCredentialUpsertion(user, info, password.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(60)

    def told(self, key: int, version: int) -> Any:
        """The error codes of an answer, each with its place in it; how the connection ended where there is none."""
        request = one_of_everything(message_layout(APIS[key].request, version), self.topic_id)
        for name in ("timeout_ms", "transaction_timeout_ms"):
            if hasattr(request, name):
                setattr(request, name, 5_000)
        try:
            answer = self.wire.call(request, version)
        except TimeoutError:
            self._drop()
            return "no answer"
        except (OSError, AssertionError):
            self._drop()
            return "closed"
        return list(codes(answer))

    @property
    def wire(self) -> Wire:
        """A connection of alice's."""
        if self._wire is None:
            self._wire = logged_in(self.sasl)
        return self._wire

    def _drop(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def _metadata() -> Any:
    return APIS[ApiKey.METADATA].request(topics=None)


def codes(value: Any, place: str = "") -> Iterator[tuple[str, int]]:
    """Each error code, by its place; and how long each list is."""
    if isinstance(value, Struct):
        for field in value.FIELDS:
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield f"{place}.{field.name}", int(inner)
            else:
                yield from codes(inner, f"{place}.{field.name}")
    elif isinstance(value, list) and any(isinstance(inner, Struct) for inner in value):
        yield place, len(value)
        for inner in value:
            yield from codes(inner, f"{place}[]")


def addresses_of(broker: BrokerProcess) -> dict[str, str]:
    """Of each listener; the one that asks nobody has the broker's own port."""
    ports = {broker.port}
    while len(ports) < len(LISTENERS):
        ports.add(free_port())
    others = iter(ports - {broker.port})
    return {name: f"127.0.0.1:{broker.port if name == 'PLAINTEXT' else next(others)}" for name in LISTENERS}


def kohort_of(folder: Folder) -> tuple[BrokerProcess, dict[str, str]]:
    """Ours."""
    made = Kohort(folder.place / "kohort")
    addresses = addresses_of(made)
    made.settings = folder.settings(addresses)
    return made, addresses


def kafka_of(folder: Folder) -> tuple[BrokerProcess, dict[str, str]]:
    """Theirs, which wants to be told on its command line what a token's keys may be read from."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{folder.place}/keys.json"
    made = Kafka(folder.place / "kafka", environment={"KAFKA_VERSION": "4.4.0", "JAVA_TOOL_OPTIONS": allowed, **g.HEAP})
    addresses, controller = addresses_of(made), f"127.0.0.1:{free_port()}"
    settings = folder.settings(addresses)
    told = str(settings["listeners"])
    made.settings = {
        **settings,
        "listeners": f"{told},CONTROLLER://{controller}",
        "advertised.listeners": told,
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{controller}",
    }
    return made, addresses
