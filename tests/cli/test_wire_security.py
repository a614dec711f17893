"""Logging in over our own codec: what a broker may ask for."""

import pytest

from cli.errors import Failed
from cli.wire_security import _scram


@pytest.mark.parametrize("iterations", [1, 4_095, 10**9])
def test_scram_iterations_that_tell_the_password_or_never_end_are_refused(iterations: int) -> None:
    """As Kafka's client refuses fewer than the mechanism's least: one makes the proof cheap to guess from."""
    steps = _scram("alice", "secret", "sha256")
    nonce = next(steps).decode().rpartition("r=")[2]
    with pytest.raises(Failed, match=f"asked for {iterations} SCRAM iterations"):
        steps.send(f"r={nonce}more,s=c2FsdA==,i={iterations}".encode())
