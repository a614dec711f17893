"""How many large requests are objects at once (broker/network/places.py), seen from connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.context import CloseConnection, Deferred
from broker.network.places import AT_ONCE, KEPT_MS
from protocol.api_keys import ApiKey
from protocol.frames import encode_request
from protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.support.connections import Harness

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from tests.support.connections import FakeTransport

ANSWER = DescribeLogDirsResponse(error_code=0, results=[])


def asking(partitions: int) -> bytes:
    """A request for so many partitions."""
    topics = [DescribableLogDirTopic(topic="t", partitions=list(range(partitions)))]
    return encode_request(DescribeLogDirsRequest(topics=topics), 2, 1, "t")


LARGE, LONG = asking(40_000), asking(1_000)


class Asked:
    """A broker whose answers are given by hand, and connections that ask."""

    def __init__(self, *connections: bytes) -> None:
        self.answers: list[Deferred] = []
        self.made = Harness({ApiKey.DESCRIBE_LOG_DIRS: self._handle})
        self.connections: list[tuple[Connection, FakeTransport]] = []
        for data in connections:
            self.ask(data)
        self.settle()

    def _handle(self, *_: Any) -> Deferred:
        self.answers.append(Deferred())
        return self.answers[-1]

    def ask(self, data: bytes) -> None:
        """By one more connection."""
        self.connections.append(self.made.connect(port=50_001 + len(self.connections)))
        self.connections[-1][0].data_received(data)

    def settle(self) -> None:
        """Everything is done that needs no answer and no time."""
        runtime = self.made.runtime
        while runtime.works or not runtime.idle:
            if runtime.works:
                runtime.run_work()
            runtime.turn()

    @property
    def places(self) -> int:
        """How many are taken."""
        return len(self.made.server.memory.places)


def test_few_large_requests_are_handled_at_once_and_the_next_when_one_is_answered() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 2))
    assert len(asked.answers) == AT_ONCE
    asked.answers[1].complete(ANSWER)
    asked.settle()
    assert len(asked.answers) == AT_ONCE + 1
    assert [bool(transport.written) for _, transport in asked.connections[:3]] == [False, True, False]
    for answer in asked.answers:
        answer.complete(ANSWER)
    asked.settle()
    asked.answers[-1].complete(ANSWER)
    asked.settle()
    assert all(transport.written for _, transport in asked.connections)
    assert asked.places == 0


def test_those_that_are_only_long_need_no_place() -> None:
    asked = Asked(*[LARGE] * AT_ONCE, *[LONG] * 10)
    assert len(asked.answers) == AT_ONCE + 10


def test_who_goes_leaves_a_place_whether_it_had_one_or_waited() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 2))
    for at in (AT_ONCE, 0):
        connection, transport = asked.connections[at]
        transport.closed = True
        connection.connection_lost(None)
    asked.settle()
    assert len(asked.answers) == AT_ONCE + 1, "the one that waited is handled, and the one that has gone is not"
    for answer in asked.answers[1:]:
        answer.complete(ANSWER)
    asked.settle()
    assert asked.places == 0


def test_an_answer_that_ends_the_connection_gives_its_place_up() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 1))
    asked.answers[0].complete(CloseConnection("for a test"))
    asked.settle()
    assert len(asked.answers) == AT_ONCE + 1


def test_a_request_that_cannot_be_read_gives_its_place_up() -> None:
    asked = Asked(*[LARGE[:4] + LARGE[4:60_000].ljust(len(LARGE) - 4, b"\xff")] * AT_ONCE, LARGE)
    assert len(asked.answers) == 1
    assert asked.places == 1


def test_who_waits_for_others_keeps_nobody_waiting_for_long() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 1))
    asked.made.runtime.advance(KEPT_MS - 1)
    asked.settle()
    assert len(asked.answers) == AT_ONCE
    asked.made.runtime.advance(1)
    asked.settle()
    assert len(asked.answers) == AT_ONCE + 1
    for answer in asked.answers:
        answer.complete(ANSWER)
    asked.settle()
    assert asked.places == 0
    assert all(transport.written for _, transport in asked.connections)
