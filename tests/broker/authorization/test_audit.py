"""The audit log: what is told of decisions, and how often."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from broker.authorization.acl_types import Operation, ResourceType
from broker.authorization.audit import Audit
from broker.authorization.authorizer import Authorizer
from broker.loop import logs

if TYPE_CHECKING:
    from collections.abc import Callable


class Told:
    """What an audit log says; the time is `now_ms`."""

    def __init__(self, level: str = "info") -> None:
        self.stream = io.StringIO()
        logs.configure(level=level, stream=self.stream)
        self.now_ms = 1_000_000
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.audit = Audit(lambda: self.now_ms, lambda *timer: self.timers.append(timer))

    def decide(self, allowed: bool, name: str = "t", times: int = 1) -> None:
        for _ in range(times):
            self.audit.decided(allowed, "User:bob", "127.0.0.1", 8, 2, name, "DefaultDeny")

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_a_refusal_is_told_with_its_facts() -> None:
    """SE72"""
    told = Told()
    told.decide(False)
    told.decide(True)
    (line,) = told.lines
    facts = "principal=User:bob host=127.0.0.1 operation=DESCRIBE resource=TOPIC name=t rule=DefaultDeny count=1"
    assert line.endswith(f"INFO authorization_denied {facts}")


def test_what_is_allowed_is_told_at_debug() -> None:
    """SE72"""
    told = Told("debug")
    told.decide(True)
    assert "authorization_allowed" in told.lines[0]


def test_ten_thousand_refusals_in_a_second_are_one_line() -> None:
    """SE72: and the next second's says how many were left out."""
    told = Told()
    told.decide(False, times=10_000)
    assert len(told.lines) == 1
    told.now_ms += 1_000
    told.decide(False)
    assert told.lines[1].endswith("count=10000")


def test_refusals_of_ever_new_names_are_a_hundred_lines_a_second() -> None:
    """SE72: an attacker who makes up names does not fill the disk."""
    told = Told()
    for number in range(1_000):
        told.decide(False, f"t{number}\n{'x' * 10_000}")
    assert len(told.lines) == 100
    assert max(map(len, told.lines)) < 1_000
    told.now_ms += 1_000
    told.decide(False)
    assert told.lines[100].endswith("authorization_denials_left_out count=900")


def test_a_refusal_that_is_remembered_is_counted_and_calls_nothing() -> None:
    """So that a refused heartbeat costs no more than one that is allowed."""
    told = Told()
    judge = Authorizer((), super_users=(), allow_everyone=False, now_ms=lambda: told.now_ms, at=lambda *_: None)
    judge.audit = told.audit
    bob = judge.rights("User:bob", "127.0.0.1")
    asked = Operation.READ, ResourceType.GROUP, "g"
    assert not bob.may(*asked)
    called: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    refused = not bob.may(*asked)
    sys.setprofile(None)
    assert refused
    assert called == ["may"]

    assert not bob.may(*asked, tell=False)
    for _ in range(97):
        assert not bob.may(*asked)
    assert len(told.lines) == 1
    ((ends_ms, end),) = told.timers
    told.now_ms = ends_ms
    end()
    assert not bob.may(*asked)
    assert told.lines[1].endswith("count=99")
