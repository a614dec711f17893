"""Every setting of Kafka 4.4 that has to do with security is honoured, refused, or keeps nobody out."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from broker.config import settings_ignored
from broker.config.listener_settings import check_own
from broker.config.listeners import parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.config.settings_ignored import has_no_effect
from broker.config.settings_sources import gather
from tests.support.java import NEWEST, class_path

ROOT = Path(__file__).parents[3]
TESTS = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]

HONOURED = [
    "advertised.listeners",
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "connection.failed.authentication.delay.ms",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "controller.listener.names",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "listener.security.protocol.map",
    "listeners",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "quota.window.num",
    "quota.window.size.seconds",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.max.receive.size",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "super.users",
]

REFUSED = [
    "alter.config.policy.class.name",
    "config.providers",
    "create.topic.policy.class.name",
    "principal.builder.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.server.callback.handler.class",
    "security.providers",
    "ssl.engine.factory.class",
    "ssl.trustmanager.algorithm",
]

WITHOUT_EFFECT = [
    "client.quota.callback.class",
    "delegation.token.expiry.check.interval.ms",
    "delegation.token.expiry.time.ms",
    "delegation.token.max.lifetime.ms",
    "delegation.token.secret.key",
    "early.start.listeners",
    "inter.broker.listener.name",
    "queued.max.request.bytes",
    "queued.max.requests",
    "sasl.client.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "security.inter.broker.protocol",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "ssl.endpoint.identification.algorithm",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
]
"""`docs/securing.md` says of each why nobody comes in by it."""

DECIDES = ("allow.", "authorizer", "principal.", "sasl.", "security.", "ssl.", "super.", "delegation.token.")
"""What begins so is on one of the three lists."""


def is_on_a_list(key: str) -> bool:
    """Whether somebody has looked at this setting of Kafka's."""
    return key in HONOURED or key in REFUSED or key in WITHOUT_EFFECT


@pytest.mark.parametrize("key", HONOURED)
def test_what_is_honoured_is_read_by_the_broker_and_set_by_a_test(key: str):
    assert key in Settings.definitions
    names = f'"{key}"', f".{key.replace('.', '_')}", f'}}.{key.rpartition(".")[2]}"'
    assert any(name in source for source in sources() for name in names), "nothing looks at it"
    said = re.compile(rf"{re.escape(key)}\b|\b{key.replace('.', '__?')}\b")
    assert any(said.search(path.read_text()) for path in TESTS), "no test sets it"


@pytest.mark.parametrize("prefix", ["", "listener.name.in."])
@pytest.mark.parametrize("key", REFUSED)
def test_what_would_keep_somebody_out_and_cannot_be_honoured_refuses_the_start(key: str, prefix: str):
    with pytest.raises(SettingsError, match=rf"{key}=com\.example\.Mine: it is not supported"):
        start(f"{prefix}{key}=com.example.Mine")
    start(f"{prefix}{key}=")


@pytest.mark.parametrize(
    "given",
    ["principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
     "sasl.oauthbearer.jwt.validator.class=org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
     "ssl.trustmanager.algorithm=PKIX"],
)  # fmt: skip
def test_what_says_what_is_done_anyway_is_taken(given: str):
    start(given)
    start(f"listener.name.in.{given}")


@pytest.mark.parametrize("key", WITHOUT_EFFECT)
def test_what_has_no_effect_is_said_to_have_none(key: str):
    assert has_no_effect(key) or key in Settings.definitions
    page = (ROOT / "docs" / "securing.md").read_text()
    listed = page[page.index("## Settings without effect") : page.index("## What is not there")]
    assert f"`{key}`" in listed or any(f"`{family}*`" in listed for family in prefixes(key)), key


def test_no_list_has_what_another_has():
    everything = HONOURED + REFUSED + WITHOUT_EFFECT
    assert len(everything) == len(set(everything))


def start(*given: str) -> None:
    """As far as settings go. Raises: SettingsError."""
    overrides = ["listeners=IN://127.0.0.1:0", "listener.security.protocol.map=IN:PLAINTEXT", *given]
    settings = gather(None, {}, overrides).settings
    check_own(settings, [listener.name for listener in parse_listeners(settings)])


@cache
def sources() -> list[str]:
    """The broker's modules, but those that declare settings."""
    declaring = ("settings.py", "security_settings.py", "settings_ignored.py")
    read = [path.read_text() for path in (ROOT / "broker").rglob("*.py") if path.name not in declaring]
    settings = (ROOT / "broker" / "config" / "settings.py").read_text()
    return [*read, settings[settings.index("def __init__") :]]


def prefixes(key: str) -> list[str]:
    """`a.`, `a.b.` of `a.b.c`."""
    parts = key.split(".")
    return [".".join(parts[:count]) + "." for count in range(1, len(parts))]


@pytest.mark.slow
def test_the_lists_are_whole_beside_kafkas_own(tmp_path: Path):
    """What KafkaConfig, SslConfigs, SaslConfigs and BrokerSecurityConfigs of 4.4.0 know."""
    source = Path(__file__).parent / "kafka" / "SecurityKeys.java"
    command = ["java", "-Xmx128m", "-cp", class_path(source, tmp_path, NEWEST), "SecurityKeys"]
    keys = set(subprocess.run(command, check=True, capture_output=True, text=True, timeout=400).stdout.split())
    assert {key for key in keys if key.startswith(DECIDES) and not is_on_a_list(key)} == set()
    of_brokers = {key for key in keys if not key.startswith(("org.", "sasl.", "ssl.", "security."))}
    known = {*Settings.definitions, *settings_ignored.REFUSED}
    assert {key for key in of_brokers if key not in known and not has_no_effect(key)} == set()
    ours = {"super.users", "allow.everyone.if.no.acl.found"}  # of the authorizer
    assert {key for key in HONOURED + REFUSED + WITHOUT_EFFECT if key not in keys} == ours
