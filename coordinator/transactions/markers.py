"""From the decision to its end: markers are written to every partition, then the transaction is complete.

Until then nothing else happens under the id, and whatever fails is tried again: a decision that was answered is carried
out, however often the process dies between.

Source: KIP-98, KIP-890; Kafka's TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler. Two things
differ on purpose. Kafka takes a partition without a leader for a deleted one and completes without its marker; here
only a partition that is not there is left out. And where a partition refuses the epoch, Kafka leaves the transaction in
its Prepare state for good; here that partition is done with, since nobody can ever write this marker to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import CancelTimer, Outcome, SetTimer
from coordinator.transactions.events import TransactionEvent, event, named
from coordinator.transactions.inputs import Completed, RetryMarkers, WriteMarkers
from coordinator.transactions.transaction import LARGEST_EPOCH, PREPARED
from coordinator.transactions.transitions import completed, staged
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.transactions.inputs import MarkersWritten
    from coordinator.transactions.transaction import TopicPartition, Transaction
    from coordinator.transactions.view import TransactionOutcome, View

FIRST_RETRY_MS = 100
LONGEST_RETRY_MS = 10_000

_NONE = ErrorCode.NONE
_NO_MARKERS_THERE = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})


def markers_of(transaction: Transaction) -> WriteMarkers:
    """What the edge is to write: the partitions that still wait."""
    epoch = transaction.producer_epoch
    # The rule of version 2 wants an epoch above the partition's. At the largest there is none, and no transaction of
    # this producer can come after, so the older rule, which takes an equal one, is safe.
    version = 0 if epoch == LARGEST_EPOCH else transaction.client_version
    return WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        epoch,
        transaction.is_committed,
        version,
        transaction.unmarked,
    )


def cancel_retry(transaction: Transaction) -> CancelTimer:
    """Nothing is to be tried again."""
    return CancelTimer(_timer(transaction))


def markers_written(view: View, result: MarkersWritten, now_ms: int) -> TransactionOutcome:
    """Some markers are in. When all are, the end goes to the log."""
    transaction = view.transaction
    if transaction is None or transaction.state not in PREPARED or transaction.pending is not None:
        return Outcome(transaction)
    if (result.producer_id, result.producer_epoch) != (transaction.producer_id, transaction.producer_epoch):
        return Outcome(transaction)  # of a transaction that is long over
    done: set[TopicPartition] = set()
    events: list[TransactionEvent] = []
    delayed: dict[TopicPartition, ErrorCode] = {}
    for partition, error in result.errors.items():
        if partition not in transaction.unmarked:
            continue
        if error is _NONE or error in _NO_MARKERS_THERE or _is_gone(view, partition, error):
            done.add(partition)
        elif error is ErrorCode.INVALID_PRODUCER_EPOCH:
            done.add(partition)
            facts = {"partition": named([partition])[0], "committed": transaction.is_committed}
            events.append(event("marker_abandoned", transaction, now_ms, error=error.name, **facts))
        else:
            delayed[partition] = error
    left = altered(transaction, unmarked=transaction.unmarked - done)
    if not left.unmarked:
        outcome = _complete(view, left, now_ms)
        outcome.events = tuple(events)
        return outcome
    tries = 1 if done else transaction.marker_tries + 1
    if tries & (tries - 1) == 0:  # the 1st, 2nd, 4th, 8th: a log line each, however long it takes
        errors = {named([partition])[0]: error.name for partition, error in sorted(delayed.items())}
        events.append(event("markers_delayed", transaction, now_ms, tries=tries, errors=errors))
    return Outcome(altered(left, marker_tries=tries), timers=(retry_timer(left, tries, now_ms),), events=tuple(events))


def retry_markers(view: View, retry: RetryMarkers, now_ms: int) -> TransactionOutcome:
    """Write those that still wait; or the end, if that is what was refused."""
    transaction = view.transaction
    if transaction is None or transaction.state not in PREPARED or transaction.pending is not None:
        return Outcome(transaction)
    if not transaction.unmarked:
        return _complete(view, transaction, now_ms)
    return Outcome(transaction, work=(markers_of(transaction),))


def retry_timer(transaction: Transaction, tries: int, now_ms: int) -> SetTimer:
    """When to try again after so many refusals in a row."""
    after_ms = min(FIRST_RETRY_MS << min(tries - 1, 10), LONGEST_RETRY_MS)
    return SetTimer(_timer(transaction), now_ms + after_ms, RetryMarkers(transaction.transactional_id))


def _complete(view: View, transaction: Transaction, now_ms: int) -> TransactionOutcome:
    return staged(view, transaction, completed(transaction, view.settings, now_ms), Completed())


def _is_gone(view: View, partition: TopicPartition, error: ErrorCode) -> bool:
    """Whether the partition was deleted: that nobody leads it just now is another matter."""
    if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    topic, index = partition
    count = view.topics.partition_count(topic)
    return count is None or index >= count


def _timer(transaction: Transaction) -> tuple[str, str]:
    return ("markers", transaction.transactional_id)
