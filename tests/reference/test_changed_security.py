"""TLS and SASL changed while a broker runs: Kohort and Apache Kafka 4.4 answer alike, and take each other over."""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer
from cryptography.hazmat.primitives.serialization import Encoding

from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.reference import graduation as g
from tests.reference.talk import read, versions
from tests.support.broker_process import BrokerProcess, Kafka, Kohort, eventually, free_port
from tests.support.certificates import Authority
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("KOHORT_BOOTSTRAP_STARTS"), reason="a minute of Kafka's own: make test-all"),
]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
STORE, LIMIT = "listener.name.ssl.ssl.keystore.location", "listener.name.ssl.max.connections"
AUTH, JAAS = "listener.name.ssl.ssl.client.auth", "listener.name.sasl_ssl.plain.sasl.jaas.config"
NONE, INVALID_CONFIG, INVALID_REQUEST = 0, 40, 42


class Place:
    """Keys, three addresses, and what both brokers are told of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        (folder / "ca.pem").write_bytes(self.authority.certificate_pem)
        self.names: dict[bytes, str] = {}
        for name in ("first", "second", "third", "changing"):
            issued = self.authority.issue()
            (folder / f"{name}.pem").write_bytes(issued.pem())
            self.names[issued.certificate.public_bytes(Encoding.DER)] = name
        (folder / "other.pem").write_bytes(self.authority.issue("other").pem())
        (folder / "lacking.pem").write_bytes(self.authority.issue(hosts=("localhost",)).pem())
        self.ports = {name: free_port() for name in ("PLAINTEXT", "SSL", "SASL_SSL")}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        self.settings: dict[str, object] = {
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "first.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": folder / "ca.pem",
            "sasl.enabled.mechanisms": "PLAIN",
            JAAS: f'{PLAIN} required user_ann="one";',
            "listener.name.ssl.ssl.allow.san.changes": "false",
        }
        self.listeners = listeners
        self.controller = free_port()

    def kafka(self, name: str, graduated: dict[str, str] | None = None) -> Kafka:
        port = self.ports["PLAINTEXT"]
        settings = graduated or {
            **self.settings,
            "listeners": f"{self.listeners},CONTROLLER://127.0.0.1:{self.controller}",
        }
        environment = {"KAFKA_VERSION": "4.4.0", "KAFKA_CONTROLLER_PORT": str(self.controller), **g.HEAP}
        return Kafka(self.folder / name, settings, port=port, environment=environment)

    def kohort(self, name: str) -> Kohort:
        (self.folder / name).mkdir(exist_ok=True)
        settings = {**self.settings, "listeners": self.listeners, "kohort.allow.open.directory": "true",
                    "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
                    "log.dirs": self.folder / name / "data"}  # fmt: skip
        return Kohort(self.folder / name, settings, port=self.ports["PLAINTEXT"])

    def shown(self, listener: str = "SSL") -> str:
        """The file whose first certificate a listener shows."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        raw = socket.create_connection(("127.0.0.1", self.ports[listener]), 20)
        with context.wrap_socket(raw, server_hostname="localhost") as secure:
            return self.names[secure.getpeercert(binary_form=True) or b""]

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")


def alter(broker: BrokerProcess, changes: dict[str, str | None], name: str = "1") -> tuple[int, str]:
    """What IncrementalAlterConfigs of the broker answers; None deletes."""
    configs = [
        AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=configs)
    with Wire(broker.address) as wire:
        answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses[0]
    return answer.error_code, answer.error_message or ""


def described(broker: BrokerProcess, keys: list[str]) -> dict[str, Any]:
    """What DescribeConfigs tells of these keys."""
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=False)
    with Wire(broker.address) as wire:
        configs = wire.call(request, 4).results[0].configs
    return {
        one.name: (one.value, one.config_source, one.is_sensitive, one.read_only, int(one.config_type),
                   [(other.name, other.value, other.source) for other in one.synonyms])
        for one in configs
    }  # fmt: skip


def told(place: Place, broker: BrokerProcess) -> dict[str, Any]:
    """What a broker answers to one change after the other, and what it shows and tells then."""
    path = place.path
    found: dict[str, Any] = {}
    cases: list[tuple[str, dict[str, str | None], str]] = [
        ("a bare store", {"ssl.keystore.location": path("second")}, "1"),
        ("a store of all", {STORE: path("second")}, ""),
        ("bare client certificates of all", {"ssl.client.auth": "required"}, ""),
        ("no such file", {STORE: path("missing")}, "1"),
        ("no such word", {AUTH: "perhaps"}, "1"),
        ("another subject", {STORE: path("other")}, "1"),
        ("fewer names", {STORE: path("lacking")}, "1"),
        ("a read-only key", {"num.partitions": "7"}, "1"),
        ("of nobody's", {"listener.name.other.ssl.keystore.location": path("second")}, "1"),
        ("unknown", {"listener.name.ssl.com.example": "x"}, "1"),
        ("a limit of all", {LIMIT: "500"}, ""),
        ("a limit", {LIMIT: "600"}, "1"),
        ("a store", {STORE: path("changing")}, "1"),
    ]
    for what, changes, name in cases:
        found[what] = alter(broker, changes, name)
    eventually(lambda: place.shown() == "changing", deadline_s=20, every_s=0.1)
    content = (place.folder / "changing.pem").read_bytes()
    (place.folder / "changing.pem").write_bytes((place.folder / "other.pem").read_bytes())
    found["another subject in its place"] = alter(broker, {STORE: path("changing")})
    (place.folder / "changing.pem").write_bytes((place.folder / "third.pem").read_bytes())
    found["a successor in its place"] = alter(broker, {STORE: path("changing")})
    eventually(lambda: place.shown() == "third", deadline_s=20, every_s=0.1)
    (place.folder / "changing.pem").write_bytes(content)
    found["the second"] = alter(
        broker, {STORE: path("second"), "listener.name.sasl_ssl.ssl.keystore.location": path("second")}
    )
    eventually(lambda: place.shown() == place.shown("SASL_SSL") == "second", deadline_s=20, every_s=0.1)
    found["client certificates"] = alter(broker, {AUTH: "required"})
    found["users"] = alter(broker, {JAAS: f'{PLAIN} required user_bob="two";'})
    found["no jaas"] = alter(broker, {JAAS: "nonsense"})
    found["a jaas line again"] = alter(broker, {JAAS: f'{PLAIN} required user_bob="two";'})
    found["a class"] = alter(broker, {"listener.name.ssl.principal.builder.class": "x.Mine"})
    for key in ("listener.name.ssl.principal.builder.class", "listener.name.ssl.com.example",
                "listener.name.other.ssl.keystore.location"):  # fmt: skip
        alter(broker, {key: None})
    found["described"] = (0, described(broker, [STORE, LIMIT, AUTH, JAAS, "ssl.keystore.location"]))
    return found


OF_OURS = {
    "another subject": INVALID_CONFIG,
    "another subject in its place": INVALID_CONFIG,
    "fewer names": INVALID_CONFIG,
    "no jaas": INVALID_REQUEST,
    "of nobody's": INVALID_REQUEST,
    "unknown": INVALID_CONFIG,
}
"""Where Kafka answers INVALID_REQUEST, or takes what has no effect; docs/securing.md and docs/unsupported.md say so."""


def lets_in(place: Place) -> bool:
    """Whether who shows no certificate is answered on SSL."""
    context = ssl.create_default_context(cafile=str(place.folder / "ca.pem"))
    try:
        raw = socket.create_connection(("127.0.0.1", place.ports["SSL"]), 20)
        with context.wrap_socket(raw, server_hostname="localhost") as secure:
            secure.sendall(versions().said)
            return bool(read(secure))
    except (ssl.SSLError, ConnectionError):
        return False


def logs_in(place: Place, user: str, password: str) -> bool:
    """Whether PLAIN takes them."""
    producer = Producer({
        "bootstrap.servers": f"127.0.0.1:{place.ports['SASL_SSL']}", "security.protocol": "SASL_SSL",
        "ssl.ca.location": place.path("ca"), "sasl.mechanism": "PLAIN", "sasl.username": user,
        "sasl.password": password, "log_level": 0,
    })  # fmt: skip
    try:
        return bool(producer.list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def by_kafkas_own_tool(place: Place, broker: BrokerProcess) -> str:
    """What kafka-configs tells after a change and after it was taken back."""
    about = ("--bootstrap-server", broker.address, "--entity-type", "brokers", "--entity-name", "1")
    told = ""
    for words in (
        ("--alter", "--add-config", f"{STORE}={place.path('third')}"),
        ("--describe",),
        ("--alter", "--delete-config", STORE),
        ("--describe",),
    ):
        told += g.tool("kafka.admin.ConfigCommand", *about, *words)
    return "\n".join(line for line in told.splitlines() if "onfig" in line or STORE in line)


def holds(place: Place) -> tuple[str, bool, list[str]]:
    """The certificate that is shown, whether one is asked for, and who of three may log in."""
    users = [user for user, word in (("ann", "one"), ("bob", "two"), ("eve", "three")) if logs_in(place, user, word)]
    return place.shown(), not lets_in(place), users


def test_both_answer_alike_and_take_each_other_over(tmp_path: Path) -> None:
    """SE08, SE69: stores hold in both; who must show a certificate, and who may log in, in ours alone.

    Kafka keeps these and goes on with what its start says, also after another start: so `kohort graduate` writes them.
    """
    place = Place(tmp_path)
    with place.kohort("ours") as ours:
        tool = by_kafkas_own_tool(place, ours)
        by_kohort = told(place, ours)
        assert holds(place) == ("second", True, ["bob"])
    with place.kafka("kafka") as kafka:
        assert tool == by_kafkas_own_tool(place, kafka)
        assert f"{STORE}={place.path('third')} sensitive=false" in tool
        by_kafka = told(place, kafka)
        assert holds(place) == ("second", False, ["ann"])
        kafka.restart()
        assert holds(place) == ("second", False, ["ann"])
    of_ours = {what: answer[0] for what, answer in by_kohort.items() if answer[0] != by_kafka[what][0]}
    assert of_ours == OF_OURS
    assert by_kafka["described"] == by_kohort["described"]

    with place.kohort("kafka") as taken:
        assert holds(place) == ("second", True, ["bob"])
        eve = f'{PLAIN} required user_eve="three";'
        assert alter(taken, {STORE: place.path("third"), JAAS: eve}) == (NONE, "")
        assert holds(place) == ("third", True, ["eve"])
    with place.kafka("kafka", g.graduated(taken)):
        assert holds(place) == ("third", True, ["eve"])
