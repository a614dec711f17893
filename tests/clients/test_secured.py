"""Unmodified clients on a listener that asks who they are: right and wrong credentials."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from cli.errors import Failed
from cli.wire import Wire as OwnWire
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.security.test_scram import final
from tests.cli.conftest import kohort
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort, eventually, need
from tests.support.certificates import Authority
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "plantedSecret-7f3a"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PREFIX = "listener.name.sasl_plaintext"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
KEY = rsa.generate_private_key(65_537, 2_048)


def token(*, key: rsa.RSAPrivateKey = KEY) -> tuple[str, float]:
    """A token of bob's, good for a minute, and when it ends."""
    now_s = time.time()
    claims = {"sub": "bob", "iat": int(now_s), "exp": int(now_s) + 60, "iss": "https://issuer"}
    return jwt.encode(claims, key, "RS256", {"kid": "one"}), now_s + 60


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Kohort]:
    """SASL_PLAINTEXT for those who have users, PLAINTEXT beside it, SSL with client certificates, and SASL_SSL."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys.json").write_text(
        json.dumps({"keys": [{**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}]})
    )
    (folder / "server.pem").write_bytes(authority.issue().pem())
    settings = {
        **QUICK_GROUPS,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_bob="{PASSWORD}";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": SCRAM,
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        f"{PREFIX}.oauthbearer.sasl.jaas.config": OAUTH,
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": OAUTH,
        f"{PREFIX}.plain.sasl.jaas.config": f'{PLAIN} required user_bob="{PASSWORD}";',
        f"{PREFIX}.scram-sha-256.sasl.jaas.config": SCRAM,
        f"{PREFIX}.scram-sha-512.sasl.jaas.config": SCRAM,
        "connection.failed.authentication.delay.ms": 0,
        "kohort.log.level": "debug",
    }
    broker = Kohort(tmp_path_factory.mktemp("secured"), settings)
    with broker:
        keep(broker, "bob", PASSWORD)
        broker.keys = folder
        yield broker
    # SE70: everything above failed and succeeded with this password.
    assert PASSWORD not in broker.log()


def addresses(broker: Kohort) -> dict[str, str]:
    """Of each listener."""
    line = re.search(r"ready on (.*) in", broker.log())
    assert line is not None
    return dict(zip(("SASL_PLAINTEXT", "PLAINTEXT", "SSL", "SASL_SSL"), line[1].split(" and "), strict=True))


def open_address(broker: Kohort) -> str:
    """Of the listener that asks nobody who it is."""
    return addresses(broker)["PLAINTEXT"]


def keep(broker: Kohort, user: str, password: str) -> None:
    """Give the user a SCRAM credential of both mechanisms."""
    admin = AdminClient({"bootstrap.servers": open_address(broker)})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        upsertion = UserScramCredentialUpsertion(user, info, password.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(20)


def confluent(broker: Kohort, mechanism: str, password: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "bob",
        "sasl.password": password,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def python_settings(broker: Kohort, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "bob",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_produces_and_consumes(secured: Kohort, mechanism: str, name: str):
    """SE28"""
    producer = Producer(confluent(secured, mechanism, PASSWORD))
    producer.produce(name, b"value")
    assert producer.flush(20) == 0
    consumer = Consumer(confluent(secured, mechanism, PASSWORD, group_id=name, auto_offset_reset="earliest"))
    consumer.subscribe([name])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"value"
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_produces_and_consumes(secured: Kohort, mechanism: str, name: str):
    """SE28"""
    async with AIOKafkaProducer(**python_settings(secured, mechanism, PASSWORD)) as producer:
        await producer.send_and_wait(name, b"value")
    settings = python_settings(secured, mechanism, PASSWORD)
    async with AIOKafkaConsumer(name, group_id=name, auto_offset_reset="earliest", **settings) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes(secured: Kohort, mechanism: str, name: str):
    """SE28"""
    settings = python_settings(secured, mechanism, PASSWORD)
    producer = KafkaProducer(**settings)
    producer.send(name, b"value").get(20)
    producer.close()
    consumer = KafkaConsumer(name, group_id=name, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings)
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS[1:2])
def test_confluent_is_told_of_a_wrong_password(secured: Kohort, mechanism: str):
    """SE29: its error callback has our words; calls end when their time is out."""
    told: list[KafkaError] = []
    producer = Producer({**confluent(secured, mechanism, PASSWORD + "x"), "error_cb": told.append})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1)
    until = time.monotonic() + 10
    while not told and time.monotonic() < until:
        producer.poll(0.1)
    assert KafkaError._AUTHENTICATION in [error.code() for error in told]


@pytest.mark.parametrize("mechanism", MECHANISMS[1:2])
async def test_aiokafka_is_told_of_a_wrong_password(secured: Kohort, mechanism: str):
    """SE29"""
    producer = AIOKafkaProducer(**python_settings(secured, mechanism, PASSWORD + "x"))
    with pytest.raises(KafkaConnectionError):
        await asyncio.wait_for(producer.start(), 20)
    await producer.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS[1:2])
def test_kafka_python_gives_up_with_a_wrong_password(secured: Kohort, mechanism: str):
    """SE29"""
    settings = python_settings(secured, mechanism, PASSWORD + "x")
    with pytest.raises(KafkaPythonError):
        producer = KafkaProducer(max_block_ms=1_000, bootstrap_timeout_ms=1_000, **settings)
        with contextlib.closing(producer):
            producer.send("nowhere", b"value").get(2)


def log_in(wire: Wire, user: str, password: str) -> int:
    """Over this connection by SCRAM-SHA-256; the error code of the last answer."""
    assert wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    bare = f"n={user},r=abc"
    first = wire.call(SaslAuthenticateRequest(auth_bytes=f"n,,{bare}".encode()), 2)
    last = SaslAuthenticateRequest(auth_bytes=final(bytes(first.auth_bytes), bare, password))
    return wire.call(last, 2).error_code


def test_a_scram_user_who_is_deleted_is_served_until_it_connects_again(secured: Kohort):
    """SE22"""
    keep(secured, "mallory", PASSWORD)
    admin = AdminClient({"bootstrap.servers": open_address(secured)})
    with Wire(secured.address) as wire:
        assert log_in(wire, "mallory", PASSWORD) == ErrorCode.NONE
        deletion = UserScramCredentialDeletion("mallory", ScramMechanism.SCRAM_SHA_256)
        for future in admin.alter_user_scram_credentials([deletion]).values():
            future.result(20)

        assert wire.call(MetadataRequest(topics=[]), 1).brokers
    with Wire(secured.address) as wire:
        assert log_in(wire, "mallory", PASSWORD) == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_each_listener_tells_its_own_address(secured: Kohort):
    """SE01"""
    for address in (secured.address, open_address(secured)):
        with Wire(address) as wire:
            if address == secured.address:
                assert log_in(wire, "bob", PASSWORD) == ErrorCode.NONE
            (node,) = wire.call(MetadataRequest(topics=[]), 1).brokers
            assert f"{node.host}:{node.port}" == address


# --- tokens


def test_confluent_shows_a_token(secured: Kohort, name: str):
    """SE28"""
    settings = {
        "bootstrap.servers": secured.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: token(),
    }
    producer = Producer(settings)
    producer.produce(name, b"value")
    assert producer.flush(20) == 0

    foreign = rsa.generate_private_key(65_537, 2_048)
    with pytest.raises(KafkaException):
        Producer({**settings, "oauth_cb": lambda _: token(key=foreign)}).list_topics(timeout=1)


async def test_aiokafka_shows_a_token(secured: Kohort, name: str):
    """SE28"""

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return token()[0]

    producer = AIOKafkaProducer(
        bootstrap_servers=secured.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
    )
    async with producer:
        await producer.send_and_wait(name, b"value")


# --- TLS


@pytest.fixture
def trusting(secured: Kohort, authority: Authority) -> tuple[str, ssl.SSLContext]:
    """The authority's certificate as a file, and a context of Python's that trusts it and shows alice's."""
    file = secured.keys / "authority.crt"
    file.write_bytes(authority.certificate_pem)
    context = ssl.create_default_context(cafile=str(file))
    context.load_cert_chain(*authority.issue("alice").write(secured.keys, "alice"))
    return str(file), context


PROTOCOLS = ("SSL", "SASL_SSL")


def tls_confluent(broker: Kohort, protocol: str, trusted: str) -> dict[str, Any]:
    shown = {
        "bootstrap.servers": addresses(broker)[protocol],
        "security.protocol": protocol,
        "ssl.ca.location": trusted,
    }
    if protocol == "SASL_SSL":
        return {**confluent(broker, "SCRAM-SHA-512", PASSWORD), **shown}
    names = {"ssl.certificate.location": broker.keys / "alice.crt", "ssl.key.location": broker.keys / "alice.key"}
    return {**shown, **{key: str(path) for key, path in names.items()}}


def tls_python(broker: Kohort, protocol: str, context: ssl.SSLContext) -> dict[str, Any]:
    shown = {
        "bootstrap_servers": addresses(broker)[protocol],
        "security_protocol": protocol,
        "ssl_context": context,
    }
    return {**python_settings(broker, "SCRAM-SHA-256", PASSWORD), **shown} if protocol == "SASL_SSL" else shown


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_confluent_over_tls(secured: Kohort, trusting: tuple[str, ssl.SSLContext], protocol: str, name: str):
    """SE28: a megabyte of values there and back."""
    settings = tls_confluent(secured, protocol, trusting[0])
    producer = Producer(settings)
    for number in range(10):
        producer.produce(name, bytes([number]) * 100_000)
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    try:
        values = [consumer.poll(20).value() for _ in range(10)]
    finally:
        consumer.close()
    assert values == [bytes([number]) * 100_000 for number in range(10)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_aiokafka_over_tls(secured: Kohort, trusting: tuple[str, ssl.SSLContext], protocol: str, name: str):
    """SE28"""
    settings = tls_python(secured, protocol, trusting[1])
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(name, b"value")
    async with AIOKafkaConsumer(name, group_id=name, auto_offset_reset="earliest", **settings) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"value"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafka_python_over_tls(secured: Kohort, trusting: tuple[str, ssl.SSLContext], protocol: str, name: str):
    """SE28"""
    settings = tls_python(secured, protocol, trusting[1])
    producer = KafkaProducer(**settings)
    producer.send(name, b"value").get(20)
    producer.close()
    consumer = KafkaConsumer(name, group_id=name, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings)
    assert next(consumer).value == b"value"
    consumer.close()


def shown_certificate(broker: Kohort) -> bytes:
    host, _, port = addresses(broker)["SASL_SSL"].partition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), 10) as raw, context.wrap_socket(raw) as secure:
        return secure.getpeercert(binary_form=True) or b""


@pytest.mark.parametrize(("issuer", "days"), [("foreign", 10), ("own", -1)])
def test_a_foreign_or_expired_certificate_is_refused(
    secured: Kohort, authority: Authority, tmp_path: Path, issuer: str, days: int
):
    """SE05"""
    issued = (authority if issuer == "own" else Authority("Foreign")).issue("alice", from_day=-20, days=20 + days)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*issued.write(tmp_path, "bad"))
    host, _, port = addresses(secured)["SSL"].partition(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        secure = context.wrap_socket(raw)
        with pytest.raises(ssl.SSLError, match="alert"):
            secure.recv(1)


def test_a_signal_has_a_renewed_certificate_read(secured: Kohort, authority: Authority):
    """SE08"""
    before = shown_certificate(secured)
    (secured.keys / "server.pem").write_bytes(authority.issue().pem())
    os.kill(secured.pid, signal.SIGHUP)
    eventually(lambda: shown_certificate(secured) != before)


def test_a_large_fetch_over_tls_arrives(secured: Kohort, trusting: tuple[str, ssl.SSLContext], name: str):
    """SE66: twenty megabytes in one answer."""
    settings = tls_confluent(secured, "SASL_SSL", trusting[0])
    producer = Producer({**settings, "batch.size": 1_000_000, "message.max.bytes": 1_000_000})
    for _ in range(24):
        producer.produce(name, os.urandom(900_000), partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {**settings, "group.id": name, "fetch.max.bytes": 30_000_000, "max.partition.fetch.bytes": 30_000_000}
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    assert sum(len(message.value()) for message in consumer.consume(24, 30)) == 24 * 900_000
    consumer.close()


def command_config(secured: Kohort, authority: Authority, listener: str, mechanism: str, password: str) -> list[str]:
    """Lines of `--command-config`, as Java's clients have them."""
    lines = [f"security.protocol={listener}", "ssl.truststore.type=PEM"]
    authority_pem = secured.keys / "authority.pem"
    authority_pem.write_bytes(authority.certificate_pem)
    lines.append(f"ssl.truststore.location={authority_pem}")
    if listener == "SSL":
        alice = secured.keys / "alice.p12"
        alice.write_bytes(authority.issue("alice").p12(b"pw"))
        lines += ["ssl.keystore.type=PKCS12", f"ssl.keystore.location={alice}", "ssl.keystore.password=pw"]
    if mechanism == "OAUTHBEARER":
        shown = secured.keys / "token"
        shown.write_text(token()[0])
        lines += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={OAUTH}"]
        lines.append(f"sasl.oauthbearer.token.endpoint.url=file://{shown}")
    elif mechanism:
        module = PLAIN if mechanism == "PLAIN" else SCRAM.removesuffix(" required;")
        login = f'{module} required username="bob" password="{password}";'
        lines += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={login}"]
    return lines


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", ""),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER"),
    ],
)
def test_commands_with_requests_of_our_own_log_in(
    secured: Kohort, authority: Authority, tmp_path: Path, listener: str, mechanism: str
):
    """What the client library cannot ask goes over a connection of our own, which says who it is in the same way."""
    given = command_config(secured, authority, listener, mechanism, PASSWORD)
    (tmp_path / "client.properties").write_text("\n".join(given))
    where = ("-b", addresses(secured)[listener], "--command-config", str(tmp_path / "client.properties"))
    added = kohort("quotas", "alter", "--client", "slow", "--add-config", "producer_byte_rate=5", *where)
    assert added.code == 0, added
    assert kohort("quotas", "describe", "--client", "slow", *where, "--json").json[0]["value"] == 5
    assert kohort("transactions", "list", *where).code == 0
    assert "Produce(0): 0 to 13" in kohort("kafka-broker-api-versions.sh", *where).out


def test_a_wrong_password_is_said_by_connections_of_our_own(secured: Kohort):
    """SE29"""
    host, port = addresses(secured)["SASL_PLAINTEXT"].split(":")
    for mechanism in MECHANISMS:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        with pytest.raises(Failed, match="Authentication failed"):
            OwnWire(host, int(port), timeout_s=120, settings={**settings, "sasl.username": "bob", "sasl.password": "x"})


def test_a_token_is_got_and_a_wrong_one_told_by_connections_of_our_own(secured: Kohort):
    """SE25, SE29: by client credentials from an endpoint; a foreign token's refusal is said in the broker's words."""
    asked: list[tuple[str | None, bytes]] = []
    keys = [KEY]

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.headers["Authorization"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": token(key=keys[0])[0]}).encode())

        def log_message(self, *_: object) -> None:
            """Into nobody's output."""

    host, port = addresses(secured)["SASL_PLAINTEXT"].split(":")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "planted",
        }
        with OwnWire(host, int(port), timeout_s=120, settings=settings) as wire:
            assert wire.ask(MetadataRequest(topics=[]), 1).brokers
        keys[0] = rsa.generate_private_key(65_537, 2_048)
        with pytest.raises(Failed, match="invalid_token"):
            OwnWire(host, int(port), timeout_s=120, settings=settings)
        endpoint.shutdown()
    assert asked[0] == (f"Basic {base64.b64encode(b'me:planted').decode()}", b"grant_type=client_credentials")
    with pytest.raises(Failed, match="gives no token") as refused:
        OwnWire(host, int(port), timeout_s=120, settings=settings)
    assert "planted" not in str(refused.value)


def test_a_foreign_broker_is_not_trusted_by_connections_of_our_own(secured: Kohort):
    host, port = addresses(secured)["SASL_SSL"].split(":")
    foreign = {"security.protocol": "SSL", "ssl.ca.pem": Authority("Foreign").certificate_pem.decode()}
    with pytest.raises(Failed, match=r"(?i)certificate"):
        OwnWire(host, int(port), timeout_s=120, settings=foreign)


def test_health_is_asked_of_every_kind_of_listener(secured: Kohort, monkeypatch: pytest.MonkeyPatch):
    for name, address in addresses(secured).items():
        assert kohort("health", f"{name}://{address}").code == 0
    monkeypatch.setenv("KAFKA_LISTENERS", f"INSIDE://{addresses(secured)['SASL_SSL']}")
    monkeypatch.setenv("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "INSIDE:SASL_SSL,PLAINTEXT:PLAINTEXT")
    assert kohort("health").code == 0


# --- Java


def java_settings(broker: Kohort, authority: Authority, protocol: str, mechanism: str, password: str) -> list[str]:
    """As a properties file of Java's clients has them."""
    lines = [f"security.protocol={protocol}"]
    if protocol.endswith("SSL"):
        (broker.keys / "authority.crt").write_bytes(authority.certificate_pem)
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={broker.keys}/authority.crt"]
    if protocol == "SSL":
        (broker.keys / "alice.pem").write_bytes(authority.issue("alice").pem())
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={broker.keys}/alice.pem"]
    else:
        module = PLAIN if mechanism == "PLAIN" else SCRAM.split(maxsplit=1)[0]
        lines += [f"sasl.mechanism={mechanism}",
                  f'sasl.jaas.config={module} required username="bob" password="{password}";']  # fmt: skip
    return lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "mechanism", "right"),
    [("SASL_SSL", "SCRAM-SHA-512", True), ("SASL_PLAINTEXT", "PLAIN", False)],
)
def test_the_java_client(
    secured: Kohort, authority: Authority, tmp_path: Path, name: str, protocol: str, mechanism: str, right: bool
):
    """SE28, SE29: Kafka's own command line. What its producer and consumer say: test_secured_clients.py."""
    need("java", "mvn")
    settings = java_settings(secured, authority, protocol, mechanism, PASSWORD if right else "wrong")
    (tmp_path / "client.properties").write_text("\n".join(settings))
    words = ["run", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addresses(secured)[protocol],
             "--command-config", str(tmp_path / "client.properties"), "--create", "--topic", name]  # fmt: skip
    ended = subprocess.run(
        [str(ROOT / "tools" / "kafka"), *words], capture_output=True, text=True, timeout=400, check=False
    )
    said = ended.stdout + ended.stderr
    if right:
        assert f"Created topic {name}" in said
    else:
        assert "SaslAuthenticationException" in said
        assert ended.returncode != 0
