"""Failed log-ins, counted by address."""

import pytest

from broker.security import failures
from broker.security.failures import Failures


def test_many_addresses_are_not_looked_at_for_every_new_one(monkeypatch: pytest.MonkeyPatch):
    """SE32: whoever has a network of addresses fails from each once; those of last are kept."""
    monkeypatch.setattr(failures, "_MOST_HOSTS", 100)
    looks: list[int] = []
    forget = Failures._forget

    def counted(made: Failures, now_ms: int) -> None:
        looks.append(now_ms)
        forget(made, now_ms)

    monkeypatch.setattr(Failures, "_forget", counted)
    made = Failures()
    for number in range(200):
        made.failed(f"2001:db8::{number:x}", 100, 1_000)
        assert len(made._hosts) <= 100
    assert len(looks) == 10
    assert "2001:db8::c7" in made._hosts
