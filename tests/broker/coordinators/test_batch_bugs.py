"""Faults that Kafka's CoordinatorRuntime had in how it fills batches, built in again: these scenarios find them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from broker.coordinators.batches import OutcomeBatch, RecordEncoder
from broker.coordinators.effects import Effects
from broker.partitions import AppendInfo
from protocol.errors import ErrorCode
from protocol.records.batch_header import read_header
from protocol.records.compression import Compression
from tests.support.group_leader_fixture import FakePartition, Leading, Refused, committed

LIMIT_BYTES = 600


class StrictPartition(FakePartition):
    """Takes no batch over its limit, and none without records."""

    def append(self, batch: bytearray, *_: Any) -> AppendInfo:
        if len(batch) > LIMIT_BYTES:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
        assert read_header(batch).record_count > 0, "an empty batch"
        return super().append(batch)


def a_large_record_beside_nothing() -> None:
    """It fails alone, and nothing is written for it."""
    broker = Leading(StrictPartition(max_message_bytes=LIMIT_BYTES))
    large = broker.commit("h", 2, metadata="x" * 1_000)
    broker.turn()
    after = broker.commit("i", 3)
    broker.turn()
    assert committed(large) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert committed(after) == [ErrorCode.NONE]
    assert len(broker.partition.log.batches) == 1


def offsets_that_cannot_be_compressed() -> None:
    """Each is answered well, in batches within the limit."""
    broker = Leading(StrictPartition(max_message_bytes=LIMIT_BYTES), topics={"t": 100})
    broker.leader.effects.compression = Compression.GZIP
    chance = random.Random(1)
    answers = [
        broker.commit(
            "g", number, partition=number, metadata="".join(map(chr, chance.choices(range(32, 127), k=20 + number)))
        )
        for number in range(100)
    ]
    broker.turn()
    assert all(committed(answer) == [ErrorCode.NONE] for answer in answers)
    assert len(broker.partition.log.batches) > 10


def a_batch_is_opened_before_its_first_record_is_measured() -> Any:
    """KAFKA-20845: a record that fits into none leaves it empty, and it is flushed."""
    real = Effects._stage

    def stage(effects: Any, event: Any, key: str, outcome: Any) -> bool:
        if effects._open is None:
            effects._open = effects._waiting = OutcomeBatch(outcome.producer)
            effects._turn_requested = True
            effects._runtime.soon(effects._end_turn)
        return real(effects, event, key, outcome)

    return patch.object(Effects, "_stage", stage)


def a_batch_is_filled_by_how_well_records_might_compress() -> Any:
    """KAFKA-19760: they do not, and all who share it are refused."""
    real = RecordEncoder.pairs

    def pairs(encoder: Any, records: Any) -> Any:
        encoded, size_bytes = real(encoder, records)
        return encoded, size_bytes // 2

    return patch.object(RecordEncoder, "pairs", pairs)


SCENARIOS = {
    a_large_record_beside_nothing: a_batch_is_opened_before_its_first_record_is_measured,
    offsets_that_cannot_be_compressed: a_batch_is_filled_by_how_well_records_might_compress,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kohort_has_none_of_them(scenario: Callable[[], None]) -> None:
    """KAFKA-20845, KAFKA-19760."""
    scenario()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_they_are_found_when_they_are_built_in_again(scenario: Callable[[], None]) -> None:
    with SCENARIOS[scenario](), pytest.raises(AssertionError):
        scenario()
