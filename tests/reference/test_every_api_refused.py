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
from confluent_kafka.admin import ResourceType
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from broker.handlers.dispatch import HANDLERS
from protocol.api_keys import ApiKey
from protocol.registry import APIS
from tests.support.broker_process import eventually

if TYPE_CHECKING:
    from tests.reference.beside import Side

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reference")]

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
    with socket.create_connection((host, int(port)), timeout=120) as peer:
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
