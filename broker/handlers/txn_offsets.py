"""TxnOffsetCommit: a consumer group's offsets in a producer's transaction.

Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize, authorize_by_name
from broker.handlers.context import Deferred
from coordinator.offsets.commit import all_partitions
from coordinator.offsets.inputs import CommitTransactionalOffsets
from coordinator.offsets.topic_filter import filter_commit
from coordinator.offsets.transactional import KIP_1319_SINCE
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

_KNOWS_LOADING = 2


def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Deferred:
    """Store offsets that count when the transaction commits. Topics that cannot be are answered here, as for others."""
    version, group_id, transactional_id = context.version, request.group_id, request.transactional_id
    answer = _Answer(version)
    commit = CommitTransactionalOffsets(
        group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        _topics(request),
        version,
        -1,
        answer,
        (),
        context.client_id,
        context.client_host,
        request.producer_id,
        request.producer_epoch,
    )
    error = ErrorCode.NONE
    if not authorize(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorize(context, Operation.READ, ResourceType.GROUP, group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if error:
        return _response(all_partitions(commit, error), version)
    commit.topics, commit.refused = filter_commit(
        commit.topics,
        broker.catalogue.image,
        authorize_by_name(context, Operation.READ, ResourceType.TOPIC),
        by_id=version >= KIP_1319_SINCE,
    )
    if not commit.topics:
        return _response(OffsetCommitResponse(topics=commit.refused), version)
    broker.group_transactions.commit(commit, transactional_id)
    return answer.deferred


def _topics(request: TxnOffsetCommitRequest) -> list[OffsetCommitRequestTopic]:
    return [
        OffsetCommitRequestTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    committed_metadata=partition.committed_metadata,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


class _Answer:
    """Where the group's answer goes, to become that of this API."""

    __slots__ = ("_version", "deferred")

    def __init__(self, version: int) -> None:
        self._version = version
        self.deferred = Deferred()

    def complete(self, response: OffsetCommitResponse) -> None:
        self.deferred.complete(_response(response, self._version))


def _response(response: OffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_known_to(version, partition.error_code),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in response.topics
        ]
    )


def _known_to(version: int, code: int) -> int:
    # Producers before version 2 take "loading" for a fatal error (KAFKA-7296).
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
