"""What does it cost to decode and encode the messages of the hot path? Microseconds each, best of several rounds.

python -m benchmarks.codecs
"""

from __future__ import annotations

import platform
from timeit import repeat
from typing import TYPE_CHECKING, Any

from protocol.frames import encode_request, encode_response, read_request_header
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema import Message

MEMBER = "consumer-orders-1-5e4a1f5e-8f3c-4a55-b1f0-0a6cf34fd0c5"


def exchanges() -> list[tuple[int, Message, Message]]:
    """(version, request, response) of each row."""
    commit = OffsetCommitRequestPartition(partition_index=3, committed_offset=123_456, committed_metadata="")
    fetch = FetchPartition(partition=3, current_leader_epoch=0, fetch_offset=123_456, partition_max_bytes=1 << 20)
    return [
        (
            4,
            HeartbeatRequest(group_id="orders", generation_id=7, member_id=MEMBER),
            HeartbeatResponse(),
        ),
        (
            8,
            OffsetCommitRequest(
                group_id="orders",
                generation_id_or_member_epoch=7,
                member_id=MEMBER,
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[commit])],
            ),
            OffsetCommitResponse(
                topics=[OffsetCommitResponseTopic(name="orders", partitions=[OffsetCommitResponsePartition()])]
            ),
        ),
        (
            9,
            ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    TopicProduceData(name="orders", partition_data=[PartitionProduceData(records=bytes(100_000))])
                ],
            ),
            ProduceResponse(
                responses=[TopicProduceResponse(name="orders", partition_responses=[PartitionProduceResponse()])]
            ),
        ),
        (
            12,
            FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=[fetch])]),
            FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        topic="orders", partitions=[PartitionData(records=memoryview(bytes(100_000)))]
                    )
                ]
            ),
        ),
    ]


def main() -> None:
    """Print one row for each exchange."""
    print(f"Python {platform.python_version()}, {platform.machine()}; microseconds")
    print(f"{'':16}{'header':>8}{'decode':>8}{'encode':>8}{'client encode':>15}{'client decode':>15}")
    for version, request, response in exchanges():
        print(row(version, request, response))


def row(version: int, request: Message, response: Message) -> str:
    """The costs of one exchange, for the broker first."""
    key: Any = request.API_KEY
    frame = encode_request(request, version, 1, "consumer-orders-1")
    position = read_request_header(frame)[4]
    decode, encode = type(request).decoder(version), type(request).encoder(version)
    answer = b"".join(encode_response(key, version, 1, response))
    decode_answer = type(response).decoder(version)
    costs = (
        micros(lambda: read_request_header(frame)),
        micros(lambda: decode(frame, position)),
        micros(lambda: encode_response(key, version, 1, response)),
    )
    clients = (micros(lambda: encode(request)), micros(lambda: decode_answer(answer, 8 + (key != 18))))
    name = f"{type(request).__name__.removesuffix('Request')} {version}"
    return f"{name:16}" + "".join(f"{c:8.2f}" for c in costs) + "".join(f"{c:15.2f}" for c in clients)


def micros(call: Callable[[], object], number: int = 20_000) -> float:
    """Microseconds of one call, the lambda around it included (0.05)."""
    return min(repeat(call, number=number, repeat=7)) / number * 1e6


if __name__ == "__main__":
    main()
