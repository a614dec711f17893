"""docs/securing.md: the commands that it shows do what they say, one after the other."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING

from storage.directory.meta_properties import parse_properties
from tests.cli.conftest import kohort
from tests.support.broker_process import ROOT, Kohort, free_port

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "securing.md"
SHOWN = re.compile(r"^\$ kohort ((?:.*\\\n)*.*)$", re.MULTILINE)


def test_each_command_of_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tls, plain = (f"127.0.0.1:{free_port()}" for _ in range(2))
    here = {
        "broker.example:9093": tls,
        "localhost:9092": plain,
        "broker.example": "127.0.0.1",
        "/etc/kohort/renewed.pem": str(tmp_path / "renewed.pem"),
    }
    page = re.sub("|".join(here), lambda found: here[found[0]], PAGE.read_text())
    commands = [shlex.split(line.partition(" >>")[0].replace("\\\n", " ")) for line in SHOWN.findall(page)]
    assert [words[0] for words in commands] == [
        "certificates", "topics", "kafka-configs.sh", "kafka-configs.sh", "acls", "quotas", "quotas", "quotas",
    ]  # fmt: skip

    made = kohort(*commands.pop(0))
    assert made.code == 0, made
    settings = parse_properties(made.out)
    shutil.copy(settings["ssl.keystore.location"], tmp_path / "renewed.pem")
    (tmp_path / "users.properties").write_text("listener.name.ssl.max.connections=100\n")
    settings |= {
        "listeners": f"SSL://{tls},PLAINTEXT://{plain}",
        "advertised.listeners": "",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Kohort(tmp_path / "broker", settings, port=int(tls.rpartition(":")[2])):
        for words in commands:
            ended = kohort(*words, *(() if "-b" in words else ("-b", plain)))
            assert ended.code == 0, (words, ended)
        at = ("-b", plain)
        assert "User:alice" in kohort("acls", "list", "--topic", "orders", *at).out
        entity = ("--entity-type", "brokers", "--entity-name", "1", "--describe")
        told = kohort("kafka-configs.sh", *entity, *at).out
        assert "listener.name.ssl.max.connections=100" in told
        assert str(tmp_path / "renewed.pem") in told
        quotas = kohort("quotas", "describe", *at).out
        assert all(key in quotas for key in ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"))
