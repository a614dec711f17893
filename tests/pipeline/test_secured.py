"""The pipeline on brokers that ask who it is: TLS, client certificates, SASL; what is wrong, in one sentence."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from pipeline.errors import DataError, UsageError
from pipeline.sources import cluster
from pipeline.sources.access import access, read_settings
from pipeline.sources.fetch_read import ranges, read_live
from pipeline.sources.options import KNOWN_TO_KAFKA, parse
from tests.pipeline.test_cli import run  # noqa: F401  a fixture
from tests.support.broker_process import QUICK_GROUPS, Kafka, Kohort, eventually, free_port, need
from tests.support.certificates import Authority

PASSWORD = "plantedSecret, =5c1d"
JAAS = "org.apache.kafka.common.security"
PLAIN = f"{JAAS}.plain.PlainLoginModule required"
SCRAM = f"{JAAS}.scram.ScramLoginModule required"
OAUTH = f"{JAAS}.oauthbearer.OAuthBearerLoginModule required"
KEY = rsa.generate_private_key(65_537, 2_048)
PORTS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WAYS = ("SSL", "SASL_PLAINTEXT PLAIN", "SASL_SSL PLAIN", "SASL_SSL SCRAM-SHA-512", "SASL_SSL OAUTHBEARER")

Secured = tuple[Path, dict[str, int]]
"""Where the keys are, and the port of each security protocol."""


def server_settings(folder: Path, authority: Authority, ports: Mapping[str, int]) -> dict[str, Any]:
    """A listener of each security protocol."""
    keys = {"keys": [{**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}]}
    (folder / "keys.json").write_text(json.dumps(keys))
    (folder / "server.pem").write_bytes(authority.issue().pem())
    (folder / "authority.pem").write_bytes(authority.certificate_pem)
    (folder / "client.pem").write_bytes(authority.issue().pem())
    claims = {"sub": "bob", "iat": int(time.time()), "exp": int(time.time()) + 3600, "iss": "https://issuer"}
    (folder / "token").write_text(jwt.encode(claims, KEY, "RS256", {"kid": "one"}))
    settings = {
        **QUICK_GROUPS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": 0,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.allow.unverified.audience": "true",
    }
    for protocol in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{protocol}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN} user_bob="{PASSWORD}";'
        settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = f"{SCRAM};"
        settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{OAUTH};"
    return settings | {"listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())}


def client_settings(folder: Path, way: str) -> dict[str, str]:
    """What a Java client would be given to come in this way."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "authority.pem")}
    key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "client.pem")}
    protocol, _, mechanism = way.partition(" ")
    found = {"security.protocol": protocol, **(trust if protocol.endswith("SSL") else {})}
    if protocol == "SSL":
        return found | key
    if mechanism == "OAUTHBEARER":
        url = f"file://{folder}/token"
        return found | {"sasl.mechanism": mechanism, "sasl.oauthbearer.token.endpoint.url": url}
    module = SCRAM if mechanism.startswith("SCRAM") else PLAIN
    line = f'{module} username="bob" password="{PASSWORD}";'
    return found | {"sasl.mechanism": mechanism, "sasl.jaas.config": line}


def fill(address: str) -> None:
    """Some orders, and a group that has read a few."""
    producer = Producer({"bootstrap.servers": address})
    for number in range(30):
        producer.produce("orders", str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "shop"})
    eventually(lambda: committed(consumer), what="a coordinator")
    consumer.close()


def committed(consumer: Consumer) -> bool:
    """Whether the commit was taken: while the first group's topic is made, nobody is its coordinator."""
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 12)], asynchronous=False)
    except KafkaException:
        return False
    return True


def add_bob(address: str) -> None:
    """Give bob a SCRAM credential."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion("bob", info, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(20)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("keys")
    ports = {name: free_port() for name in PORTS}
    settings = server_settings(folder, Authority(), ports)
    with Kohort(tmp_path_factory.mktemp("secured"), settings, port=ports["PLAINTEXT"]) as broker:
        add_bob(broker.address)
        fill(broker.address)
        yield folder, ports


def values(address: str, settings: Mapping[str, str]) -> list[bytes]:
    """The values of all orders, as a task reads them."""
    given = {"bootstrap": address, "topic": "orders", "timeoutMs": "20000"}
    options = parse(given | {f"kafka.{key}": value for key, value in settings.items()}, KNOWN_TO_KAFKA)
    return [row for part in read_live(ranges(options), options) for row in part.column("value").to_pylist()]


@pytest.mark.parametrize("way", WAYS)
def test_records_come_over_tls_and_sasl(secured: Secured, way: str):
    """As Spark's connector is given its settings: `kafka.` before each name of a Java client's."""
    folder, ports = secured
    settings = client_settings(folder, way)
    address = f"127.0.0.1:{ports[way.partition(' ')[0]]}"

    assert values(address, settings) == [str(number).encode() for number in range(30)]
    if "OAUTHBEARER" not in way:  # librdkafka takes no token out of a file
        assert cluster.bounds(access(address, settings), ["orders"]) == [("orders", 0, 0, 30)]


@pytest.mark.parametrize(
    ("way", "changed", "words"),
    [
        ("SASL_SSL PLAIN", {"sasl.jaas.config": f'{PLAIN} username="bob" password="no";'}, "refuses PLAIN as bob"),
        ("SASL_SSL SCRAM-SHA-512", {"sasl.jaas.config": f'{SCRAM} username="eve" password="no";'}, "512 as eve"),
        ("SASL_SSL PLAIN", {"sasl.mechanism": "SCRAM-SHA-256"}, "does not take SASL SCRAM-SHA-256; it offers"),
        ("SASL_SSL PLAIN", {"ssl.truststore.location": "{folder}/client.pem"}, "its certificate is not trusted"),
        ("SSL", {"security.protocol": "PLAINTEXT"}, "does not speak Kafka|closed|reset"),
        ("SASL_SSL PLAIN", {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is GSSAPI; kohort-kafka knows PLAIN"),
        ("SASL_SSL PLAIN", {"ssl.truststore.location": "/nowhere.pem"}, "/nowhere.pem: no such file"),
        ("SASL_SSL PLAIN", {"security.protocol": "TLS"}, "security.protocol is TLS; it may be PLAINTEXT"),
        ("SASL_SSL PLAIN", {"sasl.jaas.config": "nonsense"}, r"sasl.jaas.config=\[hidden\]"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(secured: Secured, way: str, changed: dict[str, str], words: str):
    """And never with the password in it."""
    folder, ports = secured
    wrong = {name: text.replace("{folder}", str(folder)) for name, text in changed.items()}

    with pytest.raises((DataError, UsageError), match=words) as refused:
        values(f"127.0.0.1:{ports[way.partition(' ')[0]]}", client_settings(folder, way) | wrong)
    assert PASSWORD not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_of_settings_is_what_kafkas_tools_take(tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=elsewhere:1\nsecurity.protocol=SSL\n# a comment\n")

    assert read_settings(str(file)) == {"security.protocol": "SSL"}
    assert PASSWORD not in repr(access("a:1", client_settings(tmp_path, "SASL_PLAINTEXT PLAIN")))
    with pytest.raises(UsageError, match="no such file"):
        read_settings(str(tmp_path / "none"))


@pytest.mark.slow
def test_verbs_on_a_secured_apache_kafka(run: Any, tmp_path: Path):  # noqa: F811
    """Apache Kafka 4.4.0 behind SASL_SSL: the command line, through its own connections and the library's."""
    need("java", "mvn")
    ports = {name: free_port() for name in PORTS}
    settings = server_settings(tmp_path, Authority(), ports)
    listeners = settings["listeners"]
    map_ = ",".join(f"{name}:{name}" for name in PORTS)
    settings |= {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{ports['PLAINTEXT'] + 1}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{map_},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    settings = {name: value for name, value in settings.items() if "oauthbearer" not in name}
    file = tmp_path / "client.properties"
    lines = client_settings(tmp_path, "SASL_SSL PLAIN").items()
    file.write_text("".join(f"{name}={value}\n" for name, value in lines))
    environment = {"KAFKA_VERSION": "4.4.0", "KAFKA_HEAP": "320m"}
    with Kafka(tmp_path / "kafka", settings, port=ports["PLAINTEXT"], environment=environment) as broker:
        fill(broker.address)
        words = ("--from", f"127.0.0.1:{ports['SASL_SSL']}", "--command-config", str(file), "--format", "json")
        code, out, err = run("lag", "--now", *words)
        assert (code, [json.loads(line)["lag_messages"] for line in out.splitlines()]) == (0, [18]), err
        assert PASSWORD not in out + err
        code, out, err = run("groups", *words)
        assert (code, [json.loads(line)["group_id"] for line in out.splitlines()]) == (0, ["shop"]), err
        assert PASSWORD not in out + err
