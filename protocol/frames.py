"""Frames: a size, a header and a message. What the broker reads and writes, and what a client does.

A request header of version 2, and a response header of version 1, end with tagged fields; flexible versions of a
message have them. The client id is an int16 string in both. ApiVersions is always answered with response header 0, so
that a client can read an answer in a version it did not expect.

Source: KIP-482, KIP-511; Kafka's RequestHeader, ApiMessageType.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Any

from protocol.api_keys import ApiKey
from protocol.errors import ProtocolError
from protocol.registry import APIS
from protocol.schema.decoder import compile_decoder
from protocol.schema.encoder import compile_frame_encoder
from protocol.schema.runtime import skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema import Buffer, Message

RequestHeader = tuple[int, int, int, str | None, int]
"""api_key, api_version, correlation_id, client_id, and the position of the message in its frame."""

_HEAD = Struct(">ihhih")  # size, API key, version, correlation id, length of the client id
_HEAD_BYTES = _HEAD.size
_read_head = _HEAD.unpack_from
CLIENT_ID_AT = 12
"""Where the length of the client id stands in a request."""
read_route = Struct(">4xIi").unpack_from
"""(API key << 16 | version, correlation id) of a request that is known to be as long as its header."""

_flexible: dict[int, range] = {}  # by API key: the versions whose request header is version 2
_encoders: dict[int, Callable[[Any, int], list[Buffer]]] = {}  # by API key and version, in one number


def read_request_header(frame: bytes) -> RequestHeader:
    """The header of a request: (api_key, api_version, correlation_id, client_id, position of the message).

    `frame` is whole, its size in front. Nothing is read past the client id for an API or a version that is not known.
    Raises: ProtocolError when it is too short, or its client id is not UTF-8.
    """
    try:
        _, api_key, version, correlation_id, length = _read_head(frame)
        position = _HEAD_BYTES
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise ProtocolError(f"client id of {length} bytes ends behind its frame of {len(frame)}")
            client_id = frame[_HEAD_BYTES:position].decode()
        if has_tags(api_key, version):
            tag_count = frame[position]
            position += 1
            if tag_count:
                position = skip_tagged_fields(frame, position, tag_count)
    except (error, IndexError):
        raise ProtocolError(f"request header is cut off in a frame of {len(frame)} bytes") from None
    except UnicodeDecodeError as fault:
        raise ProtocolError(f"client id is not text: {fault}") from None
    return api_key, version, correlation_id, client_id, position


def past_tags(frame: bytes, position: int) -> int:
    """Where the message begins in a request whose header has tagged fields at `position`. Raises: ProtocolError."""
    try:
        return skip_tagged_fields(frame, position + 1, frame[position])
    except IndexError:
        raise ProtocolError(f"request header is cut off in a frame of {len(frame)} bytes") from None


def has_tags(api_key: int, version: int) -> bool:
    """Whether the header of this request ends with tagged fields."""
    versions = _flexible.get(api_key)
    if versions is None:
        if api_key not in APIS:
            return False
        request = APIS[api_key].request
        first = request.FLEXIBLE_FROM
        versions = _flexible[api_key] = range(0) if first is None else range(first, request.VERSIONS[1] + 1)
    return version in versions


def encode_response(api_key: int, version: int, correlation_id: int, response: Message) -> list[Buffer]:
    """A whole response frame, size and header in front, as the buffers to be written one after the other.

    Record data is among them as it was given. The other buffers are new, and the caller's.
    Raises: EncodeError when the response does not fit its version; UnsupportedVersion when there is no such version.
    """
    return response_encoder(api_key, version)(response, correlation_id)


def response_encoder(api_key: int, version: int) -> Callable[[Any, int], list[Buffer]]:
    """What `encode_response` calls: the compiled `(response, correlation_id) -> buffers` of one API and version."""
    encoder = _encoders.get(api_key << 16 | version)
    if encoder is None:
        encoder = _encoders[api_key << 16 | version] = _frame_encoder(api_key, version)
    return encoder


def short_response_encoder(api_key: int, version: int, most_elements: int) -> Callable[[Any, int], list[Buffer]]:
    """As `response_encoder`, compiled anew; it raises LongMessage when arrays have more elements than that in all."""
    return _frame_encoder(api_key, version, most_elements)


def short_request_decoder(api_key: int, version: int, most_elements: int) -> Callable[[bytes, int], tuple[Any, int]]:
    """The request's compiled decoder; it raises LongMessage when arrays have more elements than that in all."""
    return compile_decoder(APIS[api_key].request, version, most_elements)


def _frame_encoder(api_key: int, version: int, most_elements: int | None = None) -> Callable[[Any, int], list[Buffer]]:
    response = APIS[api_key].response
    response._check(version)
    return compile_frame_encoder(
        response,
        version,
        tagged_header=has_tagged_header(api_key, version),
        most_elements=most_elements,
    )


def has_tagged_header(api_key: int, version: int) -> bool:
    """Whether the answer's header is of version 1, which ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and APIS[api_key].response.flexible(version)


def encode_request(request: Message, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """A whole request frame, as clients send it."""
    assert request.API_KEY is not None
    name = b"" if client_id is None else client_id.encode()
    message = request.encode(version)
    tags = b"\0" if request.flexible(version) else b""
    size = _HEAD_BYTES - 4 + len(name) + len(tags) + len(message)
    length = -1 if client_id is None else len(name)
    head = _HEAD.pack(size, request.API_KEY, version, correlation_id, length)
    return b"".join((head, name, tags, message))


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, response) of a whole response frame, as clients read it.

    Raises: ProtocolError, also when bytes are left over.
    """
    if len(frame) < 8:
        raise ProtocolError(f"response header is cut off in a frame of {len(frame)} bytes")
    correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
    position = 8
    if has_tagged_header(api_key, version):
        try:
            position = skip_tagged_fields(frame, 9, frame[8])
        except IndexError:
            raise ProtocolError(f"response header is cut off in a frame of {len(frame)} bytes") from None
    return correlation_id, APIS[api_key].response.decode(version, frame, position)
