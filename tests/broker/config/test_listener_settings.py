"""Settings of single listeners."""

import pytest

from broker.config.listener_settings import TOKEN_VALIDATOR, ListenerSettings, check_own, passed_over
from broker.config.listeners import SecurityProtocol, parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.network.securities import Securities

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BASE = {"listeners": "IN://127.0.0.1:0", "listener.security.protocol.map": "IN:SASL_PLAINTEXT"}


def opened(given: dict[str, str]) -> None:
    settings = Settings({**BASE, **given})
    listeners = parse_listeners(settings)
    check_own(settings, [listener.name for listener in listeners])
    Securities(settings, listeners)


def test_a_listeners_own_setting_counts_before_the_one_of_all():
    """SE03"""
    settings = Settings(
        {**BASE, "connections.max.reauth.ms": "1", "listener.name.in.connections.max.reauth.ms": "2",
         "listener.name.in.plain.connections.max.reauth.ms": "3"}
    )  # fmt: skip

    assert ListenerSettings(settings, "OUT").of("connections.max.reauth.ms") == 1
    assert ListenerSettings(settings, "IN").of("connections.max.reauth.ms") == 2
    assert ListenerSettings(settings, "IN").of_mechanism("PLAIN", "connections.max.reauth.ms") == 3
    assert ListenerSettings(settings, "IN").of_mechanism("SCRAM-SHA-256", "connections.max.reauth.ms") == 2


def test_each_listener_speaks_what_the_map_says():
    settings = Settings(
        {"listeners": "A://127.0.0.1:1,B://127.0.0.1:2,SSL://127.0.0.1:3,D://127.0.0.1:4",
         "listener.security.protocol.map": "A:PLAINTEXT,b:sasl_plaintext,SSL:SSL,D:SASL_SSL"}
    )  # fmt: skip
    assert [listener.protocol for listener in parse_listeners(settings)] == [
        SecurityProtocol.PLAINTEXT,
        SecurityProtocol.SASL_PLAINTEXT,
        SecurityProtocol.SSL,
        SecurityProtocol.SASL_SSL,
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "GSSAPI on listener IN is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "listener.name.in.plain.sasl.jaas.config: it is missing"),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-512"},
            "listener.name.in.scram-sha-512.sasl.jaas.config: it is missing",
        ),
        ({"sasl.enabled.mechanisms": "CRAM-MD5"}, "CRAM-MD5 on listener IN is no mechanism"),
        ({"sasl.enabled.mechanisms": ""}, "at least one mechanism"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.in.plain.sasl.jaas.config": f'{PLAIN} user_a="planted"',
            },
            r"listener.name.in.plain.sasl.jaas.config=\[hidden\]: it is not ended by a semicolon",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.in.plain.sasl.jaas.config": "Other required a=planted;",
            },
            "it takes the module org.apache",
        ),
        ({"listener.name.in.connection.failed.authentication.delay.ms": "soon"}, "listener.name.in.connection.failed"),
        ({"listener.name.in.principal.builder.class": "com.example.Mine"}, "would be open"),
        ({"listener.name.in.plain.sasl.server.callback.handler.class": "com.example.Mine"}, "would be open"),
        (
            {"listener.security.protocol.map": "IN:PLAINTEXT", "listener.name.in.ssl.client.auth": "required"},
            "in.ssl.client.auth: the listener speaks PLAINTEXT",
        ),
        (
            {"listener.security.protocol.map": "IN:PLAINTEXT", "listener.name.in.plain.sasl.jaas.config": "planted"},
            "in.plain.sasl.jaas.config: the listener speaks PLAINTEXT",
        ),
        (
            {"listener.security.protocol.map": "IN:SSL", "listener.name.in.sasl.enabled.mechanisms": "PLAIN"},
            "in.sasl.enabled.mechanisms: the listener speaks SSL",
        ),
        ({"listener.name.inn.ssl.client.auth": "required"}, "inn.ssl.client.auth: INN is not in listeners"),
        ({"listener.name.inn.plain.sasl.jaas.config": "planted"}, "jaas.config: INN is not in listeners"),
    ],
)
def test_what_a_listener_cannot_be_is_refused_with_its_key_and_without_secrets(given: dict[str, str], words: str):
    """SE02"""
    with pytest.raises(SettingsError, match=words) as refused:
        opened(given)
    assert "planted" not in str(refused.value)


def test_unknown_keys_of_listeners_are_named_and_those_of_others_are_not():
    settings = Settings(
        {**BASE, "listener.name.in.connections.max.reauth": "x", "listener.name.controller.what.ever": "x",
         "listener.name.in.num.network.threads": "3"}
    )  # fmt: skip
    assert check_own(settings, ["IN"]) == ["listener.name.in.connections.max.reauth"]


def test_what_asks_nobody_is_told(capfd: pytest.CaptureFixture[str]):
    opened({"listener.security.protocol.map": "IN:PLAINTEXT", "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN"})  # fmt: skip
    told = capfd.readouterr().err
    assert "setting_without_effect key=ssl.client.auth" in told
    assert "setting_without_effect key=sasl.enabled.mechanisms" in told


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"listener.name.in.plain.sasl.jaas.config": "other", "listener.name.in.ssl.truststore.location": "/t",
          "listener.name.in.max.connections": "5", "ssl.client.auth": "required"}, []),
        ({"principal.builder.class": "x.Mine", "listener.name.in.ssl.engine.factory.class": "x.Mine"},
         ["listener.name.in.ssl.engine.factory.class", "principal.builder.class"]),
        ({"listener.name.in.oauthbearer.sasl.server.callback.handler.class": "x.Mine"},
         ["listener.name.in.oauthbearer.sasl.server.callback.handler.class"]),
        ({"listener.name.in.oauthbearer.sasl.server.callback.handler.class": TOKEN_VALIDATOR}, []),
        ({"listener.name.controller.ssl.engine.factory.class": "x.Mine", "listener.name.in.num.network.threads": "3",
          "max.connections": "5", "advertised.listeners": "IN://x:1", "com.example": "x"}, []),
    ],
)  # fmt: skip
def test_what_kafka_changed_while_it_ran_and_cannot_hold_is_not_passed_over(changed: dict[str, str], lost: list[str]):
    assert passed_over(["IN"], changed) == lost
