"""A message as JSON has it, and what of it a test asks for: topics, partitions, groups, transactional ids."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.schema.declaration import Struct
from protocol.schema.wire_types import Array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.catalogue.topics_image import TopicsImage

_TOPIC_LISTS = ("topics", "topic_data", "v3_and_below_topics", "topic_partitions")
_PARTITION_LISTS = ("partitions", "partition_data", "partition_indexes")
_PARTITION_NAMES = ("partition_index", "partition", "index")
_GROUP_LISTS = ("groups", "group_ids", "groups_names")
_INNER_LISTS = ("groups", "transactions", "markers", "dirs")


def plain(value: Any, version: int, image: TopicsImage) -> Any:
    """What its version has, bytes as base64, record data as its size, a topic id as Kafka prints it, with its name."""
    if isinstance(value, Struct):
        found = {
            field.name: _topic_id(getattr(value, field.name))
            if field.name == "topic_id"
            else plain(getattr(value, field.name), version, image)
            for field in value.FIELDS
            if field.has(version)
        }
        if "topic_id" in found:
            found.setdefault("name", image.topic_name(value.topic_id))  # type: ignore[attr-defined]  # it has one
        return found
    if isinstance(value, (list, tuple)):
        return [plain(one, version, image) for one in value]
    if isinstance(value, (bytearray, memoryview)):
        return {"bytes": len(value)}
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _topic_id(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")


class About(NamedTuple):
    """What a request is about."""

    partitions: set[tuple[str, int | None]]  # None: the whole topic
    groups: set[str]
    transactional_ids: set[str]


def about(request: Any, image: TopicsImage) -> About:
    """What a request is about."""
    found = About(set(), set(), set())
    _look(request, image, found)
    return found


def _look(part: Any, image: TopicsImage, found: About) -> None:
    for name in ("group_id", *_GROUP_LISTS):
        value = getattr(part, name, None)
        found.groups.update(
            value for value in (value if isinstance(value, list) else [value]) if isinstance(value, str)
        )
    for name in ("transactional_id", "v3_and_below_transactional_id", "transactional_ids"):
        value = getattr(part, name, None)
        found.transactional_ids.update(one for one in (value if isinstance(value, list) else [value]) if one)
    if hasattr(part, "key_type"):  # FindCoordinator
        keys = found.transactional_ids if part.key_type else found.groups
        keys.update(key for key in [part.key, *part.coordinator_keys] if key)
    for name in _TOPIC_LISTS:
        for topic in getattr(part, name, None) or ():
            found.partitions.update(_partitions(topic, image))
    for name in _INNER_LISTS:
        for inner in getattr(part, name, None) or ():
            if isinstance(inner, Struct):
                _look(inner, image, found)


def _partitions(topic: Any, image: TopicsImage) -> Iterator[tuple[str, int | None]]:
    name = topic_of(topic, image)
    yield name, None
    for field in getattr(topic, "FIELDS", ()):
        if field.name in _PARTITION_LISTS and isinstance(field.wire_type, Array):
            for entry in getattr(topic, field.name) or ():
                yield name, partition_of(entry)


def topic_of(topic: Any, image: TopicsImage) -> str:
    """The name of a topic in a request, which may know it by its id; empty for an id that nothing has."""
    name: str = getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
    if not name and hasattr(topic, "topic_id"):
        name = image.topic_name(topic.topic_id) or ""
    return name


def partition_of(entry: Any) -> int:
    """The partition that an entry of a topic is about."""
    return (
        entry if isinstance(entry, int) else next(getattr(entry, at) for at in _PARTITION_NAMES if hasattr(entry, at))
    )
