"""The states that a transactional id can move to, as whole values, and their records.

Each function gives the state that will be; `staged` sends it on its way to the log. None of them looks at whether the
move is right: that is said by the rule that calls it.

Source: Kafka's TransactionMetadata.prepare*, TransactionLog.valueToBytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Outcome
from coordinator.transactions.transaction import (
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    REACHED_FROM,
    Ending,
    Transaction,
    TransactionState,
)
from coordinator.values import altered
from protocol.records.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    VersionedValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.transactions.inputs import Transition
    from coordinator.transactions.transaction import TopicPartition
    from coordinator.transactions.view import TransactionOutcome, TransactionSettings, View

_NOTHING: frozenset[TopicPartition] = frozenset()


def staged(view: View, before: Transaction, then: Transaction, token: Transition) -> TransactionOutcome:
    """`then` goes to the log; until it is there, `before` holds, and nothing else is begun."""
    assert before.pending is None
    assert before.state in REACHED_FROM[then.state], f"{before.state.name} does not lead to {then.state.name}"
    dead = then.state is TransactionState.DEAD
    value = None if dead else record_of(then, view.settings)
    records = ((TransactionLogKey(before.transactional_id), value),)
    return Outcome(altered(before, pending=then), records, token=token)


def initialized(
    transaction: Transaction,
    settings: TransactionSettings,
    now_ms: int,
    *,
    timeout_ms: int,
    epoch: int,
    last_epoch: int,
) -> Transaction:
    """Empty, for a producer with this epoch. `last_epoch`: the one that the same producer had before."""
    return _after(
        transaction,
        settings,
        transaction.client_version,
        state=TransactionState.EMPTY,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=_NOTHING,
        start_ms=-1,
        last_update_ms=now_ms,
    )


def rotated(
    transaction: Transaction,
    settings: TransactionSettings,
    now_ms: int,
    *,
    timeout_ms: int,
    new_id: int,
    last_epoch: int,
) -> Transaction:
    """Empty, for a producer with a new id, since the epochs of the old one are used up."""
    empty = initialized(transaction, settings, now_ms, timeout_ms=timeout_ms, epoch=0, last_epoch=last_epoch)
    return altered(empty, producer_id=new_id)


def with_partitions(
    transaction: Transaction,
    settings: TransactionSettings,
    now_ms: int,
    partitions: frozenset[TopicPartition],
    client_version: int,
) -> Transaction:
    """Ongoing, with these partitions too. The clock starts with the first of them."""
    goes_on = transaction.state is TransactionState.ONGOING
    return _after(
        transaction,
        settings,
        client_version,
        state=TransactionState.ONGOING,
        partitions=transaction.partitions | partitions,
        start_ms=transaction.start_ms if goes_on else now_ms,
        last_update_ms=now_ms,
    )


def decided(
    transaction: Transaction,
    settings: TransactionSettings,
    now_ms: int,
    *,
    committed: bool,
    client_version: int,
    epoch: int,
    last_epoch: int,
    ending: Ending,
    next_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """PrepareCommit or PrepareAbort, for markers with this epoch. From here on there is no way back.

    An abort with nothing open, which clients of version 2 send when they are in doubt, counts as begun now.
    """
    is_open = transaction.state is TransactionState.ONGOING
    return _after(
        transaction,
        settings,
        client_version,
        state=TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_id,
        start_ms=transaction.start_ms if is_open else now_ms,
        last_update_ms=now_ms,
        ending=ending,
    )


def decided_with_bump(
    transaction: Transaction,
    settings: TransactionSettings,
    now_ms: int,
    *,
    committed: bool,
    ending: Ending,
    next_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """As `decided`, by the rules of KIP-890: the epoch rises once, whoever ends it, and never past the largest.

    `next_id` is needed when the epoch is exhausted: the next transaction goes on under it with epoch 0.
    """
    epoch = transaction.producer_epoch
    return decided(
        transaction,
        settings,
        now_ms,
        committed=committed,
        client_version=2,
        epoch=min(epoch + 1, LARGEST_EPOCH),
        last_epoch=epoch,
        ending=ending,
        next_id=next_id,
    )


def fenced(transaction: Transaction, settings: TransactionSettings, now_ms: int, ending: Ending) -> Transaction:
    """PrepareAbort by the rules before KIP-890: the epoch rises so that the producer of the old one is shut out.

    Its last epoch is forgotten: whoever comes with it is not the one who asks again.
    """
    return decided(
        transaction,
        settings,
        now_ms,
        committed=False,
        client_version=0,
        epoch=min(transaction.producer_epoch + 1, LARGEST_EPOCH),
        last_epoch=NO_EPOCH,
        ending=ending,
    )


def completed(transaction: Transaction, settings: TransactionSettings, now_ms: int) -> Transaction:
    """CompleteCommit or CompleteAbort, under the next producer id where the Prepare named one."""
    state = TransactionState.COMPLETE_COMMIT if transaction.is_committed else TransactionState.COMPLETE_ABORT
    changed = _after(
        transaction,
        settings,
        transaction.client_version,
        state=state,
        partitions=_NOTHING,
        unmarked=_NOTHING,
        marker_tries=0,
        next_producer_id=NO_PRODUCER_ID,
        last_update_ms=now_ms,
    )
    next_id = transaction.next_producer_id
    if next_id == NO_PRODUCER_ID:
        return changed
    # The last epoch stays what the client last saw under the old id.
    return altered(changed, producer_id=next_id, producer_epoch=0)


def dead(transaction: Transaction) -> Transaction:
    """Forgotten."""
    return altered(transaction, state=TransactionState.DEAD)


def _after(
    transaction: Transaction, settings: TransactionSettings, client_version: int, **changes: object
) -> Transaction:
    # A record of version 0 has no room for it. What is kept must be what is written, also after a downgrade.
    client_version = client_version if settings.value_version else 0
    previous = transaction.producer_id
    return altered(transaction, previous_producer_id=previous, client_version=client_version, **changes)


def record_of(transaction: Transaction, settings: TransactionSettings) -> VersionedValue:
    """The value that says so in the log."""
    version = settings.value_version
    empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    return VersionedValue(version, value)


def from_record(transactional_id: str, versioned: VersionedValue) -> Transaction:
    """What a record says: all that a coordinator knows when it has loaded its log.

    Raises: ValueError for a status that is none, or that no log holds.
    """
    value = versioned.value
    state = TransactionState(value.transaction_status)
    if state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise ValueError(f"{state.title} is never written")
    partitions = frozenset(
        (of_topic.topic, partition)
        for of_topic in value.transaction_partitions or ()
        for partition in of_topic.partition_ids
    )
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
