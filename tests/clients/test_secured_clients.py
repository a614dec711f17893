"""Every client behind TLS and SASL, with ACLs: who gets in, who does not, and who may no longer."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.broker.http.metrics.http_client import Metrics
from tests.clients.harness import WORKERS, create_topic, franz, kafkajs
from tests.clients.kcat import Kcat, kcat, librdkafka, newer_librdkafka
from tests.clients.saying import PYTHONS
from tests.clients.test_secured import KEY, MECHANISMS, OAUTH, PASSWORD, PLAIN, SCRAM, keep, token
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually, need
from tests.support.certificates import Authority, Issued
from tests.support.java import NEWEST, class_path
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("secured clients")]

ALL = (*MECHANISMS, "OAUTHBEARER")
WAYS = (*ALL, "certificate")
"""In which a client says who it is."""
CLIENTS = ("java", *PYTHONS, "kafkajs", "franz", "kcat")
TOLD = {
    "java": "SaslAuthenticationException",
    "confluent": "SASL authentication error",
    "kafka_python": "Unable to bootstrap",  # it says why in its log, and here that nobody let it in, as the next does
    "aiokafka": "Unable to bootstrap",
    "kafkajs": "KafkaJSSASLAuthenticationError",
    "franz": "SASL_AUTHENTICATION_FAILED",
    "kcat": "SASL authentication error",
}
"""What clients say of a log-in that is refused."""
TOLD_OF_TOKENS = {
    **TOLD,
    # It reads the empty answer to a request that comes before the log-in as one of no topics.
    "aiokafka": "UnknownTopicOrPartitionError or Unable to bootstrap",
    # They expect nothing back, and go on where a token that is not taken has an error to be read. What kafkajs sends
    # then may lie unread when the connection is closed, which resets it.
    "kafkajs": "Closed connection or ECONNRESET",
    "franz": "unexpected data in oauth response",
}
TOLD_OF_RIGHTS = {
    "java": "TopicAuthorizationException",
    "confluent": "Topic authorization failed",
    "kafka_python": "TopicAuthorizationFailedError",
    "aiokafka": "TopicAuthorizationFailedError",
    "kafkajs": "TOPIC_AUTHORIZATION_FAILED",
    "franz": "TOPIC_AUTHORIZATION_FAILED",
    "kcat": "Topic authorization failed",
}
"""What they say when a right has been taken."""
ENDING = {client: "comes back" if client == "aiokafka" else "authenticates again" for client in CLIENTS}
"""What they do as their session ends."""
FOREIGN_KEY = rsa.generate_private_key(65_537, 2_048)
LISTENERS = ("SASL_PLAINTEXT", "PLAINTEXT", "SSL", "SASL_SSL")
SESSION_MS = 2_000
_NUMBERS = count()
AT_ONCE = ("kcat", "java", *PYTHONS)
"""Those that are asked by a call; the others read lines."""


class Java:
    """A JVM, started when it is first asked."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._process: subprocess.Popen[str] | None = None

    def say(self, name: str, topic: str, settings: dict[str, str]) -> str:
        """What came of one record of the producer of this name."""
        if self._process is None:
            path = class_path(WORKERS / "JavaSay.java", self._cache, NEWEST)
            words = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "JavaSay"]
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, "topic": topic, "settings": settings}) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return "said" if told["event"] == "said" else str(told["error"])

    def end(self) -> None:
        """It goes."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class Place(NamedTuple):
    """A broker, its authority, a folder for keys, one JVM for all producers of Java's, and where tokens are given."""

    broker: Kohort
    authority: Authority
    folder: Path
    java: Java
    tokens: str

    @property
    def addresses(self) -> dict[str, str]:
        """Of each listener."""
        line = re.search(r"ready on (.*) in", self.broker.log())
        assert line is not None
        return dict(zip(LISTENERS, line[1].split(" and "), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Every listener and mechanism, and an authorizer that lets bob and alice write what begins with their name."""
    folder, authority = tmp_path_factory.mktemp("keys"), Authority()
    jwk = {**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}
    (folder / "keys.json").write_text(json.dumps({"keys": [jwk]}))
    (folder / "server.pem").write_bytes(authority.issue().pem())
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    lines = {"PLAIN": f'{PLAIN} required user_bob="{PASSWORD}";', "OAUTHBEARER": OAUTH}
    settings = {
        **QUICK_GROUPS,
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(ALL),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": 0,
        **{
            f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": lines.get(mechanism, SCRAM)
            for listener in ("sasl_plaintext", "sasl_ssl")
            for mechanism in ALL
        },
    }
    with giving_tokens() as tokens, Kohort(tmp_path_factory.mktemp("clients"), settings) as broker:
        made = Place(broker, authority, folder, Java(tmp_path_factory.mktemp("java")), tokens)
        keep(broker, "bob", PASSWORD)
        create_topic(made.addresses["PLAINTEXT"], "bob-t", 1)
        create_topic(made.addresses["PLAINTEXT"], "alice-t", 1)
        grant(made, "bob", "bob")
        grant(made, "CN=alice", "alice")
        try:
            yield made
        finally:
            made.java.end()
    assert PASSWORD not in broker.log()


@contextlib.contextmanager
def giving_tokens() -> Iterator[str]:
    """An endpoint of OAuth: who asks at /right gets a token of bob's, at /wrong one that another key has signed."""

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            key = KEY if self.path == "/right" else FOREIGN_KEY
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            told = {"access_token": token(key=key)[0], "token_type": "bearer", "expires_in": 60}
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_: object) -> None:
            """Into nobody's output."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{endpoint.server_port}"
        finally:
            endpoint.shutdown()


def grant(place: Place, user: str, prefix: str) -> None:
    """Let a user write and read."""
    admin = AdminClient({"bootstrap.servers": place.addresses["PLAINTEXT"]})
    for operation in (AclOperation.WRITE, AclOperation.READ):
        who = (f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        made = [AclBinding(ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED, *who)]
        for future in admin.create_acls(made).values():
            future.result(30)


def revoke(place: Place, user: str) -> None:
    """Take all rights of a user."""
    admin = AdminClient({"bootstrap.servers": place.addresses["PLAINTEXT"]})
    who = (f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY)
    anything = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, *who)
    for future in admin.delete_acls([anything]).values():
        future.result(30)


class Said:
    """A client that writes a record for each line that it is given."""

    def __init__(self, place: Place, client: str, topic: str, security: dict[str, Any]) -> None:
        self._client = client
        at = security.get("at") or place.addresses[security["protocol"]]
        given = {"bootstrap": at, "topic": topic, "security": security}
        if client == "kcat":
            self._once = partial(kcat, given, library_of_kcat(place, security))
            return
        if client in PYTHONS:
            self._talker = PYTHONS[client](given, time.time() + 60)
            self._once = self._talker.say
            return
        if client == "java":
            settings = java_settings(given, place.folder)
            self._once = partial(place.java.say, f"{next(_NUMBERS)}", topic, settings)
            return
        command = [str(franz())] if client == "franz" else ["node", str(WORKERS / "kafkajs_say.js")]
        given |= {"mode": "say"}
        environment = {**os.environ, **({} if client == "franz" else {"NODE_PATH": str(kafkajs())})}
        self._process = subprocess.Popen(
            [*command, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def say(self) -> str:
        """What came of one record: `said`, or the client's words of why not."""
        if self._client in AT_ONCE:
            return self._once()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("word\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return self._process.communicate()[1]
        told = json.loads(line)
        return "said" if told["event"] == "said" else str(told["error"])

    def __enter__(self) -> Said:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client in PYTHONS:
            self._talker.end()
        elif self._client not in AT_ONCE:
            self._process.kill()
            self._process.communicate()


def library_of_kcat(place: Place, security: dict[str, Any]) -> Path | None:
    """A newer one than that which kcat is linked with, where this one cannot log in so; None: its own.

    Debian's has no client of OAuth, and repeats its own nonce alone in SCRAM, which Kafka 4.4 refuses too
    (tests/reference/test_log_in_beside_kafka.py). Skips the test without kcat.
    """
    mechanism = security.get("mechanism") or ""
    if mechanism in ("", "PLAIN") or (mechanism.startswith("SCRAM") and librdkafka() >= (2, 6)):
        need("kcat")
        return None
    need("kcat")
    return newer(place)


def newer(place: Place) -> Path:
    """The library that confluent-kafka brings."""
    found = newer_librdkafka(place.folder)
    assert found is not None, "confluent-kafka has no library of its own"
    return found


def java_settings(given: dict[str, Any], folder: Path) -> dict[str, str]:
    """As a properties file of Java's clients has them."""
    security = given["security"]
    settings = {
        "bootstrap.servers": given["bootstrap"],
        "security.protocol": security["protocol"],
        "max.block.ms": "5000",
        "request.timeout.ms": "4000",
        "delivery.timeout.ms": "5000",
        "linger.ms": "0",
    }
    if security["protocol"].endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security["ca"]}
    if security.get("certificate"):
        settings |= {"ssl.keystore.type": "PEM"}
        settings["ssl.keystore.certificate.chain"] = Path(security["certificate"]).read_text()
        settings["ssl.keystore.key"] = Path(security["key"]).read_text()
    mechanism = security.get("mechanism")
    if mechanism == "OAUTHBEARER":
        shown = folder / f"token-{next(_NUMBERS)}"
        shown.write_text(security["token"])
        settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{shown}"
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        settings |= {"sasl.login.callback.handler.class": handler, "sasl.jaas.config": OAUTH}
    elif mechanism:
        module = PLAIN if mechanism == "PLAIN" else SCRAM.split(maxsplit=1)[0]
        login = f'{module} required username="{security["user"]}" password="{security["password"]}";'
        settings["sasl.jaas.config"] = login
    return settings | ({"sasl.mechanism": mechanism} if mechanism else {})


def logging_in(place: Place, listener: str, mechanism: str, *, right: bool) -> dict[str, Any]:
    """Who is bob, or says so."""
    return {
        "protocol": listener,
        "mechanism": mechanism,
        "user": "bob",
        "password": PASSWORD if right else "wrong",
        "token": token(key=KEY if right else FOREIGN_KEY)[0],
        "endpoint": f"{place.tokens}/{'right' if right else 'wrong'}",
        "ca": str(place.folder / "ca.pem"),
    }


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_right_log_in_is_served_and_a_wrong_one_is_told(place: Place, client: str, mechanism: str) -> None:
    """SE28, SE29: each mechanism, over TLS and without."""
    told = (TOLD_OF_TOKENS if mechanism == "OAUTHBEARER" else TOLD)[client]
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        with Said(place, client, "bob-t", logging_in(place, listener, mechanism, right=True)) as one:
            assert one.say() == "said"
        with Said(place, client, "bob-t", logging_in(place, listener, mechanism, right=False)) as one:
            said = one.say()
        assert any(words in said for words in told.split(" or ")), said


@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_a_kcat_that_repeats_its_own_nonce_alone_is_refused(place: Place, mechanism: str) -> None:
    """As by Kafka 4.4 (tests/reference/test_log_in_beside_kafka.py)."""
    if librdkafka() >= (2, 6):
        pytest.skip("this kcat repeats both")
    security = logging_in(place, "SASL_PLAINTEXT", mechanism, right=True)
    given = {"bootstrap": place.addresses["SASL_PLAINTEXT"], "topic": "bob-t", "security": security}
    assert re.search(r"(?i)authenticat", kcat(given))


def test_kcat_shows_tokens_that_it_makes_itself_where_they_are_taken(place: Place, tmp_path: Path) -> None:
    """SE28, SE29: those that nobody signed."""
    need("kcat")
    shown = {"protocol": "SASL_PLAINTEXT", "mechanism": "OAUTHBEARER", "token": "principal=bob lifeSeconds=60"}
    given = {"bootstrap": place.addresses["SASL_PLAINTEXT"], "topic": "bob-t", "security": shown}
    assert re.search(r"(?i)authenticat", kcat(given))
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH,
        "kohort.allow.unsecured.oauth": "true",
        "connection.failed.authentication.delay.ms": 0,
    }
    with Kohort(tmp_path, settings) as broker:
        given = {"bootstrap": broker.address, "topic": "bob-t", "security": shown}
        assert kcat(given) == "said"
        late = {**shown, "token": "principal=bob scopeClaimName=scope scope=x lifeSeconds=1 principalClaimName=upn"}
        assert re.search(r"(?i)authenticat", kcat({**given, "security": late}))


def showing(place: Place, shown: Issued | None, trusts: Authority) -> dict[str, Any]:
    """Whose certificate is this, and who trusts that authority."""
    ca = place.folder / "trusted.pem"
    ca.write_bytes(trusts.certificate_pem)
    paths = ("", "") if shown is None else shown.write(place.folder, "shown")
    return {"protocol": "SSL", "ca": str(ca), "certificate": paths[0], "key": paths[1]}


@pytest.mark.parametrize("client", CLIENTS)
def test_certificates_good_expired_foreign_and_none(place: Place, client: str) -> None:
    """SE05, SE28: both sides refuse what they do not trust."""
    authority, foreign = place.authority, Authority("Foreign")

    def told(shown: Issued | None, trusts: Authority = authority) -> str:
        with Said(place, client, "alice-t", showing(place, shown, trusts)) as one:
            return one.say()

    assert told(authority.issue("alice")) == "said"
    assert told(authority.issue("alice", from_day=-10, days=5)) != "said"
    assert told(foreign.issue("alice")) != "said"
    assert told(None) != "said"
    assert re.search(r"(?i)certificate|ssl|bootstrap", told(authority.issue("alice"), foreign))


@pytest.fixture(scope="module")
def expired(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker listens whose certificate, of the same authority, has ended."""
    (place.folder / "expired.pem").write_bytes(place.authority.issue(from_day=-20, days=15).pem())
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place.folder / "expired.pem"),
    }
    with Kohort(tmp_path_factory.mktemp("expired"), settings) as broker:
        yield broker.address


@pytest.mark.parametrize("client", CLIENTS)
def test_an_expired_certificate_of_the_brokers_is_refused(place: Place, expired: str, client: str) -> None:
    """SE05: by every client, whatever it says of it."""
    with Said(place, client, "alice-t", {**showing(place, None, place.authority), "at": expired}) as one:
        said = one.say()
    assert re.search(r"(?i)certificate|ssl|bootstrap|expired", said)


def showing_itself(place: Place, way: str) -> tuple[str, str, dict[str, Any]]:
    """Who says by a password, a token or a certificate who it is, over TLS: its name, its topic, what it shows."""
    if way == "certificate":
        return "CN=alice", "alice", showing(place, place.authority.issue("alice"), place.authority)
    return "bob", "bob", logging_in(place, "SASL_SSL", way, right=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "kcat"])
def test_a_right_that_is_taken_in_the_middle_of_a_session_is_gone(place: Place, client: str, way: str) -> None:
    """SE45: the connection stays, the next record is refused; given back, it is taken."""
    user, prefix, security = showing_itself(place, way)
    with Said(place, client, f"{prefix}-t", security) as one:
        assert one.say() == "said"
        revoke(place, user)
        try:
            assert TOLD_OF_RIGHTS[client] in one.say()
        finally:
            grant(place, user, prefix)
        eventually(lambda: one.say() == "said", what="a record that is taken again")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", ["kcat"])
def test_a_kcat_that_stays_is_refused_when_its_right_is_taken(place: Place, client: str, way: str) -> None:
    """SE45: in the middle of its life; it says why and ends, as is its way, and nothing more of it is in the log."""
    user, prefix, security = showing_itself(place, way)
    topic, library = f"{prefix}-t", library_of_kcat(place, security)
    given = {"bootstrap": place.addresses[security["protocol"]], "topic": topic, "security": security}
    one = Kcat(given, place.folder, library)
    try:
        assert one.say() == "said"
        revoke(place, user)
        with Wire(place.addresses["PLAINTEXT"]) as wire:
            assert TOLD_OF_RIGHTS[client] in one.say()
            end = wire.end_offsets(topic, [0])
            eventually(one.has_ended, what="the end of kcat")
            assert wire.end_offsets(topic, [0]) == end
    finally:
        grant(place, user, prefix)
        one.end()
    assert kcat(given, library) == "said"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """Where a session ends after two seconds; the topic is there."""
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_bob="{PASSWORD}";',
        "listener.name.sasl_plaintext.connections.max.reauth.ms": SESSION_MS,
    }
    with Kohort(tmp_path_factory.mktemp("short"), settings) as broker:
        line = re.search(r"ready on \S+ and (\S+) in", broker.log())
        assert line is not None
        create_topic(line[1], "bob-t", 1)
        yield broker


@pytest.mark.parametrize("client", CLIENTS)
def test_sessions_end_and_clients_go_on(place: Place, short: Kohort, client: str) -> None:
    """SE23, SE28: each record is taken, whether they authenticate again (KIP-368) or are sent away and come back."""
    security = {**logging_in(place, "SASL_PLAINTEXT", "PLAIN", right=True), "at": short.address}

    def figures() -> tuple[float, float]:
        """Log-ins, and sessions that have ended under a client that had not authenticated again."""
        found = Metrics(short.http)
        log_ins, ended = (found.value(f"kohort_{name}_total") for name in ("authentications", "sessions_expired"))
        return log_ins or 0, ended or 0

    given = {"bootstrap": short.address, "topic": "bob-t", "security": security}
    stays = client == "kcat"
    with Kcat(given, place.folder, newer(place)) if stays else Said(place, client, "bob-t", security) as one:
        assert one.say() == "said"
        before = figures()  # all of its connections have logged in

        def said() -> bool:
            told = one.say()
            assert told == "said", told
            return figures()[0] >= before[0] + 3

        eventually(said, what="several log-ins", every_s=0.1)
    ended = figures()[1] - before[1]
    assert ended > 1 if ENDING[client] == "comes back" else ended <= 1
