"""Logging in over our own codec: what a broker may ask for; and tokens out of files, for both kinds of connections."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from cli.cluster import make_client
from cli.errors import Failed
from cli.wire_security import _scram, log_in


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
