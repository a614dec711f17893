"""Codecs that stop before they make or write more elements of arrays than fit into a turn of the loop."""

import pytest

from protocol.api_keys import ApiKey
from protocol.errors import LongMessage, ProtocolError
from protocol.frames import (
    encode_request,
    encode_response,
    read_request_header,
    short_request_decoder,
    short_response_encoder,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def asked(topics: int, partitions: int) -> ListOffsetsRequest:
    """So many topics of so many partitions each."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=f"t{number}", partitions=wanted) for number in range(topics)]
    )


def told(topics: int, partitions: int) -> ListOffsetsResponse:
    """An answer about them."""
    found = [ListOffsetsPartitionResponse(partition_index=index) for index in range(partitions)]
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=f"t{number}", partitions=found) for number in range(topics)]
    )


@pytest.mark.parametrize("version", [1, 7])
def test_the_elements_of_all_arrays_are_counted_together(version: int):
    decode = short_request_decoder(ApiKey.LIST_OFFSETS, version, 100)
    for topics, partitions in ((9, 10), (1, 99), (50, 1)):
        frame = encode_request(asked(topics, partitions), version, 1)
        position = read_request_header(frame)[4]
        assert decode(frame, position) == ListOffsetsRequest.decoder(version)(frame, position)
    for topics, partitions in ((10, 10), (1, 100), (51, 1), (101, 0)):
        frame = encode_request(asked(topics, partitions), version, 1)
        with pytest.raises(LongMessage):
            decode(frame, read_request_header(frame)[4])


@pytest.mark.parametrize("version", [1, 7])
def test_an_answer_of_as_many_elements_as_fit_is_written_as_ever(version: int):
    encode = short_response_encoder(ApiKey.LIST_OFFSETS, version, 100)
    assert encode(told(9, 10), 7) == encode_response(ApiKey.LIST_OFFSETS, version, 7, told(9, 10))
    with pytest.raises(LongMessage):
        encode(told(10, 10), 7)


def test_numbers_count_for_little_since_they_are_read_all_at_once():
    decode = short_request_decoder(ApiKey.ELECT_LEADERS, 2, 100)
    for count, fits in ((3_000, True), (4_000, False)):
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic="t", partitions=list(range(count)))],
            timeout_ms=1,
        )
        frame = encode_request(request, 2, 1)
        position = read_request_header(frame)[4]
        if fits:
            assert decode(frame, position)[1] == len(frame)
        else:
            with pytest.raises(LongMessage):
                decode(frame, position)


@pytest.mark.parametrize("version", [3, 5])
def test_bytes_in_an_element_count_as_one_more_for_each_512(version: int):
    decode = short_request_decoder(ApiKey.SYNC_GROUP, version, 100)
    encode = short_response_encoder(ApiKey.JOIN_GROUP, version, 100)
    for members, size_bytes, fits in ((10, 9 * 512, True), (10, 10 * 512, False), (100, 511, True), (1, 51_200, False)):
        named = [(f"m{index}", bytes(size_bytes)) for index in range(members)]
        plan = [SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in named]
        frame = encode_request(SyncGroupRequest(group_id="g", member_id="m0", assignments=plan), version, 1)
        told = JoinGroupResponse(
            members=[JoinGroupResponseMember(member_id=name, metadata=data) for name, data in named]
        )
        if fits:
            assert decode(frame, read_request_header(frame)[4])[1] == len(frame)
            assert encode(told, 7) == encode_response(ApiKey.JOIN_GROUP, version, 7, told)
        else:
            with pytest.raises(LongMessage):
                decode(frame, read_request_header(frame)[4])
            with pytest.raises(LongMessage):
                encode(told, 7)


def test_bytes_of_a_message_itself_count_for_nothing():
    """They are one copy, which is made in a thread too."""
    request = PushTelemetryRequest(client_instance_id=bytes(16), metrics=bytes(1_000_000))
    frame = encode_request(request, 0, 1)
    assert short_request_decoder(ApiKey.PUSH_TELEMETRY, 0, 1)(frame, read_request_header(frame)[4])[1] == len(frame)


def test_a_count_that_cannot_be_is_a_bad_request_and_not_a_long_one():
    decode = short_request_decoder(ApiKey.LIST_OFFSETS, 1, 100)
    frame = encode_request(asked(1, 1), 1, 1)
    position = read_request_header(frame)[4]
    with pytest.raises(ProtocolError):
        decode(frame[:position] + b"\xff\xff\xff\xff\x7f\xff\xff\xff", position)
