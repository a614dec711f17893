"""kio's codec, and how its values compare with ours: it has durations, moments, enums and UUIDs where we have numbers.

kio 0.6.5 has every version that is declared here (its definitions are those of Kafka 4.x), so nothing is left out.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.serial import entity_reader, entity_writer

if TYPE_CHECKING:
    from protocol.schema import Message


def entity_class(cls: type[Message], version: int) -> Any:
    """kio's class for one version of a message."""
    api, kind = re.fullmatch(r"(\w+)(Request|Response)", cls.__name__).groups()
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", api).lower()
    module = import_module(f"kio.schema.{snake}.v{version}.{kind.lower()}")
    return getattr(module, cls.__name__)


def read(cls: type[Message], version: int, data: bytes) -> Any:
    """kio's reading of `data`, all of it."""
    entity, size = entity_reader(entity_class(cls, version))(data, 0)
    assert size == len(data), "kio left bytes over"
    return entity


def write(entity: Any) -> bytes:
    """kio's bytes for an entity."""
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def plain(value: Any) -> Any:
    """An entity as the values of its fields in their order, each as it is on the wire."""
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return [plain(element) for element in value]
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    return value
