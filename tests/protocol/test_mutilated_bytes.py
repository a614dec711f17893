"""Bytes that are cut, flipped or made up give a message or a ProtocolError, as construct judges them too."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.frames import encode_request, read_request_header
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import ProduceRequest
from protocol.registry import APIS
from protocol.schema.layout import Layout, message_layout
from protocol.schema.wire_types import Array, Fixed, Sized
from tests.protocol.test_codecs import every_message, from_container
from tests.protocol.values import MESSAGES, attributes, samples, versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.schema import Message


@every_message
def test_a_message_that_is_cut_off_anywhere_is_refused(cls: type[Message]) -> None:
    """Every strict beginning of a message ends too early for it."""
    for version in versions(cls):
        for message in samples(cls, version, 4):
            data = message.encode(version)
            # All of a short one; of a long one its beginning, its end and a stride between.
            for length in {
                *range(min(len(data), 150)),
                *range(0, len(data), 7),
                *range(max(0, len(data) - 40), len(data)),
            }:
                with pytest.raises(ProtocolError):
                    cls.decode(version, data[:length])


@every_message
def test_flipped_bytes_are_judged_as_construct_judges_them(cls: type[Message]) -> None:
    """The same bytes are a message to both, and the same message, or to neither."""
    for version in versions(cls):
        rng = random.Random(f"{cls.__name__} v{version}")
        schema = cls.schema(version)
        for message in samples(cls, version, 5):
            data = message.encode(version)
            for _ in range(30):
                mutant = mutilated(rng, data)
                assert verdict(cls, version, mutant) == constructs_verdict(cls, version, schema, mutant), mutant.hex()


def mutilated(rng: random.Random, data: bytes) -> bytes:
    """A byte or two of `data` changed, taken out or put in."""
    mutant = bytearray(data)
    for _ in range(rng.randint(1, 2)):
        position = rng.randrange(len(mutant) + 1)
        kind = rng.randrange(4)
        if kind == 0 and position < len(mutant):
            del mutant[position]
        elif kind == 1:
            mutant.insert(position, rng.choice((0, 1, 0x7F, 0x80, 0xFF)))
        elif position < len(mutant):
            mutant[position] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(mutant)


def verdict(cls: type[Message], version: int, data: bytes) -> Any:
    try:
        message, end = cls.decoder(version)(data, 0)
    except ProtocolError:
        return "refused"
    return attributes(message), end


def constructs_verdict(cls: type[Message], version: int, schema: Any, data: bytes) -> Any:
    whole = construct.Sequence(schema, construct.Tell)
    try:
        container, end = whole.parse(data)
    except (construct.ConstructError, UnicodeDecodeError):
        return "refused"
    return from_container(message_layout(cls, version), container), end


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MESSAGES), st.data(), st.binary(max_size=200))
def test_made_up_bytes_are_a_message_or_refused(cls: type[Message], data: st.DataObject, noise: bytes) -> None:
    """Nothing else escapes: no IndexError, struct.error, MemoryError or UnicodeDecodeError."""
    version = data.draw(st.sampled_from(list(versions(cls))))
    with suppress(ProtocolError):
        cls.decode(version, noise, strict=False)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(APIS.values())), st.data(), st.binary(max_size=60))
def test_made_up_headers_are_a_header_or_refused(api: Any, data: st.DataObject, noise: bytes) -> None:
    """The header is judged like a message."""
    version = data.draw(st.integers(-1, 20))
    frame = b"\0\0\0\0" + int(api.key).to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + noise
    try:
        position = read_request_header(frame)[4]
    except ProtocolError:
        return
    assert position <= len(frame)


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        (ListGroupsRequest, 4, b"\xff\xff\xff\xff\x07"),
        (JoinGroupRequest, 5, JoinGroupRequest().encode(5)[:-4] + b"\x7f\xff\xff\xff"),
        (OffsetCommitRequest, 2, OffsetCommitRequest().encode(2)[:-4] + b"\x7f\xff\xff\xff"),
        (ProduceRequest, 3, ProduceRequest().encode(3)[:-4] + b"\x10\x00\x00\x00"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_count_beyond_the_frame_makes_nothing(cls: type[Message], version: int, data: bytes) -> None:
    """Two thousand million elements in a few bytes are refused before anything is made for them."""
    decode = cls.decoder(version)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="cannot fit"):
        decode(data, 0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 20_000


def claims(at: Layout, flexible: bool) -> Iterator[bytes]:
    """A request of one entry in each list, for each of its lists once with that list's count at 2**31 - 1."""

    def made(here: Layout, place: tuple[str, ...], longer: tuple[str, ...] | None) -> Any:
        message = here.cls()
        for field in here.plain:
            if isinstance(field.wire_type, Array):
                inner, path = field.wire_type.element, (*place, field.name)
                entry = _least(inner) if isinstance(inner, Fixed | Sized) else made(here.of(inner), path, longer)
                setattr(message, field.name, [entry] * (2 if path == longer else 1))
        return message

    def places(here: Layout, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for field in here.plain:
            if isinstance(field.wire_type, Array):
                yield (*place, field.name)
                if not isinstance(field.wire_type.element, Fixed | Sized):
                    yield from places(here.of(field.wire_type.element), (*place, field.name))

    short = made(at, (), None).encode(at.version)
    for place in places(at, ()):
        longer = made(at, (), place).encode(at.version)
        count_ends = next(index for index, pair in enumerate(zip(short, longer, strict=False)) if pair[0] != pair[1])
        if flexible:
            yield short[:count_ends] + b"\x80\x80\x80\x80\x08" + short[count_ends + 1 :]
        else:
            yield short[: count_ends - 3] + b"\x7f\xff\xff\xff" + short[count_ends + 1 :]


def _least(wire_type: Fixed | Sized) -> Any:
    if isinstance(wire_type, Fixed):
        return bytes(16) if wire_type.name == "Uuid" else 0
    return "" if "String" in wire_type.name else b""


def test_no_list_of_any_request_is_made_for_what_it_claims() -> None:
    """SE64: every list of every API and version, with a count of 2**31 - 1, is refused before anything is made."""
    tried = 0
    for api in APIS.values():
        for version in range(api.served[0], api.served[1] + 1):
            decode = api.request.decoder(version)
            flexible = api.request.FLEXIBLE_FROM is not None and version >= api.request.FLEXIBLE_FROM
            for data in claims(message_layout(api.request, version), flexible):
                tracemalloc.start()
                with pytest.raises(ProtocolError):
                    decode(data, 0)
                _, peak_bytes = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert peak_bytes < 20_000, (api.name, version)
                tried += 1
    assert tried > 300


def test_a_frame_full_of_tagged_fields_that_nobody_knows_is_skipped() -> None:
    """A claim of four thousand million tagged fields ends where the frame does."""
    message = ListGroupsRequest().encode(5)[:-1] + b"\xff\xff\xff\xff\x0f" + b"\x63\x01x" * 500

    with pytest.raises(ProtocolError):
        ListGroupsRequest.decode(5, message)


@pytest.mark.parametrize(
    ("tag", "accepted"),
    [
        ("ff ff ff ff 0f", True),  # the largest of 32 bits
        ("ff ff ff ff 10", False),  # one bit more
        ("80 80 80 80 00", True),  # five bytes for a zero: wasteful, and read by Kafka
        ("80 80 80 80 80 00", False),  # six
    ],
)
def test_a_varint_has_five_bytes_and_32_bits_at_most(tag: str, accepted: bool) -> None:
    """Here of an unknown tagged field, which is skipped if it can be read."""
    data = ListGroupsRequest().encode(3)[:-1] + b"\x01" + bytes.fromhex(tag) + b"\x00"

    assert verdict(ListGroupsRequest, 3, data) == constructs_verdict(
        ListGroupsRequest, 3, ListGroupsRequest.schema(3), data
    )
    assert (verdict(ListGroupsRequest, 3, data) != "refused") == accepted


def test_a_client_id_beyond_the_frame_is_refused() -> None:
    """Its length is held against the frame's end."""
    frame = bytearray(encode_request(ListGroupsRequest(), 2, 1, "abc"))
    frame[12:14] = b"\x7f\xff"

    with pytest.raises(ProtocolError, match="client id of 32767 bytes"):
        read_request_header(bytes(frame))
