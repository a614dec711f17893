"""WriteTxnMarkers: a transaction's end is written to its partitions."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@struct
class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@struct
class WritableTxnMarker(Struct):
    """The end of one producer's transaction."""

    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    transaction_result: bool = field(Bool)  # true: commit
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(Int32)  # leader epoch of the coordinator's partition of `__transaction_state`
    transaction_version: int = field(Int8, since=2)  # decides by which rule the epoch is compared


@message(api_key=ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_from=1)
class WriteTxnMarkersRequest(Message):
    """From a transaction coordinator, or an operator who aborts. Source: KIP-98, KIP-664, KIP-1228."""

    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class WritableTxnMarkerTopicResult(Struct):
    name: str = field(String)
    partitions: list[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult))


@struct
class WritableTxnMarkerResult(Struct):
    producer_id: int = field(Int64)
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


@message(api_key=ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_from=1)
class WriteTxnMarkersResponse(Message):
    """What became of each marker in each partition."""

    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))
