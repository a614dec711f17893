"""A whole broker in this process, in virtual time, behind a transport that remembers: what the frames are fed to.

After every few frames each connection must have answered or closed; what may still wait is a Join, a Sync or a Fetch,
whose waiting the client asked for. No turn of its loop takes longer than `HELD_S` of CPU.
"""

from __future__ import annotations

import gc
import io
import shutil
from typing import TYPE_CHECKING

from broker.catalogue import topic_changes
from broker.composition import Composition
from broker.config.settings import Settings
from broker.handlers.dispatch import HANDLERS, Routes
from broker.loop import logs
from broker.network.connection import Connection
from broker.network.server import Server
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.fuzz.watched import AGAIN, HELD_S, WatchedRuntime, collected_as_served
from tests.support.connections import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from broker.handlers.dispatch import Handler
    from tests.fuzz.frames import Frames

_MAY_WAIT = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FETCH}
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.max.size": "12",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "2",
}


class Target:
    """Feeds frames to a broker on a directory of its own, and starts a new one every `lifetime` frames."""

    def __init__(
        self,
        directory: Path,
        frames: Frames,
        *,
        lifetime: int = 20_000,
        handlers: Mapping[int, Handler] = HANDLERS,
    ) -> None:
        self.directory = directory
        self.frames = frames
        self.answers = 0
        self.closed = 0
        self.longest_s = 0.0
        """Of CPU, in one turn of the loop."""
        self.highest_epoch = 0  # that a member of the new protocol came to
        self.log = io.StringIO()
        self._lifetime = lifetime
        self._handlers = handlers
        self._left = 0
        self._broker: Composition | None = None
        self._uncollected: Callable[[], None] = lambda: None
        # A mutilated count must not keep a worker busy with a hundred thousand folders.
        topic_changes.MAX_PARTITIONS = 8
        logs.configure(level="error", stream=self.log)

    def run(self, count: int) -> None:
        """Feed `count` frames. Raises: AssertionError with the frame when one does what none may do."""
        try:
            self._run(count)
        except BaseException:
            self._uncollected()
            raise
        self.end()

    def _run(self, count: int) -> None:
        fed = 0
        rng = self.frames.random
        while fed < count:
            if self._left <= 0:
                self._start()
            connection, transport = self._connect()
            sent: list[bytes] = []
            for _ in range(rng.choice((1, 2, 5, 20))):
                frame = self.frames.next()
                sent.append(frame)
                self._runtime.receive(connection, frame)
                if connection.closed:
                    break
            fed += len(sent)
            self._left -= len(sent)
            self._settle(connection, transport, sent)
            assert "Traceback" not in self.log.getvalue(), f"{self.log.getvalue()}\nsent: {[f.hex() for f in sent]}"
            held_s, self._runtime.longest_ns = self._runtime.longest_s, 0
            for _ in range(AGAIN):
                if held_s < HELD_S:
                    break
                held_s = min(held_s, self._again(sent))
            self.longest_s = max(held_s, self.longest_s)
            assert held_s < HELD_S, f"a turn took {held_s:.3f} s of CPU\nsent: {[frame.hex() for frame in sent]}"
            self._learn_members()
            if rng.random() < 0.01:
                self._runtime.advance(rng.choice((100, 12_000)))
            self.answers += transport.writes
            self.closed += connection.closed
            transport.closed = True
            connection.connection_lost(None)

    def end(self) -> None:
        """Stop the broker, as SIGTERM would."""
        if self._broker is None:
            return
        assert not self._server.connections
        ended: list[bool] = []
        self._broker.stop(ended.append)
        self._runtime.turn()
        assert ended == [True], f"no clean end: {self.log.getvalue()}"
        assert "Traceback" not in self.log.getvalue(), self.log.getvalue()
        self._broker = None
        self._left = 0
        self._uncollected()
        del self._server, self._runtime
        gc.collect()  # it must go before the next broker comes

    def _learn_members(self) -> None:
        """Tell the source who is in the groups: a stranger's requests are refused before they get far."""
        shards = [leader.shard for leader in self._broker.broker.groups.leaders]
        known = [
            member_id
            for shard in shards
            for group in shard.groups.values()
            for member_id in (*group.members, *group.pending_members)
        ]
        consumers = [
            (group_id, member)
            for shard in shards
            for group_id, group in shard.consumer_groups.items()
            for member in group.members.values()
        ]
        self.highest_epoch = max([member.epoch for _, member in consumers] + [self.highest_epoch])
        self.frames.member_ids = ["", *known[:10], *[member.member_id for _, member in consumers[:10]]]
        self.frames.consumers = consumers

    def _settle(self, connection: Connection, transport: FakeTransport, sent: list[bytes]) -> None:
        self._runtime.turn()
        if connection.closed or connection.idle:
            return
        self._runtime.advance(12_000)
        waiting = connection.answers.waiting
        assert connection.closed or not waiting or waiting[0].route.api_key in _MAY_WAIT, (
            f"{waiting[0].route.name} is not answered\nsent: {[frame.hex() for frame in sent]}"
        )
        assert connection.closed or waiting or transport.reading or connection.backlog, "it stopped reading for ever"

    def _again(self, sent: list[bytes]) -> float:
        """The longest turn, in s, when the same comes once more."""
        connection, transport = self._connect()
        self._runtime.longest_ns = 0
        for frame in sent:
            if not connection.closed:
                self._runtime.receive(connection, frame)
        self._settle(connection, transport, sent)
        transport.closed = True
        connection.connection_lost(None)
        held_s, self._runtime.longest_ns = self._runtime.longest_s, 0
        return held_s

    def _connect(self) -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self._server, "PLAINTEXT"), FakeTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    def _start(self) -> None:
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._runtime = WatchedRuntime()
        settings = Settings({**_SETTINGS, "log.dirs": str(self.directory)})
        self._broker = Composition.open(settings, self._runtime, [("PLAINTEXT", "127.0.0.1", 9092)])
        broker = self._broker.broker
        broker.served = self._handlers.keys()
        self._server = Server(broker, Routes(self._handlers))
        self._broker.start()
        self._uncollected = collected_as_served(self._runtime, self._server)
        self._left = self._lifetime
        topics = [
            CreatableTopic(name="orders", num_partitions=2, replication_factor=1),
            CreatableTopic(name="payments", num_partitions=1, replication_factor=1),
            CreatableTopic(
                name="compacted",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
            ),
        ]
        connection, transport = self._connect()
        connection.data_received(encode_request(CreateTopicsRequest(topics=topics, timeout_ms=1_000), 5, 1))
        connection.data_received(encode_request(FindCoordinatorRequest(key="g0"), 2, 2))
        self._runtime.turn()
        size = int.from_bytes(transport.written[:4])
        created = decode_response(ApiKey.CREATE_TOPICS, 5, bytes(transport.written[: size + 4]))[1]
        assert [topic.error_code for topic in created.topics] == [0, 0, 0]
        self._runtime.longest_ns = 0  # its start is nobody's
        transport.closed = True
        connection.connection_lost(None)
