"""For each anomaly a fault of a broker that brings it about: whoever looks for the anomaly must find it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from itertools import count
from typing import Any
from unittest.mock import patch

from broker.handlers import fetch as fetch_module
from broker.handlers import produce as produce_module
from protocol.records.batch import iterate_headers
from tests.crash.planted import (
    committed_transactions_are_told_as_aborted,
    what_comes_again_is_written_again,
)
from tests.simulation.transaction_faults import (
    aborted_transactions_are_not_told,
    the_last_stable_offset_is_the_high_watermark,
)

Fault = Callable[[], AbstractContextManager[Any]]


def _answers_name(offset: Callable[[int], int]) -> AbstractContextManager[Any]:
    """Producers are told of another offset than their records have."""
    real = produce_module.PartitionProduceResponse

    def answer(**facts: Any) -> Any:
        if facts.get("base_offset", -1) >= 0:
            facts["base_offset"] = offset(facts["base_offset"])
        return real(**facts)

    return patch.object(produce_module, "PartitionProduceResponse", answer)


def answers_name_the_next_offset() -> AbstractContextManager[Any]:
    """As if they were told the log's end."""
    return _answers_name(lambda offset: offset + 1)


def answers_name_the_first_offset() -> AbstractContextManager[Any]:
    """As if they were told the log's start."""
    return _answers_name(lambda _: 0)


def _reads(change: Callable[..., Any]) -> AbstractContextManager[Any]:
    real = fetch_module._read
    return patch.object(fetch_module, "_read", lambda *arguments: change(real, *arguments))


def reads_begin_late() -> AbstractContextManager[Any]:
    """Now and then a read begins some records behind what was asked for."""
    numbers = count()

    def late(real: Any, partition: Any, wanted: Any, *more: Any) -> Any:
        behind = wanted.fetch_offset + 4
        if next(numbers) % 3 == 0 and behind < partition.last_stable_offset:
            wanted = copy(wanted)
            wanted.fetch_offset = behind
        return real(partition, wanted, *more)

    return _reads(late)


def reads_are_turned_round() -> AbstractContextManager[Any]:
    """The batches of an answer come in the wrong order."""

    def turned(real: Any, *arguments: Any) -> Any:
        result, size = real(*arguments)
        data = b"".join(result.records) if size else b""
        if data:
            starts = [position for position, _ in iterate_headers(data)]
            result.records = b"".join(
                data[a:b] for a, b in reversed(list(zip(starts, [*starts[1:], None], strict=True)))
            )
        return result, size

    return _reads(turned)


def reads_are_of_another_partition() -> AbstractContextManager[Any]:
    """As if a file's descriptor were another's now."""
    seen: dict[str, Any] = {}

    def another(real: Any, partition: Any, wanted: Any, *more: Any) -> Any:
        other = seen.setdefault(partition.topic, partition)
        both = wanted.fetch_offset < other.log_end_offset <= partition.log_end_offset
        return real(other if both else partition, wanted, *more)

    return _reads(another)


FAULTS: dict[str, Fault] = {
    "inconsistent offsets": answers_name_the_next_offset,
    "duplicate": what_comes_again_is_written_again,
    "lost write": committed_transactions_are_told_as_aborted,
    "aborted read": aborted_transactions_are_not_told,
    "read before commit": the_last_stable_offset_is_the_high_watermark,
    "read of nothing": reads_are_of_another_partition,
    "poll skip": reads_begin_late,
    "nonmonotonic poll": reads_are_turned_round,
    "nonmonotonic send": answers_name_the_first_offset,
}
