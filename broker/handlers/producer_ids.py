"""InitProducerId: an id for a producer that wants each batch written once, or to write in transactions.

Source: KIP-98, KIP-360; Kafka's KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.authorizer import Operation, ResourceType, authorize, authorize_on_any, probe
from broker.handlers.context import Deferred
from coordinator.transactions.inputs import InitProducerId
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from protocol.messages.init_producer_id import InitProducerIdRequest


def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Deferred:
    """The id and epoch of a transactional id; without one a new id with epoch 0.

    The pair that a plain producer sends along is only checked for being whole.
    """
    tid = request.transactional_id
    if tid is not None:
        if not authorize(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, tid) or (
            request.enable_2pc
            and not authorize(context, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, tid)
        ):
            return _error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        probe(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        or authorize_on_any(context, Operation.WRITE, ResourceType.TOPIC)
        or authorize(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    ):
        return _error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _error(ErrorCode.INVALID_REQUEST)
    deferred = Deferred()
    if tid is not None:
        broker.transactions.leader_of(tid).submit(
            InitProducerId(
                tid,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
                context.version,
                deferred,
                context.client_id,
                context.client_host,
                request.enable_2pc,
                request.keep_prepared_txn,
            )
        )
        return deferred

    def answer(producer_id: int, error: ErrorCode) -> None:
        if error:
            # Kafka too answers "loading" when it has no id in hand: every client asks again.
            deferred.complete(_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            deferred.complete(InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0))

    broker.producer_ids.next(answer)
    return deferred


def _error(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
