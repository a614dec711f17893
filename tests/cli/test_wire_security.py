"""Logging in over our own codec: what a broker may ask for; and tokens out of files, for both kinds of connections."""

import argparse
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.cluster import make_client
from cli.completion import program
from cli.errors import Failed
from cli.kafka_tools import TOOLS
from cli.wire_security import _scram, log_in
from tests.cli.conftest import kohort


@pytest.mark.parametrize("iterations", [1, 4_095, 10**9])
def test_scram_iterations_that_tell_the_password_or_never_end_are_refused(iterations: int) -> None:
    """As Kafka's client refuses fewer than the mechanism's least: one makes the proof cheap to guess from."""
    steps = _scram("alice", "secret", "sha256")
    nonce = next(steps).decode().rpartition("r=")[2]
    with pytest.raises(Failed, match=f"asked for {iterations} SCRAM iterations"):
        steps.send(f"r={nonce}more,s=c2FsdA==,i={iterations}".encode())


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "no such file"), ("\n", "it holds no token"), ("\u00e9", "it holds no token")]
)
def test_a_file_without_a_token_is_named(tmp_path: Path, text: str | None, reason: str) -> None:
    """The library would wait ten seconds, and say that there is no token."""
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(Failed, match=f"{file}: {reason}"):
        make_client(_never, _with_token(file))
    with pytest.raises(Failed, match=f"{file}: {reason}"):
        log_in(_never, "here", _with_token(file), timeout_s=1)


def test_a_token_that_has_ended_is_told(tmp_path: Path) -> None:
    """The library takes none."""
    file = tmp_path / "token"
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "bob", "exp": 1_000}).encode()).decode().rstrip("=")
    file.write_text(f"e30.{claims}.c2ln")
    with pytest.raises(Failed, match=f"{file}: the token in it expired"):
        make_client(_never, _with_token(file))


def _with_token(file: Path) -> dict[str, Any]:
    return {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": f"file://{file}"}


def _never(*_: object, **__: object) -> Any:
    raise AssertionError


WORDS = {
    "acls": ("list",), "consume": ("t",), "groups": ("list",), "pipeline": ("lag",), "produce": ("t",),
    "quotas": ("describe",), "topics": ("list",), "transactions": ("list",), "users": ("describe",), "why": ("g",),
    "kafka-topics.sh": ("--list",), "kafka-consumer-groups.sh": ("--list",), "kafka-acls.sh": ("--list",),
    "kafka-configs.sh": ("--describe", "--entity-type", "users"), "kafka-broker-api-versions.sh": (),
    "kafka-cluster.sh": ("cluster-id",), "kafka-get-offsets.sh": ("--topic", "t"),
    "kafka-console-producer.sh": ("--topic", "t"), "kafka-console-consumer.sh": ("--topic", "t"),
}  # fmt: skip
"""Of each that asks a broker a question."""
NO_LOG_IN = {"health"}
"""It asks what may be asked before."""


def test_whatever_asks_a_broker_says_who_it_is_as_a_file_says() -> None:
    """--command-config: no verb and no tool of Kafka's is without, and none passes over it."""
    asking = {
        path[0]
        for path, parser in _parsers((), program())
        if any({"--bootstrap-server", "--from"} & set(action.option_strings) for action in parser._actions)
    }
    assert asking - NO_LOG_IN | {f"{tool}.sh" for tool in TOOLS} == set(WORDS)
    for verb, words in WORDS.items():
        where = "--from" if verb == "pipeline" else "--bootstrap-server"
        ended = kohort(verb, *words, where, "127.0.0.1:1", "--command-config", "/nowhere")
        assert ended.code == 2, (verb, ended)
        assert "/nowhere: no such file" in ended.err, (verb, ended)


def _parsers(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[tuple[tuple[str, ...], Any]]:
    if path:
        yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from _parsers((*path, name), command)
