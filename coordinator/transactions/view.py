"""What a rule of transactions may see besides its input and the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome
from coordinator.transactions.transaction import Transaction
from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.view import Topics

TransactionOutcome = Outcome[Transaction]


@value
class TransactionSettings:
    """The settings that rules look at; names and defaults are Kafka's, times in ms."""

    transaction_version: int = 2  # the finalized level of the feature `transaction.version`: 0, 1 or 2
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 60 * 60_000
    two_phase_commit: bool = False

    @property
    def value_version(self) -> int:
        """The version in which records are written."""
        return 0 if self.transaction_version == 0 else 1

    @property
    def bumps_epochs(self) -> bool:
        """Whether what the broker ends by itself raises the epoch as clients of version 2 do (KIP-890)."""
        return self.transaction_version >= 2


@value
class View:
    """The state before an input. Nothing in it may be changed in place."""

    transactional_id: str
    transaction: Transaction | None
    topics: Topics
    settings: TransactionSettings
