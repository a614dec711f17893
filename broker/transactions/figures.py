"""What metrics tell of transactions, counted from their events: anew with the process, as counters are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.transactions.events import TransactionEvent


class TransactionFigures:
    """All transactional ids together. Times in ms; `on_event` is what others call."""

    __slots__ = ("ended", "ending", "markers_delayed", "markers_ms", "open", "open_ms", "refused")

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        """Since when a transaction is open, by transactional id; those that this process saw begin in that order."""
        self.ending: dict[str, int] = {}  # since when it is decided and waits for markers
        self.ended: dict[tuple[bool, str], int] = {}  # by whether it was committed, and the cause of its end
        self.open_ms = 0  # of those that were decided, together
        self.markers_ms = 0  # from their decision to their last marker
        self.markers_delayed = 0
        self.refused: dict[tuple[str, str], int] = {}  # by request and error

    @property
    def oldest_ms(self) -> int | None:
        """Since when the oldest open transaction is open; None when there is none. All are looked at."""
        return min(self.open.values(), default=None)

    def on_event(self, event: TransactionEvent) -> None:
        """Something happened under a transactional id."""
        kind, facts = event.kind, event.facts
        if kind == "transaction_began":
            self.open[event.key] = event.at_ms
        elif kind == "transaction_decided":
            self.open.pop(event.key, None)
            self.ending[event.key] = event.at_ms
            self.open_ms += facts["open_ms"]
        elif kind == "transaction_completed":
            self.ending.pop(event.key, None)
            ended = (facts["committed"], facts["cause"])
            self.ended[ended] = self.ended.get(ended, 0) + 1
            self.markers_ms += facts["markers_ms"]
        elif kind == "transaction_request_refused":
            refused = (facts["request"], facts["error"])
            self.refused[refused] = self.refused.get(refused, 0) + 1
        elif kind == "markers_delayed":
            self.markers_delayed += 1
        elif kind == "transaction_loaded":
            where = self.open if facts["state"] == "Ongoing" else self.ending
            where[event.key] = event.at_ms - facts["open_ms"]
