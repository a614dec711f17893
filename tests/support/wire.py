"""A Kafka connection for tests and benchmarks that must say exactly what goes over the wire, and no more."""

import select
import socket
import struct
from typing import Any, Self

from protocol.frames import decode_response, encode_request
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.schema import Message


def is_ready(sock: socket.socket, within_s: float, event: int = select.POLLIN) -> bool:
    """Whether there is something to read, or with POLLOUT room to write, before so many seconds are over.

    Not `select.select`, which knows 1,024 descriptors: a process of many tests has more.
    """
    waiting = select.poll()
    waiting.register(sock, event)
    return bool(waiting.poll(within_s * 1_000))


class Wire:
    """One blocking connection. Requests may be sent ahead; answers are received in order.

    Raises: OSError (ConnectionError among them) when the broker is not there or closes; TimeoutError after
    `timeout_s` without a byte.
    """

    def __init__(self, address: str, *, client_id: str = "wire", timeout_s: float = 60.0) -> None:
        host, _, port = address.rpartition(":")
        self._begin(socket.create_connection((host, int(port)), timeout_s), client_id)

    @classmethod
    def over(cls, connection: socket.socket, *, client_id: str = "wire") -> Self:
        """Over a connection that is there already, behind its handshake or log-in perhaps. Closes it, too."""
        wire = cls.__new__(cls)
        wire._begin(connection, client_id)
        return wire

    def _begin(self, connection: socket.socket, client_id: str) -> None:
        self.socket = connection
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._sent: list[tuple[int, int, int]] = []  # API key, version, correlation id of what awaits its answer
        self._correlation_id = 0
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def send(self, request: Message, version: int) -> None:
        """Send a request; its answer is for `receive`."""
        assert request.API_KEY is not None
        self._correlation_id += 1
        self._sent.append((request.API_KEY, version, self._correlation_id))
        self.socket.sendall(encode_request(request, version, self._correlation_id, self.client_id))

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        api_key, version, expected = self._sent.pop(0)
        correlation_id, response = decode_response(api_key, version, self.receive_frame())
        assert correlation_id == expected, f"answer to {correlation_id}, not to {expected}"
        return response

    def receive_frame(self) -> bytes:
        """The next whole frame, its size in front."""
        head = self._exactly(4)
        return head + self._exactly(struct.unpack(">i", head)[0])

    def call(self, request: Message, version: int) -> Any:
        """Send a request and wait for its answer."""
        self.send(request, version)
        return self.receive()

    def _exactly(self, count: int) -> bytes:
        pieces, have = [], 0
        while have < count:
            piece = self.socket.recv(min(count - have, 1 << 20))
            if not piece:
                raise ConnectionResetError("closed by the broker")
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)

    def create_topic(self, name: str, partitions: int, **configs: str) -> int:
        """Create a topic; return the error code."""
        entries = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=entries
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        return int(self.call(request, 4).topics[0].error_code)

    def end_offsets(self, topic: str, partitions: list[int]) -> dict[int, tuple[int, int]]:
        """(error code, end offset) of each partition, as its leader tells it."""
        asked = [ListOffsetsPartition(partition_index=partition, timestamp=-1) for partition in partitions]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        answer = self.call(request, 1)
        return {p.partition_index: (p.error_code, p.offset) for t in answer.topics for p in t.partitions}

    def coordinator_error(self, group: str) -> int:
        """The error code of FindCoordinator for a group."""
        return int(self.call(FindCoordinatorRequest(key=group, key_type=0), 1).error_code)

    def send_commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Send a commit in nobody's name."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=p, committed_offset=o, committed_metadata="")
            for p, o in offsets.items()
        ]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.send(OffsetCommitRequest(group_id=group, member_id="", topics=topics), 7)

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> set[int]:
        """Commit in nobody's name; return the error codes that occurred, 0 among them."""
        self.send_commit(group, topic, offsets)
        return {p.error_code for t in self.receive().topics for p in t.partitions}

    def committed(self, group: str, topic: str, partitions: list[int]) -> tuple[int, dict[int, int]]:
        """The error code of the group (0: none) and the committed offsets, -1 where there is none."""
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)]
        answer = self.call(OffsetFetchRequest(group_id=group, topics=topics), 5)
        return answer.error_code, {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}
