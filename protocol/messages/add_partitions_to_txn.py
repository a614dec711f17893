"""AddPartitionsToTxn: partitions join a transaction, or are asked after."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@struct
class AddPartitionsToTxnTopic(Struct):
    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class AddPartitionsToTxnTransaction(Struct):
    """What a broker asks about one transaction."""

    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    verify_only: bool = field(Bool)  # asks whether the partitions are in it, and adds nothing
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic))


@message(api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_from=3)
class AddPartitionsToTxnRequest(Message):
    """Clients send versions 0-3, for one transaction; brokers 4 and up. Source: KIP-98, KIP-588, KIP-890."""

    transactions: list[AddPartitionsToTxnTransaction] = field(Array(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = field(String, until=3)
    v3_and_below_producer_id: int = field(Int64, until=3)
    v3_and_below_producer_epoch: int = field(Int16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), until=3)


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(Int32)
    partition_error_code: int = field(Int16)


@struct
class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(String)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(Array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult(Struct):
    """The results of one transaction."""

    transactional_id: str = field(String)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult))


@message(api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_from=3)
class AddPartitionsToTxnResponse(Message):
    """What became of each partition."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), until=3
    )
