"""Which groups have findings now."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from broker.groups.ledger.standing import STALE_MS, StandingFindings
from tests.support.virtual_runtime import VirtualRuntime


def standing(*groups: str, rules: tuple[str, ...] = ("storm",)) -> StandingFindings:
    runtime = VirtualRuntime()
    made = StandingFindings(runtime)

    def found(group_id: str, last: int, *, since_ms: int) -> Iterator[None]:
        yield
        return [{"rule": rule, "severity": "warning", "last_at_ms": runtime.now_ms()} for rule in rules], []

    ledger: Any = SimpleNamespace(enabled=True, findings_in_steps=found)
    made.ledger = ledger
    for group_id in groups:
        made.on_ledger({"kind": "rebalance_ended", "group_id": group_id})
    return made


def test_a_group_that_is_removed_while_its_findings_are_worked_out_leaves_nothing():
    one = standing("a", "b", "c")
    asked, asked_too = one.refreshed(), one.refreshed()
    next(asked)
    next(asked_too)
    for group_id in "ab":  # one is looked at, and one waits
        one.on_ledger({"kind": "group_removed", "group_id": group_id})
    list(asked)
    list(asked_too)
    assert list(one.standing()) == [("c", "storm")]
    assert one._found.keys() == {"c"}
    assert not one._changed
    assert not one._looks


def test_a_group_that_is_well_is_not_kept():
    one = standing("a", rules=())
    list(one.refreshed())
    one._runtime.advance(2 * STALE_MS)  # type: ignore[attr-defined]  # virtual
    list(one.refreshed())
    assert not one._found
    assert not one._changed
