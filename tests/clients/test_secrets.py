"""Secrets that are planted, used rightly and wrongly, and looked for in all that a broker and a command say."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ConfigResource
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from broker.http.routes import ROUTES
from tests.cli.conftest import kohort
from tests.clients.test_secured import KEY, OAUTH, SCRAM, token
from tests.support.broker_process import Kohort, eventually, free_port
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLANTED = "planted"


def asked(url: str, shown: str) -> str:
    """What a page of the HTTP listener says to who shows this."""
    request = urllib.request.Request(url, headers={"Authorization": shown})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


def test_no_secret_is_in_a_log_an_error_a_dump_a_config_or_a_metric(tmp_path: Path) -> None:
    """SE69, SE70: each of these words begins alike, and nothing that anybody is shown has it, nor a token."""
    plain, sasl, secure = (f"127.0.0.1:{free_port()}" for _ in range(3))
    server = Authority().issue()
    login = f'{PLAIN} required user_bob="planted-plain";'
    settings = {
        "listeners": f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl},SSL://{secure}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": OAUTH,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{tmp_path}/keys.json",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.client.credentials.client.secret": "planted-client-secret",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem(b"planted-key-word").decode(),
        "ssl.keystore.certificate.chain": server.certificate_pem.decode(),
        "ssl.key.password": "planted-key-word",
        "kohort.http.token": "planted-token",
        "kohort.http.basic.auth": "ops:planted-basic",
        "kohort.log.level": "debug",
        "unknown.setting.of.ours": "planted-unknown",
    }
    key_line = server.key_pem(b"planted-key-word").decode().splitlines()[1]
    jwk = {**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [jwk]}))
    tokens = {good: token(key=KEY if good else rsa.generate_private_key(65_537, 2_048))[0] for good in (True, False)}
    said = []
    with Kohort(tmp_path / "broker", settings) as broker:
        made = kohort("users", "add", "ann", "-b", plain, stdin="planted-scram\n")
        said.append(made.out + made.err)
        for mechanism, module, user, word in (
            ("PLAIN", PLAIN, "bob", "planted-plain"),
            ("PLAIN", PLAIN, "bob", "planted-wrong"),
            ("SCRAM-SHA-256", SCRAM.split(maxsplit=1)[0], "ann", "planted-scram"),
            ("SCRAM-SHA-256", SCRAM.split(maxsplit=1)[0], "ann", "planted-wrong"),
        ):
            config = tmp_path / "client.properties"
            who = f'{module} required username="{user}" password="{word}";'
            config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={who}\n")
            ended = kohort(
                "topics",
                "list",
                "-b",
                sasl,
                "--command-config",
                str(config),
                "--timeout",
                "1000" if word == "planted-wrong" else "20000",
            )
            assert (ended.code == 0) is (word != "planted-wrong"), ended
            said.append(ended.out + ended.err)
        for good, shown in tokens.items():
            (tmp_path / "token").write_text(shown)
            showing = tmp_path / "token.properties"
            showing.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={OAUTH}\n"
                f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/token\n"
            )
            wait_ms = "20000" if good else "1000"
            ended = kohort("topics", "list", "-b", sasl, "--command-config", str(showing), "--timeout", wait_ms)
            assert (ended.code == 0) is good, ended
            said.append(ended.out + ended.err)
        for words in (f'{login[:-1]} user_eve="planted-eve";', f'{login[:-1]} user_eve="planted-eve"'):
            config_file = tmp_path / "added.properties"
            config_file.write_text(f"listener.name.sasl_plaintext.plain.sasl.jaas.config={words}\n")
            about = ("--broker", "1", "--alter", "--add-config-file", str(config_file))
            ended = kohort("kafka-configs.sh", "--bootstrap-server", plain, *about)
            assert (ended.code == 0) is words.endswith(";"), ended
            said.append(ended.out + ended.err)
        consumer = Consumer({
            "bootstrap.servers": sasl, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann", "sasl.password": "planted-scram", "group.id": "billing", "log_level": 0,
        })  # fmt: skip
        assert kohort("topics", "create", "orders", "-b", plain).code == 0
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member", every_s=0)
        consumer.close()
        for shown in ("Bearer planted-token", "Bearer planted-wrong"):
            said += [asked(f"{broker.http}{path.format(group='billing', id='x')}", shown) for path in ROUTES]
        why = ("why", "billing", "-b", sasl, "--command-config", str(config))
        config.write_text(config.read_text().replace("planted-wrong", "planted-scram"))
        ledger = ("consume", "__kohort_rebalances", "--from-beginning", "--max-messages", "1")
        for words in (why, (*ledger, *why[2:])):
            ended = kohort(*words)
            assert ended.code == 0, ended
            assert "billing" in ended.out
            said.append(ended.out + ended.err)
        admin = AdminClient({"bootstrap.servers": plain})
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")
        (told,) = admin.describe_configs([resource]).values()
        entries = told.result(30)
        assert entries["sasl.jaas.config"].is_sensitive
        said += [f"{entry.value} {[(other.name, other.value) for other in entry.synonyms.values()]}"
                 for entry in entries.values()]  # fmt: skip
    dumped = kohort("storage", "dump", str(broker.data))
    assert "ann" in dumped.out
    said += [dumped.out, dumped.err, broker.log()]
    assert "authentication_failed" in broker.log()
    for text in said:
        assert PLANTED not in text, text[max(text.find(PLANTED) - 300, 0) :][:400]
        assert key_line not in text
        for shown in tokens.values():
            for part in shown.split(".")[1:]:  # the head is the same for all
                assert part not in text
