"""Records as a test sees them, and how what there is differs from what was expected."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from difflib import ndiff
from typing import TYPE_CHECKING, Any

from kohort.testing.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

Data = bytes | str | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value, as UTF-8."""
        return (self.value or b"").decode()

    @property
    def json(self) -> Any:
        """The value, read as JSON."""
        return json.loads(self.value or b"null")


def as_bytes(data: Any, what: str) -> bytes | None:
    """Text is UTF-8; lists, dicts and numbers are JSON. Raises: Refused for what is none of these."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    if isinstance(data, str):
        return data.encode()
    try:
        return json.dumps(data).encode()
    except TypeError:
        raise Refused(f"{what}={data!r}: it takes bytes, text, None, or what JSON has") from None


def sent(data: bytes | None) -> str | None:
    """As the control channel has bytes."""
    return None if data is None else b64encode(data).decode()


def received(topic: str, told: dict[str, Any]) -> Record:
    """A record that the broker has told of."""
    key, value = told["key"], told["value"]
    return Record(
        topic,
        told["partition"],
        told["offset"],
        told["timestamp_ms"],
        None if key is None else b64decode(key),
        None if value is None else b64decode(value),
        tuple((name, None if data is None else b64decode(data)) for name, data in told["headers"]),
    )


def difference(topic: str, records: Sequence[Record], expected: Sequence[Any]) -> str | None:
    """What is missing and what is too much, line by line; None when `records` are what is expected.

    An expected one is a value, or a pair (key, value). What is neither bytes nor text is compared as JSON. Records of
    several partitions have no order among each other: they are compared in any.
    """
    found = [_comparable(record, want) for record, want in zip(records, _padded(expected, len(records)), strict=True)]
    wanted = list(expected)
    if len({record.partition for record in records}) > 1:
        found, wanted = _in_any_order(records, expected)
    if found == [_plain(want) for want in wanted]:
        return None
    lines = ndiff([_line(_plain(want)) for want in wanted], [_line(one) for one in found])
    table = "\n".join(f"  {line}" for line in lines if not line.startswith("?"))
    return f"{topic} does not hold what was expected (-: missing, +: not expected):\n{table}"


def _padded(expected: Sequence[Any], count: int) -> list[Any]:
    model = expected[-1] if expected else b""
    return [*expected[:count], *[model] * (count - len(expected))]


def _in_any_order(records: Sequence[Record], expected: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Both sides, those that agree in the same places."""
    left = list(records)
    found, wanted = [], []
    for want in expected:
        for record in left:
            if _comparable(record, want) == _plain(want):
                left.remove(record)
                found.append(_plain(want))
                wanted.append(want)
                break
    missing = list(expected)
    for want in wanted:
        missing.remove(want)
    model = expected[-1] if expected else b""
    return found + [_comparable(record, model) for record in left], wanted + missing


def _comparable(record: Record, like: Any) -> Any:
    """A record in the shape of what is expected."""
    if isinstance(like, tuple):
        return (_value(record.key, like[0]), _value(record.value, like[1]))
    return _value(record.value, like)


def _value(data: bytes | None, like: Any) -> Any:
    if data is None or like is None or isinstance(like, bytes):
        return data
    try:
        return data.decode() if isinstance(like, str) else json.loads(data)
    except ValueError:
        return data


def _plain(want: Any) -> Any:
    if isinstance(want, tuple) and len(want) != 2:
        raise Refused(f"{want!r}: an expected record is its value, or a pair (key, value)")
    return want


def _line(one: Any) -> str:
    if isinstance(one, tuple):
        return f"{_line(one[0])} -> {_line(one[1])}"
    return json.dumps(one, sort_keys=True) if isinstance(one, (dict, list)) else repr(one)
