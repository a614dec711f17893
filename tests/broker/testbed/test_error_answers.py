"""The error answer of every API in every version: it fits its version, and says the error where its request asked."""

from typing import Any

import pytest

from broker.catalogue.topics_image import TopicsImage
from broker.handlers.dispatch import HANDLERS
from broker.testbed.error_answers import error_answer
from broker.testbed.plain import about, plain
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.frames import decode_response, encode_response
from protocol.registry import APIS
from protocol.schema.declaration import Struct
from protocol.schema.wire_types import Array

CODE = ErrorCode.NOT_COORDINATOR
# Answered with what there is, spoiled: an empty list of brokers would be the end of a client.
SPOILED = (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS)


def filled(cls: type[Struct], version: int) -> Any:
    """One element in every list that the version has."""
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        if not field.has(version):
            continue
        if isinstance(field.wire_type, Array):
            element = field.wire_type.element
            values[field.name] = [filled(element, version) if isinstance(element, type) else element.default]  # type: ignore[union-attr, arg-type]
        elif field.name == "acks":
            values[field.name] = 1
    return cls(**values)


def codes_in(value: Any) -> list[int]:
    found: list[int] = []
    if isinstance(value, Struct):
        for field in value.FIELDS:
            inner = getattr(value, field.name)
            found += [inner] if field.name.endswith("error_code") else codes_in(inner)
    elif isinstance(value, list):
        for one in value:
            found += codes_in(one)
    return found


@pytest.mark.parametrize("api_key", sorted(set(HANDLERS) - set(SPOILED)), ids=lambda key: APIS[key].name)
def test_an_error_is_where_its_client_looks(api_key: int):
    first, last = APIS[api_key].served
    for version in range(first, last + 1):
        request = filled(APIS[api_key].request, version)
        answer = error_answer(api_key, request, CODE)
        frame = b"".join(bytes(buffer) for buffer in encode_response(api_key, version, 7, answer))
        correlation_id, read = decode_response(api_key, version, frame)
        assert correlation_id == 7
        assert CODE in codes_in(read), version
        plain(request, version, TopicsImage())
        about(request, TopicsImage())


def test_the_partitions_of_an_answer_are_those_of_its_request():
    messages = APIS[ApiKey.OFFSET_COMMIT]
    request = filled(messages.request, 8)
    request.topics[0].name = "orders"
    request.topics[0].partitions[0].partition_index = 5
    (topic,) = error_answer(ApiKey.OFFSET_COMMIT, request, CODE).topics
    assert (topic.name, topic.partitions[0].partition_index, topic.partitions[0].error_code) == ("orders", 5, CODE)


def test_who_expects_no_answer_gets_none():
    request = filled(APIS[ApiKey.PRODUCE].request, 9)
    request.acks = 0
    assert error_answer(ApiKey.PRODUCE, request, CODE) is None
