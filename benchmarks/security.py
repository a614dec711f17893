"""What do TLS and ACLs cost? Broker CPU for each request, by a listener and by a rule, beside Apache Kafka's.

Sixteen connections, ten requests in flight on each, written and read in one piece each, so that the client, which is
Python's, hardly counts; a fetch has one in flight. TLS is 1.3 with AES-256-GCM and an EC key on both. The ACLs are a
thousand, of which one allows what is asked: by a prefix, for everybody.
"""

import argparse
import contextlib
import resource
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.common import Row, arguments, create_topic, kinds, machine, median, show
from protocol.frames import encode_request
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest
from tests.support.broker_process import BrokerProcess, Kohort, eventually, free_port
from tests.support.certificates import Authority
from tests.support.data_plane import batch
from tests.support.wire import Wire

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
GROUP, TOPIC = "bench-group", "bench-topic"
CONNECTIONS, DEPTH = 16, 10
FETCHED_BYTES = 100_000
ACLS = 990


class Client(Wire):
    """One connection that asks the same thing again and again."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def ask(self, frames: bytes, answers: int) -> None:
        """Send these and read so many answers."""
        self.socket.sendall(frames)
        for _ in range(answers):
            self.receive_frame()


def heartbeat(client: Client, number: int) -> bytes:
    """Of a member of a group of its own."""
    group = f"{GROUP}-{number}"
    eventually(lambda: client.coordinator_error(group) == 0)
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = eventually(lambda: (answer := client.call(join, 1)).error_code == 0 and answer)
    client.call(SyncGroupRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id), 1)
    request = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    assert client.call(request, 1).error_code == 0
    return encode_request(request, 1, 1, "bench")


def commit(client: Client, number: int) -> bytes:
    """Of one partition, without a member."""
    group = f"{GROUP}-commit-{number}"
    eventually(lambda: client.commit(group, TOPIC, {0: 1}) == {0})
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return encode_request(OffsetCommitRequest(group_id=group, topics=[topic]), 2, 1, "bench")


def fetch(client: Client, number: int) -> bytes:
    """Of a hundred kilobytes."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCHED_BYTES)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=FETCHED_BYTES, topics=[topic])
    answer = client.call(request, 4)
    assert len(answer.responses[0].partitions[0].records) >= 90_000
    return encode_request(request, 4, 1, "bench")


ASKED: dict[str, tuple[Callable[[Client, int], bytes], int]] = {
    "heartbeat": (heartbeat, DEPTH),
    "commit": (commit, DEPTH),
    "fetch 100 KB": (fetch, 1),
}


class Listening:
    """A broker with a listener of each kind."""

    def __init__(self, kind: type[BrokerProcess], folder: Path, pem: Path, more: dict[str, str]) -> None:
        self.tls_port = free_port()
        self.broker = kind(folder, {})
        plain, secure = f"127.0.0.1:{self.broker.port}", f"127.0.0.1:{self.tls_port}"
        listeners = f"PLAINTEXT://{plain},SSL://{secure}"
        self.broker.settings = {"group.initial.rebalance.delay.ms": 0, "ssl.keystore.type": "PEM", **more}
        self.broker.settings["ssl.keystore.location"] = pem
        self.broker.settings["listeners"] = listeners
        if not isinstance(self.broker, Kohort):
            controller = f"127.0.0.1:{free_port()}"
            self.broker.settings["listeners"] = f"{listeners},CONTROLLER://{controller}"
            self.broker.settings["controller.quorum.voters"] = f"1@{controller}"
            self.broker.settings["advertised.listeners"] = listeners
            names = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
            self.broker.settings["listener.security.protocol.map"] = names

    def address(self, tls: object) -> str:
        """Of the one or of the other."""
        return f"127.0.0.1:{self.tls_port}" if tls else self.broker.address


@contextlib.contextmanager
def listening(options: argparse.Namespace, pem: Path, more: dict[str, str]) -> Iterator[list[Listening]]:
    """Each kind of broker, with something to fetch."""
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder, contextlib.ExitStack() as stack:
        started = []
        for kind in kinds(options):
            one = Listening(kind, Path(folder) / kind.name, pem, more)
            stack.enter_context(one.broker)
            create_topic(one.broker, TOPIC, 1)
            with Wire(one.broker.address) as wire:
                data = PartitionProduceData(
                    index=0, records=batch(bytes(FETCHED_BYTES - 200), timestamp=int(time.time() * 1_000))
                )
                topic = TopicProduceData(name=TOPIC, partition_data=[data])
                for _ in range(3):
                    told = wire.call(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic]), 3)
                    assert told.responses[0].partition_responses[0].error_code == 0
            started.append(one)
        yield started


def make_acls(address: str) -> None:
    """Almost a thousand, and one that counts for each of group and topic."""
    admin = AdminClient({"bootstrap.servers": address})
    who = ("*", AclOperation.READ, AclPermissionType.ALLOW)
    bindings = [
        AclBinding(ResourceType.TOPIC, f"other-{n}", ResourcePatternType.PREFIXED, f"User:u{n}", *who)
        for n in range(ACLS)
    ]
    for kind in (ResourceType.GROUP, ResourceType.TOPIC):
        bindings.append(AclBinding(kind, "bench-", ResourcePatternType.PREFIXED, "User:*", *who))
    for future in admin.create_acls(bindings).values():
        future.result(60)


def cost(one: Listening, what: str, tls: ssl.SSLContext | None, seconds: float, warm_s: float) -> tuple[float, float]:
    """(us of the broker's CPU for each request, requests a second)."""
    prepare, depth = ASKED[what]
    clients = [Client(one.address(tls), tls) for _ in range(CONNECTIONS)]
    frames = [prepare(client, number) * depth for number, client in enumerate(clients)]
    count, began, used_s = 0, time.monotonic(), 0.0
    warm = False
    while True:
        for client, sent in zip(clients, frames, strict=True):
            client.socket.sendall(sent)
        for client in clients:
            client.ask(b"", depth)
        count += CONNECTIONS * depth
        took_s = time.monotonic() - began
        if not warm and took_s >= warm_s:
            warm, count, began, used_s = True, 0, time.monotonic(), one.broker.cpu_s()
        elif warm and took_s >= seconds:
            break
    cpu_s = one.broker.cpu_s() - used_s
    for client in clients:
        client.close()
    return cpu_s / count * 1e6, count / took_s


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=2, help="how long one measurement counts (2)")
    parser.add_argument("--warm", type=float, default=4, help="load before the first count of a row (4)")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    authority = Authority()
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    trusting.check_hostname = False
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="kohort-bench-keys-") as keys:
        pem = Path(keys) / "server.pem"
        pem.write_bytes(authority.issue().pem())
        with listening(options, pem, {}) as running:
            rows += measured(running, {"plain": None, "TLS": trusting}, options)
        with listening(options, pem, AUTHORIZER) as running:
            for one in running:
                make_acls(one.broker.address)
            rows += measured(running, {"ACLs": None}, options)
    print(f"\n{machine()}; {options.seconds:g} s a count, median of {options.rounds}\n")
    show(sorted(rows, key=lambda row: row.question), options)


def measured(
    running: list[Listening], situations: dict[str, ssl.SSLContext | None], options: argparse.Namespace
) -> list[Row]:
    """A row for each request in each situation."""
    rows = []
    for what in ASKED:
        for name, tls in situations.items():
            row = Row(f"{what}, {name}", "us CPU")
            for one in running:
                found = []
                for number in range(options.rounds):
                    found.append(cost(one, what, tls, options.seconds, 0.3 if number else options.warm))
                row.take(one.broker.name, [cpu for cpu, _ in found])
                row.notes[one.broker.name] = f"{median([rate for _, rate in found]):,.0f}/s"
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
