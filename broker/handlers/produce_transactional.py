"""What a Produce request with transactional batches wants of the transaction coordinator, and what its answers mean.

Up to version 11 the client has added the partitions itself, and here they are only verified; from 12 on the request
adds them (KIP-890).

Source: Kafka's ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.partitions import Question, RecordsRefused
from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.partitions.table import Key
    from broker.partitions.verification import Permits
    from protocol.messages.produce import ProduceRequest, TopicProduceData

_TRANSACTIONAL = 0x10
_HEADER_BYTES = 61
_ADDS, _KNOWS_ABORTABLE = 12, 11  # Produce versions

# The coordinator could not be asked just now. Kafka answers this, since all clients send the batch again upon it and
# none looks up leaders for it.
_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def has_transactional(request: ProduceRequest) -> bool:
    """Is any batch of the request part of a transaction?"""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            # As `_is_transactional`, without the call.
            if records is not None and len(records) > 22 and records[22] & _TRANSACTIONAL and records[16] == 2:
                return True
    return False


def _is_transactional(records: bytes | bytearray | memoryview | None) -> bool:
    # Attributes are at 21-22 of a batch of magic 2; whatever else this is, is refused later for what it is.
    return records is not None and len(records) > 22 and records[16] == 2 and records[22] & _TRANSACTIONAL != 0


def what_is_wanted(
    request: ProduceRequest, topic_of: Callable[[TopicProduceData], tuple[str, KafkaError | None]]
) -> tuple[dict[Key, int], set[tuple[int, int]]]:
    """The first sequence for each partition that a transaction writes to, and the (producer id, epoch) in use.

    What cannot be appended for another reason is left out: it must not join the transaction. A batch with the
    transactional bit and no producer id is plain data, as in Kafka.
    """
    wanted: dict[Key, int] = {}
    producers: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        name, refusal = topic_of(topic)
        if refusal is not None:
            continue
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < _HEADER_BYTES or not _is_transactional(records):
                continue
            header = read_header(records)
            if header.producer_id < 0 or header.size_bytes != len(records):
                continue
            wanted[name, data.index] = header.base_sequence
            producers.add((header.producer_id, header.producer_epoch))
    return wanted, producers


def question(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    wanted: dict[Key, int],
    done: Callable[[Permits], None],
    version: int,
) -> Question:
    """The question of a request of this version."""
    return Question(
        transactional_id,
        producer_id,
        producer_epoch,
        wanted,
        done,
        add=version >= _ADDS,
        retry=version >= _ADDS,
        abortable=version >= _KNOWS_ABORTABLE,
    )


def for_produce(permits: Permits, version: int) -> Permits:
    """The same, with errors that a producer knows what to do with."""
    return {
        key: _error(permit, version) if isinstance(permit, KafkaError) else permit for key, permit in permits.items()
    }


def _error(error: KafkaError, version: int) -> KafkaError:
    code = error.code
    if code in _PASSING or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS):
        return RecordsRefused(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return error
