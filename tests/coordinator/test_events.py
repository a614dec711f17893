"""Group events are declared once: log lines, records and words are held to that declaration."""

from __future__ import annotations

from dataclasses import fields

from broker.groups import lines
from coordinator import events
from coordinator.cause import TRIGGERS, Cause
from coordinator.why import cause_words, words
from protocol.records.ledger import KINDS, LedgerRecord

_MADE_OF_MORE = {"rebalance_began", "rebalance_ended", "offsets_changed"}
"""Kinds whose records are put together from the whole group as well."""


def test_what_is_recorded_is_what_the_ledger_has_kinds_for():
    assert {name for name, what in events.KINDS.items() if what.recorded} == set(KINDS)


def test_a_record_has_no_field_that_its_event_lacks():
    for kind in set(KINDS) - _MADE_OF_MORE:
        own = set(KINDS[kind].__annotations__) - set(LedgerRecord.__annotations__)
        assert own <= {one.name for one in fields(events.KINDS[kind])}, kind  # type: ignore[arg-type]


def test_every_sentence_is_of_a_declared_kind_and_every_trigger_has_words():
    assert set(lines._SENTENCES) <= set(events.KINDS)
    assert set(words._EVENTS) | {"rebalance_began", "rebalance_ended", "departure_traced", "partitions_read"} == set(
        KINDS
    )
    assert set(cause_words._CAUSES) == TRIGGERS


def test_facts_tell_a_member_and_a_cause_field_by_field_and_leave_defaults_out():
    who = events.Who("m-1", None, "c", "/10.0.0.7")
    joined = events.GroupEvent(events.MemberJoined(who), "g", 3)
    assert joined.kind == "member_joined"
    assert joined.facts == {"member_id": "m-1", "instance_id": None, "client_id": "c", "client_host": "/10.0.0.7"}

    cause = Cause(5, "session_expired", "m-1", detail={"session_timeout_ms": 9})
    began = events.GroupEvent(events.RebalanceBegan("3@5", 3, "Stable", 2, cause), "g", 3, group_type="consumer")
    assert began.facts == {
        "group_type": "consumer",
        "rebalance_id": "3@5",
        "from_generation": 3,
        "state_before": "Stable",
        "members_before": 2,
        "trigger": "session_expired",
        "member_id": "m-1",
        "instance_id": None,
        "client_id": None,
        "client_host": None,
        "reason": None,
        "session_timeout_ms": 9,
    }
