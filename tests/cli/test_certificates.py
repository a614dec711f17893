"""`kohort certificates`, and the client settings that use what it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.client_security import translated
from pipeline.errors import UsageError
from storage.directory.meta_properties import parse_properties
from tests.cli.conftest import kohort
from tests.support.broker_process import Kohort, eventually

if TYPE_CHECKING:
    from pathlib import Path


def test_what_it_makes_serves_a_broker_and_its_clients(tmp_path: Path):
    """The printed settings start the broker, alice.properties lets a command in, and renewal keeps the authority."""
    keys = tmp_path / "keys"
    made = kohort("certificates", str(keys), "--client", "alice")
    assert made.code == 0, made
    assert {file.stat().st_mode & 0o777 for file in keys.iterdir()} == {0o600}
    settings = {**parse_properties(made.out), "listeners": "SSL://127.0.0.1:0", "advertised.listeners": ""}
    with Kohort(tmp_path / "broker", settings) as broker:
        command = ("topics", "list", "-b", broker.address, "--command-config", str(keys / "alice.properties"))
        made_topic = kohort(
            "topics", "create", "orders", "-b", broker.address, "--command-config", str(keys / "alice.properties")
        )
        assert made_topic.code == 0, made_topic
        assert "orders" in kohort(*command).out
        nobody = kohort("topics", "list", "-b", broker.address, "--timeout", "1000")
        assert nobody.code == 1, nobody

        authority = (keys / "authority.crt").read_bytes()
        assert kohort("certificates", str(keys), "--client", "bob").code == 0
        assert (keys / "authority.crt").read_bytes() == authority
        bob = (*command[:-1], str(keys / "bob.properties"))
        eventually(lambda: "orders" in kohort(*bob).out)


@pytest.mark.parametrize("name", ["../up", "broker", ""])
def test_a_client_has_a_name_that_can_be_a_files(tmp_path: Path, name: str):
    assert kohort("certificates", str(tmp_path), "--client", name).code == 2


def test_a_place_that_cannot_be_is_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ended = kohort("certificates", str(tmp_path / "file" / "keys"))
    assert ended.code == 1
    assert "not a directory" in ended.err


def test_settings_of_java_have_other_names_in_the_library():
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert translated(
        {
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": f'{module} required username="bob" password=\'p"w\';',
            "ssl.truststore.certificates": "CA",
            "ssl.keystore.location": "/keys/bob.p12",
            "ssl.keystore.password": "x",
            "ssl.endpoint.identification.algorithm": "",
        }
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "bob",
        "sasl.password": 'p"w',
        "ssl.ca.pem": "CA",
        "ssl.keystore.location": "/keys/bob.p12",
        "ssl.keystore.password": "x",
        "ssl.endpoint.identification.algorithm": "none",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sasl.jaas.config": "Module required password=\"planted\""}, "semicolon"),
        ({"ssl.truststore.location": "x.jks"}, "as PEM"),
        ({"ssl.keystore.location": "x.jks"}, "PEM or PKCS12"),
    ],
)  # fmt: skip
def test_what_the_library_cannot_take_is_said(given: dict[str, str], words: str):
    with pytest.raises(UsageError, match=words) as refused:
        translated(given)
    assert "planted" not in str(refused.value)
