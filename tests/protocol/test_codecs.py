"""Every message in every version: compiled codec, construct schema, Kafka's definitions and kio say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from protocol.schema.layout import message_layout
from protocol.schema.reference import TAGGED_FIELDS, plain
from tests.protocol import kio_codec
from tests.protocol.kafka_definitions import Codec, default, definition, in_range, is_shipped
from tests.protocol.values import MESSAGES, attributes, elsewhere, samples, versions

if TYPE_CHECKING:
    from protocol.schema import Message, Struct
    from protocol.schema.layout import Layout

SAMPLES = 24

every_message = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
every_shipped_message = pytest.mark.parametrize(
    "cls", [cls for cls in MESSAGES if is_shipped(cls.__name__)], ids=lambda cls: cls.__name__
)


# Kafka 4.4 has another name for the same field.
RENAMED = {"generationid": "generation_id_or_member_epoch"}


def test_kafkas_definition_is_there_but_for_the_newest() -> None:
    """Those are compared with kio alone."""
    missing = {cls.__name__.removesuffix("Request") for cls in MESSAGES if not is_shipped(cls.__name__)}
    assert {name for name in missing if not name.endswith("Response")} <= {
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
        "DescribeQuorum",
        "UnregisterBroker",
        "ListConfigResources",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    }


@every_shipped_message
def test_versions_key_and_defaults_are_those_of_kafkas_definition(cls: type[Message]) -> None:
    """The declared ranges are Kafka's whole ranges, and a message that says nothing says what Kafka's would."""
    ours = definition(cls.__name__)
    declared = range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)

    assert ours["apiKey"] == cls.API_KEY
    assert [v for v in range(100) if in_range(v, ours["validVersions"])] == elsewhere(cls)
    assert [cls.flexible(v) for v in declared] == [in_range(v, ours["flexibleVersions"]) for v in declared]
    for field in ours["fields"]:
        name = attribute(cls, field["name"])
        if name is not None:
            value = getattr(cls(), name)
            expected = default(field)
            if isinstance(expected, dict):
                expected = {attribute(type(value), inner): v for inner, v in expected.items()}
                assert attributes(value) == expected
            else:
                assert value == expected, name


@every_shipped_message
def test_bytes_are_those_of_kafkas_definition(cls: type[Message]) -> None:
    """Encoded alike, and decoded to the same values, by an interpreter of Kafka's JSON files."""
    for version in elsewhere(cls):
        codec = Codec(cls.__name__, version)
        for message in samples(cls, version, SAMPLES):
            values = in_kafkas_names(message, codec.definition["fields"], codec.common)
            data = codec.encode(values)

            assert message.encode(version) == data
            assert in_kafkas_names(cls.decode(version, data), codec.definition["fields"], codec.common) == codec.decode(
                data
            )


@every_message
def test_a_decoded_message_is_the_encoded_one(cls: type[Message]) -> None:
    """And it has every attribute, those that the version lacks with their defaults."""
    for version in versions(cls):
        for message in samples(cls, version, SAMPLES):
            decoded = cls.decode(version, message.encode(version))

            assert decoded == message
            assert attributes(decoded) == attributes(message)


@every_message
def test_bytes_are_those_of_the_construct_schema(cls: type[Message]) -> None:
    """The schema builds what the compiled encoder does, and parses what the compiled decoder does."""
    for version in versions(cls):
        schema = cls.schema(version)
        at = message_layout(cls, version)
        for message in samples(cls, version, SAMPLES // 3):
            data = message.encode(version)

            assert schema.build(plain(message)) == data
            assert from_container(at, schema.parse(data)) == attributes(cls.decode(version, data))


@every_message
def test_bytes_are_those_of_kio(cls: type[Message]) -> None:
    """kio reads the same values, and writes the same bytes for them."""
    for version in elsewhere(cls):
        at = message_layout(cls, version)
        for message in samples(cls, version, SAMPLES):
            data = message.encode(version)
            entity = kio_codec.read(cls, version, data)

            assert without_kios_nulls(kio_codec.plain(entity), in_order(at, message)) == in_order(at, message)
            assert kio_codec.write(entity) == data


def attribute(cls: type[Struct], kafka_name: str) -> str | None:
    """Our name of a field; None where no declared version has it."""
    ours = {field.name.replace("_", ""): field.name for field in cls.FIELDS}
    name = kafka_name.lower()
    return ours.get(name) or (RENAMED.get(name) if RENAMED.get(name) in ours.values() else None)


Fields = list[dict[str, Any]]


def in_kafkas_names(struct: Struct, fields: Fields, common: dict[str, Fields]) -> dict[str, Any]:
    """Its values as the interpreter has them; a field that no declared version has, has its default.

    `common`: the fields of the structs that a definition uses in several places, by their names.
    """
    values = {}
    for field in fields:
        name = attribute(type(struct), field["name"])
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
        values[field["name"]] = default(field) if name is None else named(getattr(struct, name), inner, common)
    return values


def named(value: Any, fields: Fields, common: dict[str, Fields]) -> Any:
    if isinstance(value, list):
        return [named(element, fields, common) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return in_kafkas_names(value, fields, common) if hasattr(value, "FIELDS") else value


def from_container(at: Layout, container: Any) -> dict[str, Any]:
    """What construct parsed, with defaults for what is not in it."""
    values = {}
    for field in at.cls.FIELDS:
        source = container[TAGGED_FIELDS] if field in at.tagged else container
        if field in at.absent or field.name not in source:
            value = field.default_value()
            values[field.name] = attributes(value) if hasattr(value, "FIELDS") else value
        else:
            values[field.name] = from_parsed(at, field.wire_type, source[field.name])
    return values


def from_parsed(at: Layout, wire_type: Any, value: Any) -> Any:
    element = getattr(wire_type, "element", wire_type)
    if isinstance(value, list):
        return [from_parsed(at, element, inner) for inner in value]
    return from_container(at.of(element), value) if isinstance(element, type) and value is not None else value


def in_order(at: Layout, struct: Struct) -> list[Any]:
    """The values of the fields that a version has, as declared: the order of kio's dataclasses too."""
    present = [field for field in at.cls.FIELDS if field not in at.absent]
    return [ordered(at, field.wire_type, getattr(struct, field.name)) for field in present]


def ordered(at: Layout, wire_type: Any, value: Any) -> Any:
    element = getattr(wire_type, "element", wire_type)
    if isinstance(value, list):
        return [ordered(at, element, inner) for inner in value]
    return in_order(at.of(element), value) if hasattr(value, "FIELDS") else value


def without_kios_nulls(theirs: Any, ours: Any) -> Any:
    """kio says None for the zero uuid, and for the moment -1."""
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [without_kios_nulls(a, b) for a, b in zip(theirs, ours, strict=True)]
    return ours if theirs is None and ours in (bytes(16), -1) else theirs
