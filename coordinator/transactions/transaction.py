"""A transactional id as a value: its producer, the state of its transaction, and the partitions that are in it.

What the log holds of it changes only when a record is committed: until then the state that will be is `pending`, and
the fields are those of the last committed record. What the log does not hold is lost with the process.

Always true:
- while `pending` is set nothing else is begun, and in the Prepare states nothing but markers and their end;
- `start_ms` is -1 in Empty and nowhere else;
- `partitions` is empty in Empty and in the Complete states;
- `unmarked` is a part of `partitions`, and empty outside the Prepare states;
- the epoch of a producer id never falls; only another producer id begins at 0 again.

Source: Kafka's TransactionMetadata, TransactionState.
"""

from __future__ import annotations

from enum import IntEnum

from coordinator.values import value

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_EPOCH = -1
LARGEST_EPOCH = 32_767
NO_TIMEOUT_MS = 2_147_483_647
"""The timeout of a transaction that somebody else decides: it never runs out. Source: KIP-939."""


class TransactionState(IntEnum):
    """The states; the number is that of the log. Dead and PrepareEpochFence never stand there."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # it expires: its tombstone is on its way to the log
    PREPARE_EPOCH_FENCE = 7  # Kafka's way from fencing to PrepareAbort; here that is one step, so nothing is ever in it

    @property
    def title(self) -> str:
        """As Kafka's tools write it: PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
RESTING = COMPLETED | {TransactionState.EMPTY}
"""Nothing is open: a transaction may begin, and the id may expire."""

REACHED_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: RESTING,
    TransactionState.ONGOING: RESTING | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: RESTING | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: RESTING,
}
"""Which states a state may follow on."""


@value
class Ending:
    """Who ended a transaction, for those who ask why. Never persisted."""

    cause: str  # `client`, `fenced` or `timed_out`; `loaded` when it was decided before this process began
    at_ms: int
    client_id: str = ""
    client_host: str = ""


@value
class Holder:
    """The client that was given the id's epoch. Nobody remembers it over a restart."""

    client_id: str
    client_host: str


@value
class Transaction:
    """One transactional id. Times in ms since the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int  # -1: the id is new, and not in the log yet
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID  # of the state before this one
    next_producer_id: int = NO_PRODUCER_ID  # after a Prepare whose epoch is the last one
    client_version: int = 0  # the transaction version that the client of the last change showed: 0 or 2
    # Not in the log:
    last_producer_epoch: int = NO_EPOCH  # the one before, by which a request that comes again is known
    pending: Transaction | None = None  # the state that is on its way to the log
    unmarked: frozenset[TopicPartition] = frozenset()  # in a Prepare state: those that wait for their marker
    marker_tries: int = 0  # how often markers were refused since the last one that was written
    ending: Ending | None = None
    holder: Holder | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it must finish something first. Whoever wants another thing comes again."""
        return self.pending is not None or self.state in PREPARED

    @property
    def is_exhausted(self) -> bool:
        """Whether no client may be given a higher epoch: the last one is kept for fencing."""
        return self.producer_epoch >= LARGEST_EPOCH - 1

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """Where readers of committed records wait: of a decided transaction the partitions without their marker."""
        return self.unmarked if self.state in PREPARED else self.partitions

    @property
    def is_committed(self) -> bool:
        """Whether it is decided for commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
