"""`kohort users` and kafka-configs.sh --entity-type users, with the library's own requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess


def test_a_user_is_added_described_changed_and_deleted(run: Run, name: str, tmp_path: Path) -> None:
    assert run("users", "add", name, stdin="secret\n").out == f"Completed updating config for user {name}.\n"
    (tmp_path / "password").write_text("other\n")
    words = ("--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--password-file", str(tmp_path / "password"))
    assert run("users", "add", name, *words).code == 0

    assert run("users", "describe", name, "--json").json == [
        {"user": name, "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": name, "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    assert run("users", "describe", name).rows("USER")[1]["ITERATIONS"] == "8192"
    assert run("users", "delete", name, "--mechanism", "SCRAM-SHA-256").code == 0
    assert [row["mechanism"] for row in run("users", "describe", name, "--json").json] == ["SCRAM-SHA-512"]
    assert run("users", "delete", name).code == 0
    gone = run("users", "describe", name)
    assert (gone.code, "does not exist" in gone.err) == (1, True)


def test_kafka_configs_words(run: Run, name: str, broker: BrokerProcess) -> None:
    """SE51: the words of kafka-configs.sh, and what it prints."""
    words = ("kafka-configs.sh", "--entity-type", "users", "--entity-name", name)
    added = "SCRAM-SHA-256=[iterations=8192,password=pw],SCRAM-SHA-512=[password=pw]"
    assert run(*words, "--alter", "--add-config", added).out == f"Completed updating config for user {name}.\n"
    assert run(*words, "--describe").out == (
        f"SCRAM credential configs for user-principal '{name}' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096\n"
    )
    assert run("kafka-configs.sh", "--user", name, "--alter", "--delete-config", "SCRAM-SHA-512").code == 0
    admin = AdminClient({"bootstrap.servers": broker.address})
    told = admin.describe_user_scram_credentials([name])[name].result(60)  # type: ignore[index]
    assert [info.iterations for info in told.scram_credential_infos] == [8192]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("users", "add", "u", "--iterations", "1"), "Too few iterations"),
        (("users", "alter", "u"), "alter takes --add-config or --delete-config"),
        (("users", "alter", "u", "--add-config", "SCRAM-SHA-1=[password=x]"), "a user has SCRAM-SHA-256 and"),
        (("users", "alter", "u", "--add-config", "SCRAM-SHA-256=[pass=x]"), "it takes [iterations=N,password=...]"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    ended = run(*words, stdin="pw\n")
    assert ended.code in (1, 2)
    assert sentence in ended.err
    assert "pw" not in ended.err
