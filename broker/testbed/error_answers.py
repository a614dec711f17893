"""The answer to a request that says one error wherever its API has room for one, as Kafka's `getErrorResponse` does.

Nothing of the request is done. The lists of an answer are those of its request under other names.
"""

from __future__ import annotations

from typing import Any

from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.registry import APIS
from protocol.schema.declaration import Struct
from protocol.schema.wire_types import Array

# A list of the answer -> what it is called in the request.
_LISTS = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "results": ("resources", "groups_names", "topics", "users", "deletions", "upsertions", "creations"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
_NAMES = {
    "partition_index": ("partition_index", "partition", "index"),
    "topic_name": ("topic_name", "name"),
    "user": ("name",),
}
_SCALARS = ("name", "key", "group_id", "partition_index", "partition", "partition_id", "transactional_id")
_NO_ERRORS = ("topic_config_error_code",)  # of something else
OF_SESSIONS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}
"""What a whole Fetch is refused with; other errors are those of its partitions."""


def error_answer(api_key: int, request: Any, code: ErrorCode) -> Any:
    """What the request is answered with; None for one that expects no answer (Produce with acks=0)."""
    if api_key == ApiKey.PRODUCE and not request.acks:
        return None
    answer = _mirrored(APIS[api_key].response, request, code)
    if api_key == ApiKey.FETCH and code not in OF_SESSIONS and answer.responses:
        answer.error_code = 0
    return answer


def spoiled(answer: Any, code: ErrorCode) -> Any:
    """A Metadata answer whose topics have this error, and no partitions; clients still learn of the brokers."""
    for topic in answer.topics or ():
        topic.error_code = code
        topic.partitions = []
    return answer


def _mirrored(cls: type[Struct], source: Any, code: ErrorCode) -> Any:
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        wire_type = field.wire_type
        if isinstance(wire_type, Array):
            element = wire_type.element
            if isinstance(element, type) and issubclass(element, Struct) and _has_errors(element):
                values[field.name] = [_mirrored(element, one, code) for one in _list(source, field.name)]
        elif field.name.endswith("error_code") and field.name not in _NO_ERRORS:
            values[field.name] = code
        elif not isinstance(wire_type, type):
            value = _scalar(source, field.name)
            if value is not None:
                values[field.name] = value
    return cls(**values)


def _has_errors(cls: type[Struct]) -> bool:
    for field in cls.FIELDS:
        if field.name.endswith("error_code") and field.name not in _NO_ERRORS:
            return True
        if isinstance(field.wire_type, Array):
            element = field.wire_type.element
            if isinstance(element, type) and issubclass(element, Struct) and _has_errors(element):
                return True
    return False


def _list(source: Any, name: str) -> list[Any]:
    found: list[Any] = []
    for own in _LISTS.get(name, (name,)):
        found += getattr(source, own, None) or ()
    if name == "results":  # AlterReplicaLogDirs asks by directory, and is answered by topic
        found += [topic for directory in getattr(source, "dirs", ()) for topic in directory.topics]
    return found


def _scalar(source: Any, name: str) -> Any:
    if isinstance(source, (str, int)):
        return source if name in _SCALARS else None
    for own in _NAMES.get(name, (name,)):
        value = getattr(source, own, None)
        if value is not None and not isinstance(value, (list, Struct)):
            return value
    return None
