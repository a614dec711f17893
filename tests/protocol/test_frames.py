"""Headers: which version they have, where the message begins, and what a client can read."""

from __future__ import annotations

from io import BytesIO

import pytest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, ProtocolError, UnsupportedVersion
from protocol.frames import decode_response, encode_request, encode_response, read_request_header
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.registry import APIS, Api
from tests.protocol import kio_codec
from tests.protocol.values import elsewhere, samples, versions

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@every_api
def test_a_request_frame_is_the_one_that_kio_writes(api: Api) -> None:
    """Request header 1 or 2 as the version says, the client id an int16 string in both."""
    for version in elsewhere(api.request):
        request = list(samples(api.request, version, 3))[-1]
        frame = encode_request(request, version, 77, "client-7")

        header_class = kio_codec.entity_class(api.request, version).__header_schema__
        assert header_class is (HeaderV2 if api.request.flexible(version) else HeaderV1)
        header = header_class(
            request_api_key=i16(api.key),
            request_api_version=i16(version),
            correlation_id=i32(77),
            client_id="client-7",
        )
        out = BytesIO()
        entity_writer(header_class)(out, header)
        body = out.getvalue() + request.encode(version)
        assert frame == len(body).to_bytes(4, "big") + body


@every_api
def test_a_request_frame_is_read_back(api: Api) -> None:
    """Key, version, correlation id, client id, and where the message begins."""
    for version in versions(api.request):
        for client_id in (None, "", "gröup"):
            request = list(samples(api.request, version, 2))[-1]
            frame = encode_request(request, version, -5, client_id)

            *header, position = read_request_header(frame)

            assert header == [api.key, version, -5, client_id]
            assert api.request.decoder(version)(frame, position) == (request, len(frame))


@every_api
def test_a_response_frame_has_the_header_that_kio_expects(api: Api) -> None:
    """Header 1 where the version is flexible, except for ApiVersions; the size counts all of it."""
    for version in elsewhere(api.response):
        for response in samples(api.response, version, 4):
            frame = b"".join(encode_response(api.key, version, 123_456, response))

            header_class = kio_codec.entity_class(api.response, version).__header_schema__
            header, size = entity_reader(header_class)(frame, 4)
            assert header.correlation_id == 123_456
            assert frame[4 + size :] == response.encode(version)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            assert decode_response(api.key, version, frame) == (123_456, response)


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    """Kafka has none yet; a later client may."""
    frame = encode_request(HeartbeatRequest(group_id="g"), 4, 1, "c")
    frame = frame[:15] + b"\x02\x00\x01x\x81\x01\x02yz" + frame[16:]

    *_, position = read_request_header(frame)

    assert HeartbeatRequest.decode(4, frame, position).group_id == "g"


def test_nothing_is_read_past_the_client_id_of_an_unsupported_version() -> None:
    """ApiVersions 6 is answered in version 0, so its header must be readable, whatever follows."""
    frame = bytes.fromhex("0000000c 0012 0006 00000007 0002 6162")

    assert read_request_header(frame) == (ApiKey.API_VERSIONS, 6, 7, "ab", len(frame))


def test_an_unknown_api_still_has_a_header() -> None:
    """So that the log can say who asked for what."""
    frame = bytes.fromhex("0000000a 7fff 0000 00000007 ffff")

    assert read_request_header(frame) == (0x7FFF, 0, 7, None, 14)


@pytest.mark.parametrize("length", range(14))
def test_a_frame_too_short_for_a_header_is_refused(length: int) -> None:
    """Down to the empty frame."""
    frame = encode_request(HeartbeatRequest(), 0, 1, None)[:length]

    with pytest.raises(ProtocolError):
        read_request_header(frame)


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    """As any other string."""
    frame = encode_request(HeartbeatRequest(), 0, 1, "ab").replace(b"ab", b"\xff\xfe")

    with pytest.raises(ProtocolError, match="client id is not text"):
        read_request_header(frame)


def test_error_35_is_answered_in_the_shape_of_version_0() -> None:
    """Response header 0, error code, int32 count: what a client falls back from. Source: KIP-511."""
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )

    frame = b"".join(encode_response(ApiKey.API_VERSIONS, 0, 7, response))

    assert frame == bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0004")


def test_api_versions_is_answered_with_header_0_in_flexible_versions_too() -> None:
    """A client cannot know the version of the answer before it has read it. Source: KIP-511."""
    frame = b"".join(encode_response(ApiKey.API_VERSIONS, 3, 7, ApiVersionsResponse()))

    assert frame == bytes.fromhex("0000000c 00000007 0000 01 00000000 00")


def test_a_response_of_one_size_is_one_buffer() -> None:
    """Heartbeats are answered with a single pack."""
    frame = encode_response(ApiKey.HEARTBEAT, 4, 9, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    assert frame == [bytes.fromhex("0000000c 00000009 00 00000000 001b 00")]


@pytest.mark.parametrize("version", [4, 12, 17])
def test_record_data_of_a_response_is_passed_on_not_copied(version: int) -> None:
    """The very buffers are among those to be written, and the size counts them."""
    mapped, fresh = memoryview(bytearray(b"page cache")), [b"new", memoryview(b"er")]
    partitions = [PartitionData(records=mapped), PartitionData(records=b""), PartitionData(records=fresh)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    buffers = encode_response(ApiKey.FETCH, version, 1, response)

    assert any(buffer is mapped for buffer in buffers)
    assert all(any(buffer is piece for buffer in buffers) for piece in fresh)
    frame = b"".join(buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    records = [bytes(p.records) for p in decode_response(ApiKey.FETCH, version, frame)[1].responses[0].partitions]
    assert records == [b"page cache", b"", b"newer"]


def test_a_response_of_an_undeclared_version_is_our_mistake() -> None:
    """It is named, not guessed."""
    with pytest.raises(UnsupportedVersion, match="HeartbeatResponse has versions 0-4, not 5"):
        encode_response(ApiKey.HEARTBEAT, 5, 1, HeartbeatResponse())
