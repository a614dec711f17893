"""The transactional ids of one partition of `__transaction_state`, and which rule answers which input.

An id changes by `install` only, which puts a change of state in place when its record is committed: what the ids hold
that the log holds too is always what the committed records say.

Source: Kafka's TransactionStateManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.transactions.rules import RULES, unserved
from coordinator.transactions.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.outcome import Input, Reply
    from coordinator.transactions.transaction import Transaction
    from coordinator.transactions.view import TransactionOutcome, TransactionSettings
    from coordinator.view import Topics
    from protocol.errors import ErrorCode


class TransactionShard:
    """State and rules of one partition. Nothing here knows of a log, a clock or a connection."""

    __slots__ = ("settings", "states", "topics")

    def __init__(self, settings: TransactionSettings, topics: Topics) -> None:
        self.settings = settings  # replaced when the cluster's `transaction.version` changes
        self.topics = topics
        self.states: dict[str, Transaction] = {}

    def handle(self, event: Input, now_ms: int) -> TransactionOutcome:
        """What follows from `event`. Nothing is changed yet: that is `install`."""
        key = event.key
        view = View(key, self.states.get(key), self.topics, self.settings)
        return RULES[type(event)](view, event, now_ms)

    def unserved(self, event: Input, error: ErrorCode) -> Reply | None:
        """The answer to a request that cannot be served now; None when nobody waits for one."""
        return unserved(event, error)

    def taken_back(self, event: Input, replies: Iterable[Reply], error: ErrorCode) -> list[Reply]:
        """Refused records take nothing else back: the rules decide upon what is committed."""
        return list(replies)

    def install(self, key: str, outcome: TransactionOutcome) -> None:
        """Make the outcome's transaction the current one."""
        after = outcome.after
        if after is None:
            self.states.pop(key, None)
        else:
            self.states[key] = after

    def replay(self, key: Any, value: Any | None, producer_id: int = -1, offset: int = -1) -> None:
        """Nothing: a record counts when it is committed, and then the rules hear of it (`Appended`)."""

    def all_keys(self) -> list[str]:
        """Every transactional id."""
        return list(self.states)
