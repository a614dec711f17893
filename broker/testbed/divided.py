"""An error for the partitions that a fault means, while the rest of their request is handled as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.testbed.acts import later
from broker.testbed.error_answers import error_answer
from broker.testbed.plain import partition_of, topic_of
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.catalogue.topics_image import TopicsImage
    from broker.handlers.context import Deferred
    from broker.testbed.acts import Act, Call
    from protocol.errors import ErrorCode
    from protocol.schema.declaration import Struct

_USUAL = ("topics", "partitions", "topics", "partitions")
APIS = {
    ApiKey.PRODUCE: ("topic_data", "partition_data", "responses", "partition_responses"),
    ApiKey.FETCH: ("topics", "partitions", "responses", "partitions"),
    ApiKey.LIST_OFFSETS: _USUAL,
    ApiKey.OFFSET_COMMIT: _USUAL,
    ApiKey.TXN_OFFSET_COMMIT: _USUAL,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _USUAL,
    ApiKey.DELETE_RECORDS: _USUAL,
}
"""The lists of topics and of their partitions, in the request and in its answer."""


def error(api_key: ApiKey, code: ErrorCode, means: Callable[[str, int], bool]) -> Act:
    """Answer `code` for the partitions that are meant: nothing is done of what is asked of them."""

    def begin(call: Call, promise: Deferred) -> None:
        meant = _part(api_key, call.request, call.image, means)
        rest = _part(api_key, call.request, call.image, lambda topic, index: not means(topic, index))
        refused = error_answer(api_key, meant, code)
        if not getattr(rest, APIS[api_key][0]):
            promise.complete(refused)
            return
        if api_key == ApiKey.FETCH:
            rest.max_wait_ms = 0  # an error is told at once
        call.request = rest
        call.handle_later(promise, lambda answer: promise.complete(_joined(api_key, answer, refused)))

    return later(begin)


def _part(api_key: ApiKey, request: Any, image: TopicsImage, wanted: Callable[[str, int], bool]) -> Any:
    """The request for these partitions alone."""
    of_topics, of_partitions, _, _ = APIS[api_key]
    topics = []
    for topic in getattr(request, of_topics):
        name = topic_of(topic, image)
        entries = [one for one in getattr(topic, of_partitions) if wanted(name, partition_of(one))]
        if entries:
            topics.append(_but(topic, of_partitions, entries))
    return _but(request, of_topics, topics)


def _but(of: Struct, name: str, value: Any) -> Any:
    """A copy with one field changed."""
    return type(of)(**{field.name: getattr(of, field.name) for field in of.FIELDS} | {name: value})


def _joined(api_key: ApiKey, answer: Any, refused: Any) -> Any:
    """One answer of two; whoever expects none gets none."""
    _, _, of_topics, of_partitions = APIS[api_key]
    topics = getattr(answer, of_topics, None)
    if topics is None:
        return answer
    known = {_known_by(topic): topic for topic in topics}
    joined = [*topics]
    for topic in getattr(refused, of_topics):
        twin = known.get(_known_by(topic))
        if twin is None:
            joined.append(topic)
        else:
            setattr(twin, of_partitions, [*getattr(twin, of_partitions), *getattr(topic, of_partitions)])
    setattr(answer, of_topics, joined)
    return answer


def _known_by(topic: Any) -> Any:
    topic_id = getattr(topic, "topic_id", b"")
    return topic_id if any(topic_id) else getattr(topic, "name", None) or getattr(topic, "topic", None)
