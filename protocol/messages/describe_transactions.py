"""DescribeTransactions: the state of transactional ids."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@message(api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_from=0)
class DescribeTransactionsRequest(Message):
    """Which transactional ids to describe. Source: KIP-664."""

    transactional_ids: list[str] = field(Array(String))


@struct
class DescribeTransactionsTopicData(Struct):
    """Partitions of one topic that are in the transaction."""

    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class DescribedTransaction(Struct):
    """One transactional id. The start is -1 when no transaction has begun."""

    error_code: int = field(Int16)
    transactional_id: str = field(String)
    transaction_state: str = field(String)
    transaction_timeout_ms: int = field(Int32)
    transaction_start_time_ms: int = field(Int64)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    topics: list[DescribeTransactionsTopicData] = field(Array(DescribeTransactionsTopicData))


@message(api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_from=0)
class DescribeTransactionsResponse(Message):
    """The transactional ids that were asked for."""

    throttle_time_ms: int = field(Int32)
    transaction_states: list[DescribedTransaction] = field(Array(DescribedTransaction))
