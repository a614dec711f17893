"""Faults that brokers have had, built in for a while: a simulation that does not find them looks at nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

from broker.partitions import partition as partition_module
from coordinator.shard import Shard
from protocol.errors import ErrorCode
from storage.log import log_lookup
from storage.state import log_state, producer_checks


class Fault(NamedTuple):
    """What is wrong, with which settings it shows."""

    build_in: Callable[[], AbstractContextManager[Any]]
    settings: dict[str, str]


def repeated_markers_are_refused() -> AbstractContextManager[Any]:
    """KAFKA-19999: the coordinator does not know that a marker was written, and asks for ever."""
    real = producer_checks.check_marker

    def check(entry: Any, **facts: Any) -> Any:
        if entry is not None and facts["transaction_version"] >= 2 and facts["epoch"] == entry.epoch:
            return producer_checks.Refuse(ErrorCode.INVALID_PRODUCER_EPOCH, "planted")
        return real(entry, **facts)

    return patch.object(partition_module, "check_marker", check)


def aborted_transactions_are_not_told() -> AbstractContextManager[Any]:
    """Readers take what was aborted for committed."""
    return patch.object(log_lookup, "aborted_transactions", lambda *_: [])


def the_last_stable_offset_is_the_high_watermark() -> AbstractContextManager[Any]:
    """Readers see what is not decided."""
    return patch.object(
        log_state.LogState, "last_stable_offset", lambda log, high_watermark: max(high_watermark, log.log_start_offset)
    )


def pending_offsets_count_at_once() -> AbstractContextManager[Any]:
    """A processor that dies before its commit leaves its position behind, and not its output."""
    real = Shard.replay
    return patch.object(
        Shard, "replay", lambda shard, key, value, producer_id=-1, offset=-1: real(shard, key, value, -1, offset)
    )


ALWAYS = {"kohort__durability": "always"}
FAULTS = {
    "repeated markers": Fault(repeated_markers_are_refused, ALWAYS),
    "aborted lists": Fault(aborted_transactions_are_not_told, ALWAYS),
    "last stable offset": Fault(the_last_stable_offset_is_the_high_watermark, ALWAYS),
    "pending offsets": Fault(pending_offsets_count_at_once, ALWAYS),
    # KIP-890: a batch that comes after its transaction's end opens another one.
    "no verification": Fault(nullcontext, {**ALWAYS, "transaction__partition__verification__enable": "false"}),
}
