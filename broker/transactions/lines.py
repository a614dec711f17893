"""Log lines of what happened to transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from coordinator.transactions.events import TransactionEvent

log = get_logger(__name__)

# Thousands of transactions a second begin and end as their clients wish: that is told at level `debug` only.
_ROUTINE = frozenset(
    {"transaction_began", "transaction_completed", "transaction_request_refused", "transaction_was_aborted"}
)
_WARNINGS = frozenset({"markers_delayed", "transaction_write_failed"})


def log_event(event: TransactionEvent) -> None:
    """One line for each thing that happened."""
    if event.kind in _ROUTINE or (event.kind == "transaction_decided" and event.facts.get("cause") == "client"):
        tell = log.debug
    elif event.kind in _WARNINGS:
        tell = log.warning
    elif event.kind == "marker_abandoned":
        tell = log.error
    else:
        tell = log.info
    tell(event.kind, transactional_id=event.key, **event.facts)
