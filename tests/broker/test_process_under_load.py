"""The program among clients that behave badly, and its end while they are busy."""

import random
import socket
import threading
import time
from pathlib import Path

import pytest

from protocol.frames import encode_request
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import MetadataRequest
from tests.support.broker_process import Kohort, eventually
from tests.support.wire import Wire


def with_topic(broker: Kohort, partitions: int = 1) -> None:
    with Wire(broker.address) as wire:
        assert wire.create_topic("orders", partitions) == 0
        eventually(lambda: wire.coordinator_error("g") == 0)


@pytest.mark.parametrize("durability", ["os", "always"])
def test_sigterm_among_commits_and_parked_requests_ends_and_loses_nothing_acknowledged(tmp_path: Path, durability: str):
    """What was answered is there after the next start, which finds a clean directory."""
    settings = {"kohort.durability": durability, "group.initial.rebalance.delay.ms": 60_000}
    acknowledged: dict[str, int] = {}
    with Kohort(tmp_path, settings) as broker:
        with_topic(broker)
        fetching, joining = Wire(broker.address), Wire(broker.address)
        fetch = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
        fetching.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[fetch]), 4)
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        joining.send(
            JoinGroupRequest(
                group_id="waiting", session_timeout_ms=30_000, protocol_type="consumer", protocols=[protocol]
            ),
            0,
        )

        def commit(group: str) -> None:
            wire = Wire(broker.address)
            try:
                for offset in range(1, 1_000_000):
                    if wire.commit(group, "orders", {0: offset}) != {0}:
                        return
                    acknowledged[group] = offset
            except OSError:
                return  # the broker has closed the connection

        threads = [threading.Thread(target=commit, args=(f"g{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(acknowledged) == 4 and min(acknowledged.values()) > 20)
        began = time.monotonic()
        broker.stop()
        took_s = time.monotonic() - began
        for thread in threads:
            thread.join()
        broker.start()
        assert "unclean_shutdown" not in broker.log()
        with Wire(broker.address) as wire:
            for group, offset in acknowledged.items():
                error, found = wire.committed(group, "orders", [0])
                assert error == 0
                # One commit may have been written whose answer did not reach its client any more.
                assert found[0] in (offset, offset + 1)
    assert took_s < 60  # the parked requests are not waited for


def test_a_peer_that_never_reads_and_one_that_sends_garbage_disturb_nobody(tmp_path: Path):
    with Kohort(tmp_path, {"kohort.log.level": "error"}) as broker:
        with_topic(broker, 50)
        deaf = socket.create_connection(("127.0.0.1", broker.port))
        deaf.setblocking(False)
        question = encode_request(MetadataRequest(topics=None), 1, 1)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += deaf.send(question * 1_000)
        except BlockingIOError:
            pass  # the broker does not read it any further
        generator = random.Random(3)
        before = broker.memory_bytes()
        with Wire(broker.address) as wire:
            for number in range(1, 200):
                with socket.create_connection(("127.0.0.1", broker.port)) as garbage:
                    garbage.send(generator.randbytes(200))
                assert wire.commit("g", "orders", {0: number}) == {0}
            assert wire.committed("g", "orders", [0]) == (0, {0: 199})
        assert broker.memory_bytes() - before < 64 * 1024 * 1024
        assert broker.memory_bytes() < 200 * 1024 * 1024
        deaf.close()


def test_a_frame_that_comes_byte_by_byte_is_answered(tmp_path: Path):
    with Kohort(tmp_path) as broker, socket.create_connection(("127.0.0.1", broker.port), timeout=300) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in encode_request(MetadataRequest(topics=[]), 1, 77):
            client.send(bytes([byte]))
        head = client.recv(8, socket.MSG_WAITALL)
        assert int.from_bytes(head[4:]) == 77
