"""ListPartitionReassignments: the moves of replicas that are under way."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, Nullable, String, Struct, field, message, struct


@struct
class ListPartitionReassignmentsTopics(Struct):
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@message(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_from=0)
class ListPartitionReassignmentsRequest(Message):
    """Partitions whose moves are wanted; null is all. Source: KIP-455."""

    timeout_ms: int = field(Int32, default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Nullable(Array(ListPartitionReassignmentsTopics)), default=None
    )


@struct
class OngoingPartitionReassignment(Struct):
    """The move of one partition."""

    partition_index: int = field(Int32)
    replicas: list[int] = field(Array(Int32))
    adding_replicas: list[int] = field(Array(Int32))
    removing_replicas: list[int] = field(Array(Int32))


@struct
class OngoingTopicReassignment(Struct):
    """The moves of one topic."""

    name: str = field(String)
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


@message(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_from=0)
class ListPartitionReassignmentsResponse(Message):
    """The moves that are under way."""

    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String))
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))
