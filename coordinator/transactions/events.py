"""What happened to a transactional id and why, as values: log lines, metrics and answers to "why" are made of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from coordinator.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.transactions.transaction import TopicPartition, Transaction

PARTITIONS_MAX = 100
"""How many partitions an event names; of more it says how many there are."""

KINDS = frozenset(
    {
        "producer_initialized",
        "transaction_began",
        "transaction_decided",
        "transaction_completed",
        "transaction_write_failed",
        "transaction_request_refused",
        "transaction_loaded",
        "transaction_was_aborted",
        "transactional_id_expired",
        "markers_delayed",
        "marker_abandoned",
    }
)


@value
class TransactionEvent:
    """One thing that happened. `facts` are the keys of its log line."""

    kind: str  # one of `KINDS`
    key: str  # the transactional id
    facts: Mapping[str, Any] = field(default_factory=dict)
    at_ms: int = 0


def event(kind: str, transaction: Transaction, now_ms: int, **facts: Any) -> TransactionEvent:
    """An event of this transaction, with its producer."""
    who = {"producer_id": transaction.producer_id, "producer_epoch": transaction.producer_epoch}
    return TransactionEvent(kind, transaction.transactional_id, {**who, **facts}, now_ms)


def named(partitions: Iterable[TopicPartition]) -> list[str]:
    """The first partitions by name, as Kafka writes them: orders-0."""
    return [f"{topic}-{partition}" for topic, partition in sorted(partitions)[:PARTITIONS_MAX]]
