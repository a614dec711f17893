"""DeleteTopics: topics and all that is in them, gone."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.schema import Array, Int16, Int32, Message, Nullable, String, Struct, Uuid, field, message, struct


@struct
class DeleteTopicState(Struct):
    """A topic by its name or its id."""

    name: str | None = field(Nullable(String), default=None)
    topic_id: bytes = field(Uuid)


@message(api_key=ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_from=4)
class DeleteTopicsRequest(Message):
    """Topics to delete: by name, from version 6 on by name or id. Source: KIP-4, KIP-516, KIP-599."""

    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), since=6)
    topic_names: list[str] = field(Array(String), until=5)
    timeout_ms: int = field(Int32)


@struct
class DeletableTopicResult(Struct):
    """Whether one topic is gone."""

    name: str | None = field(String, nullable_since=6)
    topic_id: bytes = field(Uuid, since=6)
    error_code: int = field(Int16)
    error_message: str | None = field(Nullable(String), since=5, default=None)


@message(api_key=ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_from=4)
class DeleteTopicsResponse(Message):
    """What became of each topic."""

    throttle_time_ms: int = field(Int32)
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult))
