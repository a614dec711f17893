"""Values as JSON has them, both ways."""

from __future__ import annotations

import inspect
from base64 import b64decode, b64encode
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def plain(value: Any) -> Any:
    """As JSON has it: bytes are text, or `{"base64": ...}` if they are no UTF-8; offsets of partitions are a list."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        if value and all(isinstance(key, tuple) for key in value):
            return [{"topic": topic, "partition": index, "offset": at} for (topic, index), at in sorted(value.items())]
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (set, frozenset)):
        return [{"topic": topic, "partition": index} for topic, index in sorted(value)]
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def data(value: Any) -> Any:
    """A key or a value that is to be written or expected: `{"base64": ...}` are bytes, anything else is what it is."""
    if isinstance(value, dict) and set(value) == {"base64"}:
        try:
            return b64decode(value["base64"], validate=True)
        except (TypeError, ValueError):
            raise Refused(f"{value}: that is no base64") from None
    return value


def expected(value: Any) -> Any:
    """An expected record: its value, or `{"key": ..., "value": ...}`."""
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        return data(value["key"]), data(value["value"])
    return data(value)


def called(name: str, function: Callable[..., Any], words: Mapping[str, Any]) -> Any:
    """`function` with these arguments. Raises: Refused, which tells what it takes."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(**words)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "nothing"
        raise Refused(f"{name}: {error}; it takes {takes}") from None
    try:
        return function(*bound.args, **bound.kwargs)
    except (TypeError, AttributeError) as error:
        raise Refused(f"{name}: an argument is of the wrong kind: {error}") from None
