"""Answers to requests, complete but for what a client of an old version must not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.outcome import Reply
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from coordinator.transactions.inputs import AddPartitions, EndTransaction, InitProducerId, VerifyPartitions
    from coordinator.transactions.transaction import Transaction

_FENCED_KNOWN_SINCE_INIT = 4
_FENCED_KNOWN_SINCE_END = 2


def init_answer(request: InitProducerId, transaction: Transaction) -> Reply:
    """The id and epoch to write with."""
    response = InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return Reply(request.reply_to, response)


def init_refused(request: InitProducerId, error: ErrorCode) -> Reply:
    """Clients before KIP-588 know a fenced producer under another code."""
    if error is ErrorCode.PRODUCER_FENCED and request.version < _FENCED_KNOWN_SINCE_INIT:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return Reply(request.reply_to, InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))


def end_answer(request: EndTransaction, transaction: Transaction) -> Reply:
    """The decision holds; the id and epoch are those of the next transaction."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    if transaction.next_producer_id != -1:
        producer_id, epoch = transaction.next_producer_id, 0
    return Reply(request.reply_to, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))


def end_refused(request: EndTransaction, error: ErrorCode) -> Reply:
    """Clients before KIP-588 know a fenced producer under another code."""
    if error is ErrorCode.PRODUCER_FENCED and request.version < _FENCED_KNOWN_SINCE_END:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return Reply(request.reply_to, EndTxnResponse(error_code=error))


def partitions_answer(request: AddPartitions | VerifyPartitions, error: ErrorCode) -> Reply:
    """The same for all partitions. What old clients are told is the business of whoever asked."""
    return Reply(request.reply_to, dict.fromkeys(request.partitions, error))
