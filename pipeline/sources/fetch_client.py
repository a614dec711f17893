"""Just enough of a Kafka client to read a live broker: Metadata, ListOffsets, Fetch. No group is joined. No Spark.

Connections are blocking and belong to one task each. A request is asked in the newest version that both sides have.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from pipeline.errors import DataError, PipelineError, UsageError
from pipeline.sources.access import Access
from pipeline.sources.log_dir import GROUPS_TOPIC
from pipeline.sources.secure import log_in, wrapped
from pipeline.sources.transactions import Aborted
from protocol.errors import ErrorCode, ProtocolError
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.schema import Message

EARLIEST, LATEST, NEWEST = -2, -1, -3
CLIENT_ID = "kohort-pipeline"
FETCH_BYTES = 4 * 1024 * 1024
# The newest versions that name topics by name; newer ones bring nothing that is needed here.
_NEWEST = {FetchRequest: 12, FindCoordinatorRequest: 2, ListOffsetsRequest: 7, MetadataRequest: 9}
# Metadata without a word about the creation of topics would create them.
_OLDEST: dict[type[Message], int] = {MetadataRequest: 4}
_MOVED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH}
_PASSING = {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.KAFKA_STORAGE_ERROR}
_RETRY_S = 0.1
_MOST_BYTES = 1 << 30
_FIRST_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Leader:
    """A partition and the address of its leader; "" when it has none."""

    topic: str
    partition: int
    address: str
    is_internal: bool = False


class Fetched(NamedTuple):
    """An answer about one partition. Aborted transactions reach to the end of the answer."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[Aborted, ...]


class Connection:
    """A blocking connection. Raises: OSError, also where no Kafka answers; DataError where no version is common."""

    def __init__(self, address: str, access: Access) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self.timeout_s = access.timeout_ms / 1000
        self._socket = socket.create_connection((host.strip("[]"), int(port)), self.timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        # Whoever speaks something else answers with any bytes: they must not be waited for as a gigabyte.
        try:
            self._socket = wrapped(self._socket, host.strip("[]"), access)
            answer = self._ask(ApiVersionsRequest(), 0, _FIRST_ANSWER_BYTES)
            log_in(self._ask, address, access)
        except (ProtocolError, struct.error) as error:
            self.close()
            raise OSError(f"it does not speak Kafka's protocol: {error}") from error
        except (OSError, PipelineError):
            self.close()
            raise
        self._newest = {one.api_key: one.max_version for one in answer.api_keys}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, request: Message) -> Any:
        """Send a request and wait for its answer."""
        assert request.API_KEY is not None
        version = min(self._newest.get(request.API_KEY, -1), _NEWEST[type(request)])
        if version < max(request.VERSIONS[0], _OLDEST.get(type(request), 0)):
            raise DataError(f"{self.address} is too old: it has {type(request).__name__} only up to version {version}")
        return self._ask(request, version)

    def _ask(self, request: Message, version: int, most_bytes: int = _MOST_BYTES) -> Any:
        assert request.API_KEY is not None
        self._correlation_id += 1
        self._socket.sendall(encode_request(request, version, self._correlation_id, CLIENT_ID))
        head = self._exactly(4)
        size = struct.unpack(">i", head)[0]
        if not 0 < size <= most_bytes:
            raise OSError(f"it does not speak Kafka's protocol, or only with TLS: its answer begins with {head!r}")
        frame = head + self._exactly(size)
        return decode_response(request.API_KEY, version, frame)[1]

    def _exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view, have = memoryview(data), 0
        while have < count:
            got = self._socket.recv_into(view[have:])
            if not got:
                raise ConnectionResetError(f"{self.address} closed the connection")
            have += got
        return bytes(data)


def connect(access: Access) -> Connection:
    """A connection to the first of its addresses that answers. Raises: DataError naming all that do not."""
    problems = []
    for address in [part.strip() for part in access.bootstrap.split(",") if part.strip()]:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(f"bootstrap is {access.bootstrap!r}; it must look like HOST:PORT,...")
        try:
            return Connection(address, access)
        except OSError as error:
            problems.append(f"{address} ({_words(error)})")
    raise DataError(f"no broker answers: {', '.join(problems)}")


def leaders(connection: Connection, topics: Iterable[str] | None = None) -> list[Leader]:
    """Every partition of the topics (None: of all), with its leader. Raises: DataError for an unknown topic."""
    answer = _metadata(connection, topics)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    found = []
    for topic in answer.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name == GROUPS_TOPIC:
            raise DataError(f"{connection.address} has no topic {GROUPS_TOPIC} yet: no consumer group was ever there")
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise DataError(denied(connection.address, "DESCRIBE", topic.name))
        if topic.error_code:
            raise DataError(f"topic {topic.name!r}: {ErrorCode(topic.error_code).name}")
        for partition in topic.partitions:
            address = addresses.get(partition.leader_id, "")
            found.append(Leader(topic.name, partition.partition_index, address, topic.is_internal))
    return sorted(found, key=lambda leader: (leader.topic, leader.partition))


def denied(address: str, operation: str, topic: str) -> str:
    """That the broker there allows this not, in words."""
    return f"{address} denies {operation} on topic {topic!r} ({ErrorCode.TOPIC_AUTHORIZATION_FAILED.name})"


class TopicNames(NamedTuple):
    """Topics that are there, and those of which a broker does not say whether they are: it denies DESCRIBE."""

    seen: frozenset[str]
    denied: frozenset[str]


def topic_names(connection: Connection, also: Iterable[str] = ()) -> TopicNames:
    """All topics, and those of `also` that exist though a list of all leaves them out, or that may not be seen.

    Raises: DataError.
    """
    listed = {topic.name for topic in _metadata(connection, None).topics}
    hidden = [name for name in dict.fromkeys(also) if name not in listed]
    named = _metadata(connection, hidden).topics if hidden else []
    forbidden = {one.name for one in named if one.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    return TopicNames(frozenset(listed | {one.name for one in named if not one.error_code}), frozenset(forbidden))


def cluster_id(connection: Connection) -> str:
    """As the broker says it; empty when it does not. Raises: DataError."""
    return _metadata(connection, []).cluster_id or ""


def await_coordinator(connection: Connection, group_id: str) -> None:
    """Return when some broker answers for the group, or the connection's time is out.

    Where there is no `__consumer_offsets` yet the question makes it, and is refused until it is there. librdkafka asks
    three times within 0.3 s, waits in silence after that, and can then not be destroyed once the broker is gone.
    """
    deadline_s = time.monotonic() + connection.timeout_s
    while time.monotonic() < deadline_s:
        try:
            answer = connection.call(FindCoordinatorRequest(key=group_id))
        except OSError as error:
            raise DataError(f"{connection.address} broke off when asked for a group: {_words(error)}") from error
        if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return
        time.sleep(_RETRY_S)


def _metadata(connection: Connection, topics: Iterable[str] | None) -> Any:
    """What the broker knows of these topics (None: of all). None of them is created."""
    names = None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics]
    try:
        return connection.call(MetadataRequest(topics=names, allow_auto_topic_creation=False))
    except OSError as error:
        raise DataError(f"{connection.address} broke off when asked for topics: {_words(error)}") from error


class Found(NamedTuple):
    """What ListOffsets says of a partition: an offset, and the time (ms) of its record. -1 where there is none."""

    offset: int
    timestamp: int


class OffsetLookup:
    """Asks leaders for offsets, over one connection to each, for as long as its `with` lasts."""

    def __init__(self, access: Access, *, read_committed: bool) -> None:
        self._isolation_level = int(read_committed)
        self._access = access
        self._connections: dict[str, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    def ask(self, times: Mapping[Leader, int]) -> dict[Leader, Found]:
        """The offset of `EARLIEST`, `LATEST`, `NEWEST` or of the first record of a time (ms) or later. DataError."""
        by_leader: dict[str, list[Leader]] = {}
        for one in times:
            if not one.address:
                raise DataError(f"{one.topic}-{one.partition} has no leader now")
            by_leader.setdefault(one.address, []).append(one)
        found: dict[tuple[str, int], Found] = {}
        for address, wanted in by_leader.items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for one in wanted:
                part = ListOffsetsPartition(partition_index=one.partition, timestamp=times[one])
                topics.setdefault(one.topic, []).append(part)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=self._isolation_level,
                topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            )
            for topic in self._settled(address, request).topics:
                for part in topic.partitions:
                    found[topic.name, part.partition_index] = Found(part.offset, part.timestamp)
        return {one: found[one.topic, one.partition] for one in times}

    def _settled(self, address: str, request: ListOffsetsRequest) -> Any:
        """The answer once no partition in it is merely starting up."""
        deadline = time.monotonic() + self._access.timeout_ms / 1000
        if address not in self._connections:
            self._connections[address] = _reach(address, self._access)
        while True:
            try:
                answer = self._connections[address].call(request)
            except OSError as error:
                raise DataError(f"{address} broke off when asked for offsets: {_words(error)}") from error
            errors = {part.error_code for topic in answer.topics for part in topic.partitions} - {0}
            if not errors:
                return answer
            if ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors:
                raise DataError(denied(address, "DESCRIBE", _first_refused(answer)))
            if not errors <= {int(code) for code in _PASSING | _MOVED} or time.monotonic() > deadline:
                raise DataError(f"{address} answers {ErrorCode(min(errors)).name} when asked for offsets")
            time.sleep(_RETRY_S)


def _first_refused(answer: Any) -> str:
    """The topic."""
    refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return next(str(one.name) for one in answer.topics if any(part.error_code == refusal for part in one.partitions))


def list_offsets(
    partitions: Iterable[Leader], timestamp: int, access: Access, *, read_committed: bool
) -> dict[tuple[str, int], int]:
    """The offset of `EARLIEST`, `LATEST` or a time (ms) in each partition; the end where no record is that late.

    Raises: DataError.
    """
    with OffsetLookup(access, read_committed=read_committed) as lookup:
        found = lookup.ask(dict.fromkeys(partitions, timestamp))
        late = [one for one, at in found.items() if timestamp >= 0 and at.offset < 0]
        found |= lookup.ask(dict.fromkeys(late, LATEST))
    return {(one.topic, one.partition): at.offset for one, at in found.items()}


def _reach(address: str, access: Access) -> Connection:
    try:
        return Connection(address, access)
    except OSError as error:
        raise DataError(f"{address} cannot be reached: {_words(error)}") from error


class Fetcher:
    """Reads one partition from its leader, which is followed when it moves. Raises: DataError."""

    def __init__(self, leader: Leader, access: Access, *, read_committed: bool) -> None:
        self.leader, self.access = leader, access
        self.read_committed = read_committed
        self._connection = _reach(leader.address, access)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def fetch(self, position: int) -> Fetched | None:
        """Batches from the one that holds `position` on; None when there is none up to the high watermark."""
        deadline = time.monotonic() + self.access.timeout_ms / 1000
        name = f"{self.leader.topic}-{self.leader.partition}"
        while True:
            try:
                data = self._ask(position)
                if not data.error_code:
                    break
                if data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise DataError(denied(self.leader.address, "READ", self.leader.topic))
                if data.error_code not in _MOVED | _PASSING:
                    deadline = 0.0
                problem = f"{name} at offset {position}: the broker answers {ErrorCode(data.error_code).name}"
            except OSError as error:  # a broker that is started again is waited for, too
                problem = f"{self.leader.address} broke off while {name} was read: {_words(error)}"
            self._follow(problem, deadline)
        records = bytes(data.records or b"")
        if not records:
            return None
        aborted = [Aborted(one.producer_id, one.first_offset, 1 << 62) for one in data.aborted_transactions or ()]
        return Fetched(records, data.high_watermark, data.last_stable_offset, tuple(aborted))

    def _ask(self, position: int) -> Any:
        part = FetchPartition(partition=self.leader.partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self.read_committed),
            session_id=0,
            topics=[FetchTopic(topic=self.leader.topic, partitions=[part])],
            forgotten_topics_data=[],
            rack_id="",
        )
        return self._connection.call(request).responses[0].partitions[0]

    def _follow(self, problem: str, deadline: float) -> None:
        """Connect to the leader as it is now. Raises: DataError with the problem when there is none in time."""
        self._connection.close()
        while time.monotonic() < deadline:
            time.sleep(_RETRY_S)
            try:
                with connect(self.access) as requested:
                    found = leaders(requested, [self.leader.topic])
                now = next((one for one in found if one.partition == self.leader.partition), None)
                if now is not None and now.address:
                    self._connection = _reach(now.address, self.access)
                    self.leader = now
                    return
            except DataError:
                continue  # it may be back by the deadline
        raise DataError(problem)


def _words(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
