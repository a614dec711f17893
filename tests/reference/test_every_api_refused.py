"""Every API asked by users without rights, and with half of them, on Kohort and on Apache Kafka: the same codes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaError, Producer
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
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from broker.handlers.dispatch import HANDLERS
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
from tests.support.broker_process import Kafka, Kohort, eventually, free_port, need
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
# Who one is, what there is, and what is a node's own or made up anew each time: told without rights, or not ours.
LEFT_OUT = {
    ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY, ApiKey.DESCRIBE_CLUSTER,
}  # fmt: skip
# Half of the rights, and what of it is gone once it is done.
STAGES: dict[str, tuple[tuple[ResourceType, str], ...]] = {
    "nothing": (),
    "groups and transactions": ((ResourceType.GROUP, "g"), (ResourceType.TRANSACTIONAL_ID, "t")),
    "topics": ((ResourceType.TOPIC, "t"),),
}
DESTROYS = {ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS}


class Side:
    """One broker, and alice, who logs in to it."""

    def __init__(self, broker: BrokerProcess, sasl: str) -> None:
        self.broker = broker
        self.sasl = sasl
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
            self._wire = Wire(self.sasl, timeout_s=30)
            assert self._wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
            assert self._wire.call(token, 2).error_code == 0
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


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kohort and Apache Kafka, with the same listeners and the same rule."""
    need("java", "mvn")
    folder = tmp_path_factory.mktemp("refused")
    with kohort_of(folder) as (ours, our_sasl), kafka_of(folder) as (theirs, their_sasl), ours, theirs:
        yield Side(ours, our_sasl), Side(theirs, their_sasl)


class _Made:
    """A broker that is not started yet, and where alice logs in."""

    def __init__(self, broker: BrokerProcess, sasl: str) -> None:
        self._both = broker, sasl

    def __enter__(self) -> tuple[BrokerProcess, str]:
        return self._both

    def __exit__(self, *_: object) -> None:
        """It ends by itself."""


def _settings(plain: str, sasl: str) -> dict[str, object]:
    return {
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }


def kohort_of(folder: Path) -> _Made:
    """Ours."""
    made, sasl = Kohort(folder / "kohort"), f"127.0.0.1:{free_port()}"
    made.settings = _settings(made.address, sasl)
    return _Made(made, sasl)


def kafka_of(folder: Path) -> _Made:
    """Theirs."""
    made = Kafka(folder / "kafka", environment={"KAFKA_VERSION": "4.4.0", **g.HEAP})
    sasl, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    settings = _settings(made.address, sasl)
    told = str(settings["listeners"])
    names = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    made.settings = {
        **settings,
        "listeners": f"{told},CONTROLLER://{controller}",
        "advertised.listeners": told,
        "listener.security.protocol.map": names,
        "controller.quorum.voters": f"1@{controller}",
    }
    return _Made(made, sasl)


@pytest.mark.parametrize("stage", STAGES)
def test_every_api_refuses_as_kafkas_does(sides: tuple[Side, Side], stage: str) -> None:
    """SE34, SE35: in the oldest and the newest version that both serve, code for code, list for list."""
    ours, theirs = sides
    for side in sides:
        side.grant(STAGES[stage])
    different = {}
    for key in sorted(set(HANDLERS) - LEFT_OUT - (DESTROYS if stage == "topics" else set())):
        if key not in theirs.served:
            continue
        (low, high), (least, most) = APIS[key].served, theirs.served[key]
        for version in sorted({max(low, least), min(high, most)}):
            one, other = ours.told(key, version), theirs.told(key, version)
            if one != other:
                different[f"{ApiKey(key).name} {version}"] = one, other
    assert not different, "\n".join(f"{name}: ours {one}, Kafka's {other}" for name, (one, other) in different.items())


def first(sasl: str, key: int) -> str:
    """What comes of a request of this API, in version 0 with an empty body, as the first of a connection."""
    body = struct.pack(">hhih", key, 0, 1, -1)
    if key == ApiKey.SASL_HANDSHAKE:
        body += b"\0\5PLAIN"
    host, _, port = sasl.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        peer.sendall(struct.pack(">i", len(body)) + body)
        try:
            return "answered" if peer.recv(8) else "closed"
        except ConnectionResetError:
            return "closed"


def test_only_two_apis_may_come_before_the_log_in_as_with_kafka(sides: tuple[Side, Side]) -> None:
    """SE13: each key from 0 to 92."""
    ours, theirs = ({key: first(side.sasl, key) for key in range(93)} for side in sides)
    assert ours == theirs
    assert {key for key, what in ours.items() if what == "answered"} == {17, 18}


def _confluent(settings: dict[str, str], topic: str) -> str:
    told: list[KafkaError | None] = []
    producer = Producer({**settings, "error_cb": told.append, "log_level": 0})
    producer.produce(topic, b"v", on_delivery=lambda error, _: told.append(error))
    eventually(lambda: producer.poll(0.1) or told, what="a word of either end")
    codes = [0 if one is None else one.code() for one in told]
    producer.purge()
    producer.flush(5)
    return "said" if 0 in codes else "_AUTHENTICATION" if KafkaError._AUTHENTICATION in codes else str(codes)


async def _aiokafka(settings: dict[str, str], topic: str) -> str:
    producer = AIOKafkaProducer(**_python(settings), request_timeout_ms=5_000)
    try:
        await asyncio.wait_for(producer.start(), 30)
        await asyncio.wait_for(producer.send_and_wait(topic, b"v"), 30)
    except AIOKafkaError as error:
        return type(error).__name__
    finally:
        await producer.stop()
    return "said"


def _kafka_python(settings: dict[str, str], topic: str) -> str:
    try:
        producer = KafkaProducer(max_block_ms=2_000, bootstrap_timeout_ms=2_000, **_python(settings))
        with contextlib.closing(producer):
            producer.send(topic, b"v").get(10)
    except KafkaPythonError:
        return "refused"  # it tries again until its time is out, and says what the last try said
    return "said"


def _python(settings: dict[str, str]) -> dict[str, Any]:
    names = {"sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password"}
    return {names.get(key, key.replace(".", "_")): value for key, value in settings.items()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_clients_are_let_in_and_sent_away_as_by_kafka(sides: tuple[Side, Side], mechanism: str) -> None:
    """SE28, SE29: confluent-kafka, aiokafka and kafka-python, with the right password and a wrong one."""
    told = []
    for side in sides:
        side.grant(((ResourceType.TOPIC, "t"),))
        side.keep("alice", "alice-secret")
        for password in ("alice-secret", "wrong"):
            settings = {
                "bootstrap.servers": side.sasl,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": password,
            }
            outcome = (
                await asyncio.to_thread(_confluent, settings, "t"),
                await _aiokafka(settings, "t"),
                await asyncio.to_thread(_kafka_python, settings, "t"),
            )
            told.append(outcome)
    assert told[:2] == told[2:]
    assert told[0] == ("said",) * 3
    assert "said" not in " ".join(told[1])
