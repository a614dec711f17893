"""TLS and SASL changed under the hands of real clients: those that are there go on, new ones meet what is new."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaProducer

from tests.cli.conftest import Ended, kohort
from tests.support.broker_process import QUICK_GROUPS, Kohort, eventually, free_port
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = "listener.name.sasl_ssl.plain.sasl.jaas.config"
STORE = "listener.name.{}.ssl.keystore.location"


class Place:
    """A broker that is open, with SSL and with SASL_SSL, and how its clients come to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.plaintext, self.ssl, self.sasl = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.authority_file = folder / "authority.crt"
        self.authority_file.write_bytes(self.authority.certificate_pem)
        (folder / "first.pem").write_bytes(self.authority.issue().pem())
        (folder / "second.pem").write_bytes(self.authority.issue().pem())
        self.authority.issue("alice").write(folder, "alice")
        self.broker = Kohort(folder / "broker", {
            **QUICK_GROUPS,
            "listeners": f"PLAINTEXT://{self.plaintext},SSL://{self.ssl},SASL_SSL://{self.sasl}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "first.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority_file,
            "sasl.enabled.mechanisms": "PLAIN",
            JAAS: f'{PLAIN} required user_ann="planted-one";',
            "connection.failed.authentication.delay.ms": 0,
        })  # fmt: skip

    def configs(self, *words: str) -> Ended:
        """kafka-configs on this broker."""
        about = ("--entity-type", "brokers", "--entity-name", "1", "--bootstrap-server", self.plaintext)
        return kohort("kafka-configs.sh", *about, *words)

    def tls(self, **more: str) -> dict[str, Any]:
        """What a client of librdkafka says on SSL."""
        named = {key.replace("_", "."): value for key, value in more.items()}
        return {"bootstrap.servers": self.ssl, "security.protocol": "SSL",
                "ssl.ca.location": str(self.authority_file), "reconnect.backoff.max.ms": 200, **named}  # fmt: skip

    def login(self, user: str, password: str) -> dict[str, Any]:
        """And on SASL_SSL."""
        return {**self.tls(), "bootstrap.servers": self.sasl, "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}  # fmt: skip

    def shown(self, address: str) -> bytes:
        """The certificate of a listener, as DER."""
        context = ssl.create_default_context(cafile=str(self.authority_file))
        host, _, port = address.partition(":")
        raw = socket.create_connection((host, int(port)), 20)
        with context.wrap_socket(raw, server_hostname=host) as secure:
            return secure.getpeercert(binary_form=True) or b""

    def of(self, file: str) -> bytes:
        """The certificate in a file."""
        text = (self.folder / file).read_text()
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_stores_client_certificates_and_users_change_and_who_is_there_goes_on(place: Place) -> None:
    """SE08: with kafka-configs, and after a restart, SIGKILL included."""
    with place.broker:
        assert kohort("topics", "create", "orders", "-b", place.plaintext).code == 0
        errors: list[KafkaError] = []
        there = Producer({**place.tls(), "error_cb": errors.append})
        logged_in = Producer({**place.login("ann", "planted-one"), "error_cb": errors.append})
        old = KafkaProducer(bootstrap_servers=place.ssl, security_protocol="SSL", ssl_cafile=str(place.authority_file))
        produce(there, b"1"), produce(logged_in, b"2"), old.send("orders", b"3").get(20)

        for listener in ("ssl", "sasl_ssl"):
            key = STORE.format(listener)
            done = place.configs("--alter", "--add-config", f"{key}={place.folder}/second.pem")
            assert done.out == "Completed updating config for broker 1.\n", done
        assert place.shown(place.ssl) == place.shown(place.sasl) == place.of("second.pem")
        assert f"  {STORE.format('ssl')}={place.folder}/second.pem sensitive=false" in place.configs("--describe").out
        produce(there, b"4"), produce(logged_in, b"5"), old.send("orders", b"6").get(20)

        required = place.configs("--alter", "--add-config", "listener.name.ssl.ssl.client.auth=required")
        assert required.code == 0, required
        produce(there, b"7"), old.send("orders", b"8").get(20)
        with pytest.raises(ssl.SSLError):
            host, _, port = place.ssl.partition(":")
            context = ssl.create_default_context(cafile=str(place.authority_file))
            with socket.create_connection((host, int(port)), 20) as raw:
                context.wrap_socket(raw, server_hostname=host).recv(1)
        shown = Producer(place.tls(ssl_certificate_location=str(place.folder / "alice.crt"),
                                   ssl_key_location=str(place.folder / "alice.key")))  # fmt: skip
        produce(shown, b"9")

        config = place.folder / "added.properties"
        config.write_text(f'{JAAS}={PLAIN} required user_bob="planted-two";\n')
        assert place.configs("--alter", "--add-config-file", str(config)).code == 0
        assert f"  {JAAS}=null sensitive=true" in place.configs("--describe").out
        produce(logged_in, b"10")
        produce(Producer(place.login("bob", "planted-two")), b"11")
        refused(place.login("ann", "planted-one"))

        other = place.authority.issue("other")
        (place.folder / "other.pem").write_bytes(other.pem())
        wrong = place.configs("--alter", "--add-config", f"{STORE.format('ssl')}={place.folder}/other.pem")
        assert wrong.code != 0
        assert "ssl.allow.dn.changes=false" in wrong.err

        assert errors == []

        (place.folder / "first.pem").unlink()  # what the start says is not there any more
        place.broker.restart(kill=True)
        assert place.shown(place.sasl) == place.of("second.pem")
        produce(Producer(place.login("bob", "planted-two")), b"12")
        refused(place.login("ann", "planted-one"))
        consumer = Consumer({**place.login("bob", "planted-two"), "group.id": "all", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        values = sorted(int(consumer.poll(20).value()) for _ in range(12))
        consumer.close()
        assert values == list(range(1, 13))
        old.close()
    assert "planted" not in place.broker.log()
    dumped = kohort("storage", "dump", str(place.broker.data))
    assert JAAS in dumped.out
    assert "planted" not in dumped.out


def produce(producer: Producer, value: bytes) -> None:
    producer.produce("orders", value)
    assert producer.flush(20) == 0


def refused(settings: dict[str, Any]) -> None:
    """Whether a new client is told that it may not log in."""
    told: list[int] = []
    producer = Producer({**settings, "error_cb": lambda error: told.append(error.code())})
    eventually(lambda: producer.poll(0.1) * 0 or KafkaError._AUTHENTICATION in told, what="a refusal", every_s=0)
