"""Quotas as clients ask for them: what Kafka has left in the metadata log, by Kafka's filters; and far too many."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from broker.catalogue.quotas import MOST_ALTERATIONS
from broker.handlers import quotas
from broker.handlers.context import RequestContext
from broker.handlers.gathering import PACE
from broker.loop.slices import SLICE_NS
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.records import metadata_records as records
from tests.broker.handlers.test_topic_handlers import Desk

if TYPE_CHECKING:
    from pathlib import Path

EXACT, DEFAULT, ANY = 0, 1, 2


def quota(value: float, key: str = "producer_byte_rate", **entity: str | None) -> records.ClientQuotaRecord:
    """One quota; `client_id` stands for client-id, None for the default."""
    named = [records.QuotaEntity(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return records.ClientQuotaRecord(entity=named, key=key, value=value)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    for record in (
        quota(1, user="u1"),
        quota(2, "consumer_byte_rate", user="u1"),
        quota(3, user=None),
        quota(4, user="u1", client_id="c"),
        quota(5, client_id=None),
        quota(6, "connection_creation_rate", ip="10.0.0.1"),
    ):
        made.driver.catalogue.state.apply(record)
    made.driver.catalogue.client_quotas = tuple(made.driver.catalogue.state.kept.quotas.values())
    return made


def found(desk: Desk, *components: tuple[str, int, str | None], strict: bool = False) -> list[list[float]] | int:
    asked = [ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components]
    request = DescribeClientQuotasRequest(components=asked, strict=strict)
    answer = desk.ask(quotas.describe_client_quotas, request, 1)
    if answer.error_code:
        assert answer.entries is None
        return int(answer.error_code)
    return [[one.value for one in entry.values] for entry in answer.entries]


def test_golden_bytes() -> None:
    """Kafka's own records."""
    one = records.encode_frame(quota(1024, user="u1")).hex()
    assert one == "010e00020575736572037531001370726f64756365725f627974655f72617465409000000000000 00000".replace(
        " ", ""
    )


def test_filters(desk: Desk) -> None:
    """SE53: exact never means the default, any means both, strict leaves out who has another type too."""
    assert found(desk) == [[1, 2], [3], [4], [5], [6]]
    assert found(desk, strict=True) == []
    assert found(desk, ("user", EXACT, "u1")) == [[1, 2], [4]]
    assert found(desk, ("user", EXACT, "u1"), strict=True) == [[1, 2]]
    assert found(desk, ("user", DEFAULT, None)) == [[3]]
    assert found(desk, ("user", ANY, None), strict=True) == [[1, 2], [3]]
    assert found(desk, ("user", ANY, None), ("client-id", EXACT, "c")) == [[4]]
    assert found(desk, ("client-id", DEFAULT, None)) == [[5]]
    assert found(desk, ("ip", EXACT, "10.0.0.1")) == [[6]]
    assert found(desk, ("ip", EXACT, "10.0.0.2")) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("tea", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_odd_filters(desk: Desk, components: list[tuple[str, int, str | None]], code: int) -> None:
    """SE53"""
    assert found(desk, *components) == code


def test_a_refusal_of_far_too_many_alterations_is_made_in_turns(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of entries held the loop for 50 ms while all of them were told."""
    runtime = desk.driver.runtime
    runtime.step_ns = SLICE_NS
    count = MOST_ALTERATIONS + 1
    turn = 0
    made_in: list[int] = []
    really_made = quotas.AlteredEntity

    def made(**fields: Any) -> Any:
        made_in.append(turn)
        return really_made(**fields)

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if runtime.slices:
            runtime.next_turn(next_turn)

    monkeypatch.setattr(quotas, "AlteredEntity", made)
    entries = [EntryData(entity=[EntityData(entity_type="user", entity_name=f"u{at}")]) for at in range(count)]
    answer = quotas.alter_client_quotas(
        desk.broker, RequestContext(version=1), AlterClientQuotasRequest(entries=entries)
    )
    runtime.next_turn(next_turn)
    runtime.turn()
    assert {entry.error_code for entry in answer.response.entries} == {ErrorCode.INVALID_REQUEST}
    assert len(made_in) == len(answer.response.entries) == count
    assert max(Counter(made_in).values()) == PACE
