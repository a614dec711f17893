"""`kohort quotas` and kafka-configs.sh for users, clients and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_quotas_are_set_told_of_and_taken_away(run: Run, name: str) -> None:
    """SE53"""
    added = ("--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    said = run("quotas", "alter", "--user", name, *added).out
    assert said == f"Completed updating quotas of user-principal '{name}'.\n"
    assert run("quotas", "alter", "--user", name, "--client-defaults", "--add-config", "consumer_byte_rate=7").code == 0
    assert run("quotas", "describe", "--user", name).rows("USER") == [
        {"USER": name, "CLIENT-ID": "<default>", "IP": "-", "QUOTA": "consumer_byte_rate", "VALUE": "7"},
        {"USER": name, "CLIENT-ID": "-", "IP": "-", "QUOTA": "producer_byte_rate", "VALUE": "1024"},
        {"USER": name, "CLIENT-ID": "-", "IP": "-", "QUOTA": "request_percentage", "VALUE": "12.5"},
    ]
    removed = ("--delete-config", "producer_byte_rate,request_percentage")
    assert run("quotas", "alter", "--user", name, *removed).code == 0
    assert run("quotas", "describe", "--user", name, "--json").json == [
        {"entity": {"client-id": None, "user": name}, "quota": "consumer_byte_rate", "value": 7.0}
    ]


def test_kafka_configs_words(run: Run, name: str) -> None:
    """SE51: the words of kafka-configs.sh, and what it prints."""
    user = ("--entity-type", "users", "--entity-name", name)
    words = ("kafka-configs.sh", *user, "--entity-type", "clients", "--entity-default")
    assert run(*words, "--alter", "--add-config", "consumer_byte_rate=2048,producer_byte_rate=1").out == (
        f"Completed updating config for user {name}.\n"
    )
    told = f"Quota configs for user-principal '{name}', the default client-id are "
    assert run(*words, "--describe").out == f"{told}consumer_byte_rate=2048.0, producer_byte_rate=1.0\n"
    assert run("kafka-configs.sh", *user, "--describe").out == ""
    short = ("kafka-configs.sh", "--user", name, "--client-defaults")
    assert run(*short, "--alter", "--delete-config", "consumer_byte_rate").code == 0
    assert run(*short, "--describe").out == f"{told}producer_byte_rate=1.0\n"
    assert (
        run("kafka-configs.sh", "--ip", "10.9.8.7", "--alter", "--add-config", "connection_creation_rate=5").code == 0
    )
    told = run("kafka-configs.sh", "--entity-type", "ips", "--entity-name", "10.9.8.7", "--describe").out
    assert told == "Quota configs for ip '10.9.8.7' are connection_creation_rate=5.0\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("quotas", "alter", "--add-config", "producer_byte_rate=1"), 2, "alter takes --user, --client or --ip"),
        (("quotas", "alter", "--user", "u"), 2, "alter takes --add-config or --delete-config"),
        (("quotas", "alter", "--user", "u", "--add-config", "producer_byte_rate=x"), 2, "it takes a number"),
        (("quotas", "alter", "--user", "u", "--user-defaults", "--add-config", "a=1"), 2, "stands without"),
        (("quotas", "alter", "--user", "u", "--add-config", "producer_byte_rate=0"), 1, "must be greater than 0"),
        (("quotas", "alter", "--ip", "nowhere", "--add-config", "connection_creation_rate=1"), 1, "is not a valid IP"),
        (("kafka-configs.sh", "--alter", "--entity-type", "ips", "--add-config", "a=1"), 2, "--alter takes --entity"),
        (("kafka-configs.sh", "--describe", "--entity-name", "u"), 2, "stands behind the --entity-type"),
        (("kafka-configs.sh", "--describe", "--topic", "t", "--user", "u"), 2, "are for users and clients"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(run: Run, words: tuple[str, ...], code: int, sentence: str) -> None:
    ended = run(*words)
    assert ended.code == code
    assert sentence in ended.err
