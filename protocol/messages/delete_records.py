"""DeleteRecords: everything before an offset, gone."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, field, message, struct


@struct
class DeleteRecordsPartition(Struct):
    """Where one partition is to begin."""

    partition_index: int = field(Int32)
    offset: int = field(Int64)  # -1: the high watermark


@struct
class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str = field(String)
    partitions: list[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition))


@message(api_key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_from=2)
class DeleteRecordsRequest(Message):
    """Where each partition is to begin. Source: KIP-107."""

    topics: list[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic))
    timeout_ms: int = field(Int32)


@struct
class DeleteRecordsPartitionResult(Struct):
    """Where one partition begins now."""

    partition_index: int = field(Int32)
    low_watermark: int = field(Int64)
    error_code: int = field(Int16)


@struct
class DeleteRecordsTopicResult(Struct):
    name: str = field(String)
    partitions: list[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult))


@message(api_key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_from=2)
class DeleteRecordsResponse(Message):
    """Where each partition begins now."""

    throttle_time_ms: int = field(Int32)
    topics: list[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult))
