"""Everything that can happen to a transactional id, one value per cause; and what the edge is asked to do for it.

A request that needs a producer id that nobody has taken yet comes back from a rule as `TakeProducerId`, and is fed
again with `fresh_id` filled in: a rule gives no ids out, and none is taken that is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from coordinator.outcome import AppendToken, Input, ReplyTo, Work
from coordinator.transactions.transaction import TopicPartition
from protocol.errors import ErrorCode


class TransactionInput(Input):
    """Something that happens to one transactional id."""

    __slots__ = ()
    transactional_id: str

    def __init_subclass__(cls) -> None:
        slots = vars(cls)
        if "transactional_id" in slots.get("__slots__", ()):
            type.__setattr__(cls, "key", slots["transactional_id"])


@dataclass(slots=True)
class InitProducerId(TransactionInput):
    """InitProducerId. Answered with an `InitProducerIdResponse`."""

    transactional_id: str
    timeout_ms: int
    producer_id: int  # with `producer_epoch` what the client has; both -1: nothing yet
    producer_epoch: int
    version: int
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""
    enable_2pc: bool = False
    keep_prepared: bool = False
    fresh_id: int | None = None
    fresh_error: ErrorCode = ErrorCode.NONE  # no id could be had


@dataclass(slots=True)
class AddPartitions(TransactionInput):
    """AddPartitionsToTxn, AddOffsetsToTxn, or what a broker adds in a client's name.

    Answered with the error of each partition, a `dict[TopicPartition, ErrorCode]`; all partitions have the same.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int  # the transaction version that the request shows: 0 from clients, 2 from brokers
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class VerifyPartitions(TransactionInput):
    """Are these partitions in the transaction? Answered with the error of each, a `dict[TopicPartition, ErrorCode]`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    reply_to: ReplyTo


@dataclass(slots=True)
class EndTransaction(TransactionInput):
    """EndTxn. Answered with an `EndTxnResponse`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""
    fresh_id: int | None = None
    fresh_error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class TransactionTimedOut(TransactionInput):
    """The timer `("transaction", id)` fired: the transaction that began then is open for longer than it may be."""

    transactional_id: str
    start_ms: int
    fresh_id: int | None = None
    fresh_error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class MarkersWritten(TransactionInput):
    """What became of a `WriteMarkers`: the error of each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(slots=True)
class RetryMarkers(TransactionInput):
    """The timer `("markers", id)` fired: try again what was refused, markers or the record that ends it all."""

    transactional_id: str


@dataclass(slots=True)
class DescribeTransaction(TransactionInput):
    """One id of a DescribeTransactions. Answered with a `DescribedTransaction`."""

    transactional_id: str
    reply_to: ReplyTo


@dataclass(slots=True)
class ExpireTransactionalId(TransactionInput):
    """The check for ids that nobody has used for long comes to this one."""

    transactional_id: str


@dataclass(slots=True)
class TransactionLoaded(TransactionInput):
    """The id was read from the log and is served from now on. Feed it once for every loaded one."""

    transactional_id: str


@dataclass(slots=True)
class Unload(TransactionInput):
    """This broker gives the id's partition up."""

    transactional_id: str


Fresh = InitProducerId | EndTransaction | TransactionTimedOut
"""The inputs that may need a new producer id."""


@dataclass(slots=True)
class TakeProducerId(Work):
    """Take a producer id, put it (or why there is none) into the input, and feed that again."""

    event: Fresh


@dataclass(slots=True)
class WriteMarkers(Work):
    """Write the end of a transaction to these partitions. The result comes back as `MarkersWritten`, once for all.

    `transaction_version` decides by which rule a partition compares epochs. No partitions: the result comes at once.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


# What an outcome needs to know again when its records are committed or refused. The state that they lead to is in
# `Transaction.pending`.


@dataclass(slots=True)
class Transition(AppendToken):
    """A change of state is on its way to the log. Success is an input too."""

    resumes: ClassVar[bool] = True


@dataclass(slots=True)
class Initialized(Transition):
    """The producer has a new epoch."""

    request: InitProducerId


@dataclass(slots=True)
class Added(Transition):
    """Partitions are in the transaction."""

    request: AddPartitions


@dataclass(slots=True)
class Decided(Transition):
    """The transaction is to be committed or aborted."""

    request: EndTransaction | InitProducerId | None  # None: it timed out


@dataclass(slots=True)
class Completed(Transition):
    """All markers are written."""


@dataclass(slots=True)
class Expired(Transition):
    """The id is forgotten."""
