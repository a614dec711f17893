"""Messages of random content, for holding codecs against each other. The same seed gives the same message."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from protocol.registry import APIS
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import Array, Fixed, Sized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.schema import Message, Struct

MESSAGES: list[type[Message]] = [cls for api in APIS.values() for cls in (api.request, api.response)]

_INTEGERS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64}
_TEXTS = ("", "a", "orders", "grüße", "\N{SNOWMAN}" * 3, "x" * 127, "x" * 126, "long " * 60)
# kio makes a datetime, a timedelta or an enum of these, so they stay within what those can hold.
# Moments that Kafka sends as -1 though its definitions have another default: kio does not take it.
_NEVER_BEFORE_0 = {"transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
_TIMES_MS = (-1, 0, 1, 1_700_000_000_123, 32_503_680_000_000)


def versions(cls: type[Message]) -> range:
    """Every version that is declared."""
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


# Kafka 4.4 has a version more than the definitions of kafka-python and kio: `test_transaction_bytes` and
# `test_bytes_of_kafka_4_4` have their bytes.
_NEWER = {
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
}


def elsewhere(cls: type[Message]) -> list[int]:
    """The declared versions that the other codecs have too."""
    return [version for version in versions(cls) if version < _NEWER.get(cls.__name__, version + 1)]


def samples(cls: type[Message], version: int, count: int) -> Iterator[Message]:
    """`count` messages that differ, the first one all defaults; only fields that `version` has are set."""
    yield cls()
    for seed in range(1, count):
        # How much is in it differs from message to message: with few elements more of them are small.
        yield make(random.Random(f"{cls.__name__} v{version} #{seed}"), message_layout(cls, version), seed % 3 + 1)


def make(rng: random.Random, at: Layout, most: int) -> Any:
    """A struct of random content, with at most `most` elements in an array."""
    result = at.cls()
    for field in at.plain + at.tagged:
        if field in at.tagged and rng.random() < 0.4:
            continue  # stays at its default, so that it is left out
        if at.nullable(field) and rng.random() < 0.3:
            setattr(result, field.name, None)
        else:
            setattr(result, field.name, _value(rng, at, field.wire_type, field.name, most))
    return result


def _value(rng: random.Random, at: Layout, wire_type: Any, name: str, most: int) -> Any:
    if isinstance(wire_type, Fixed):
        return _fixed(rng, wire_type, name)
    if isinstance(wire_type, Sized):
        if wire_type.name == "String":
            return rng.choice(_TEXTS)
        return rng.randbytes(rng.choice((0, 1, 126, 127, 128, 300)))
    if isinstance(wire_type, Array):
        # Now and then a count that needs more than one byte of varint.
        count = 130 if rng.random() < 0.02 and isinstance(wire_type.element, Fixed) else rng.randint(0, most)
        return [_value(rng, at, wire_type.element, name, most) for _ in range(count)]
    return make(rng, at.of(wire_type), most)


def _fixed(rng: random.Random, wire_type: Fixed, name: str) -> Any:
    if wire_type.name == "Bool":
        return rng.random() < 0.5
    if wire_type.name == "Uuid":
        return rng.choice((bytes(16), rng.randbytes(16)))
    if name.endswith("error_code"):
        return rng.randint(-1, 120)
    if name.endswith("_ms") and wire_type.name == "Int64":
        return rng.choice(_TIMES_MS[1:] if name in _NEVER_BEFORE_0 else _TIMES_MS)
    if wire_type.name == "UInt16":
        return rng.choice((0, 1, 9092, 65_535))
    if wire_type.name == "Float64":
        return rng.choice((0.0, -0.0, 1.5, -2.25, 1e300, 5e-324))
    bits = _INTEGERS[wire_type.name]
    return rng.choice((0, -1, 1, rng.getrandbits(bits - 1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def attributes(struct: Struct) -> dict[str, Any]:
    """Its fields by name, records as bytes, nested structs too."""
    return {field.name: _plain(getattr(struct, field.name)) for field in struct.FIELDS}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return attributes(value) if hasattr(value, "FIELDS") else value
