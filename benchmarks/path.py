"""What one request costs Kohort's own code: the whole broker in this process, behind a transport that remembers.

No socket, no event loop, no load generator, and the least of many short runs: this tells a change of two per cent on a
machine where others work, which CPU per request of a broker under load does not. `--profile commit` says where the time
goes.
"""

import argparse
import cProfile
import gc
import pstats
import tempfile
import time
from typing import Any

from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.network.connection import Connection
from broker.network.server import Server
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.batch import Record, encode_batch
from protocol.schema import Message
from tests.support.connections import FakeTransport
from tests.support.virtual_runtime import VirtualRuntime

REPEATS = 20  # of the same bytes in one run


class InProcess:
    """A broker on an empty directory, with one connection whose member is in a group."""

    def __init__(self, directory: str) -> None:
        logs.configure(level="error")
        self.runtime = VirtualRuntime()
        self.runtime.clock_ns = time.perf_counter_ns  # the broker's own: each request looks at it
        settings = Settings({"log.dirs": directory, "group.initial.rebalance.delay.ms": "0"})
        composition = Composition.open(settings, self.runtime, [("PLAINTEXT", "127.0.0.1", 9092)])
        composition.broker.served = HANDLERS.keys()
        server = Server(composition.broker, Routes(HANDLERS))
        composition.start()
        self.connection, self.transport = Connection(server, "PLAINTEXT"), FakeTransport()
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        self.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 5)
        while self.call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 2).error_code:
            self.runtime.advance(100)
        joining = JoinGroupRequest(
            group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )  # fmt: skip
        joined = self.call(ApiKey.JOIN_GROUP, joining, 2)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        syncing = SyncGroupRequest(group_id="g", generation_id=self.generation, member_id=self.member_id)
        self.call(ApiKey.SYNC_GROUP, syncing, 1)
        settling = ConsumerGroupHeartbeatRequest(
            group_id="c", member_id="m", member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
            topic_partitions=[],
        )  # fmt: skip
        self.epoch = self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, settling, 1).member_epoch

    def call(self, api_key: int, request: Message, version: int) -> Any:
        """The answer to one request."""
        self.transport.written.clear()
        self.connection.data_received(encode_request(request, version, 1, "bench"))
        while not self.transport.written:
            self.runtime.advance(10)
        return decode_response(api_key, version, bytes(self.transport.written))[1]

    def requests(self) -> dict[str, bytes]:
        """The frames that are measured."""
        alive = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.member_id)
        settled = ConsumerGroupHeartbeatRequest(group_id="c", member_id="m", member_epoch=self.epoch)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1_000, committed_metadata="")
        commit = OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )  # fmt: skip
        batch = bytes(encode_batch([Record(0, self.runtime.now_ms(), None, bytes(1_000))]))
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        produce = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data])
        large = bytes(encode_batch([Record(0, self.runtime.now_ms(), None, bytes(95_000))]))
        stored = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=large)])
        self.call(ApiKey.PRODUCE, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[stored]), 3)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100_000)
        fetch = FetchRequest(
            replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=100_000, isolation_level=0,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )  # fmt: skip
        return {
            "heartbeat v1": encode_request(alive, 1, 7, "bench"),
            "heartbeat v4": encode_request(alive, 4, 7, "bench"),
            "consumer heartbeat v1": encode_request(settled, 1, 7, "bench"),
            "commit v2": encode_request(commit, 2, 7, "bench"),
            "commit v9": encode_request(commit, 9, 7, "bench"),
            "produce 1 KB v3": encode_request(produce, 3, 7, "bench"),
            "produce 1 KB v11": encode_request(produce, 11, 7, "bench"),
            "fetch 100 KB v4": encode_request(fetch, 4, 7, "bench"),
            "fetch 100 KB v12": encode_request(fetch, 12, 7, "bench"),
        }

    def run(self, data: bytes) -> None:
        """Take the bytes, in one read, and end the turn; so many times."""
        for _ in range(REPEATS):
            self.connection.data_received(data)
            self.runtime.turn()
        self.transport.written.clear()


def least_us(broker: InProcess, frame: bytes, together: int, runs: int) -> float:
    """The least that one request took."""
    best = float("inf")
    for _ in range(runs):
        began = time.perf_counter_ns()
        broker.run(frame * together)
        best = min(best, (time.perf_counter_ns() - began) / REPEATS / together / 1_000)
    return best


def main() -> None:
    """Measure, or profile, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="every figure is the least of so many (200)")
    parser.add_argument("--only", metavar="REQUEST", default="", help="only requests whose name holds this")
    parser.add_argument("--profile", metavar="REQUEST", help="where the time of this request goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kohort-path-") as directory:
        broker = InProcess(directory)
        gc.freeze()
        gc.disable()
        for name, frame in broker.requests().items():
            if options.only not in name:
                continue
            if options.profile:
                if options.profile in name:
                    broker.run(frame * 10)
                    with cProfile.Profile() as profile:
                        for _ in range(options.runs):
                            broker.run(frame * 10)
                    pstats.Stats(profile).sort_stats("tottime").print_stats(25)
                continue
            alone, together = (least_us(broker, frame, count, options.runs) for count in (1, 10))
            print(f"{name:21} {alone:6.2f} us alone, {together:6.2f} us each of ten that come together", flush=True)


if __name__ == "__main__":
    main()
