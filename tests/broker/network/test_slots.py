"""How many large requests are objects at once (broker/network/slots.py), seen from connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.context import Deferred
from broker.loop.slices import Until
from broker.network.slots import AT_ONCE, WAITED_MS
from protocol.api_keys import ApiKey
from protocol.frames import encode_request
from protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.support.connections import Harness
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.network.connection import Connection
    from tests.support.connections import FakeTransport

SHORT_ANSWER = DescribeLogDirsResponse(error_code=0, results=[])
LONG_ANSWER = DescribeLogDirsResponse(
    error_code=0,
    results=[
        DescribeLogDirsResult(
            error_code=0, log_dir="/", topics=[DescribeLogDirsTopic(name=f"t{n}", partitions=[]) for n in range(1_000)]
        )
    ],
)


def asking(partitions: int) -> bytes:
    """A request for so many partitions."""
    topics = [DescribableLogDirTopic(topic="t", partitions=list(range(partitions)))]
    return encode_request(DescribeLogDirsRequest(topics=topics), 2, 1, "t")


LARGE, LONG = asking(40_000), asking(1_000)


class Asked:
    """Connections that ask, of a broker whose handler works until it is told to answer, or only waits for others."""

    def __init__(self, *connections: bytes, works: bool = True, answer: Any = SHORT_ANSWER) -> None:
        self.handled = 0
        self.response = answer
        self.answers: list[Callable[[], None]] = []
        runtime = VirtualRuntime(eager_workers=False)
        self.made = Harness({ApiKey.DESCRIBE_LOG_DIRS: self._works if works else self._waits}, runtime=runtime)
        self.connections: list[tuple[Connection, FakeTransport]] = []
        for data in connections:
            self.connections.append(self.made.connect(port=50_001 + len(self.connections)))
            self.connections[-1][0].data_received(data)
        self.settle()

    def _works(self, broker: Broker, context: RequestContext, _: Any) -> Deferred:
        deferred = Deferred()
        self.handled += 1

        def steps() -> Generator[Until, None, None]:
            yield Until(self.answers.append)

        broker.runtime.in_slices(
            steps(),
            lambda _: deferred.complete(self.response),
            deferred.fail,
            owner=context.session,
            wanted=lambda: not deferred.gone,
        )
        return deferred

    def _waits(self, *_: Any) -> Deferred:
        self.handled += 1
        return Deferred()

    def settle(self) -> None:
        """Everything is done that needs no answer and no time."""
        runtime = self.made.runtime
        while runtime.works or not runtime.idle:
            if runtime.works:
                runtime.run_work()
            runtime.turn()

    def answer(self, at: int) -> None:
        """The one that was handled as number `at`."""
        self.answers[at]()
        self.settle()

    def lose(self, at: int) -> None:
        """The peer of a connection goes away."""
        connection, transport = self.connections[at]
        transport.closed = True
        connection.connection_lost(None)
        self.settle()

    @property
    def answered(self) -> list[int]:
        """Whose answers were written."""
        return [at for at, (_, transport) in enumerate(self.connections) if transport.written]

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return len(self.made.server.memory.slots)


def test_few_large_requests_are_handled_at_once_and_the_next_when_one_is_answered() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 2))
    assert asked.handled == asked.taken == AT_ONCE
    asked.answer(1)
    assert asked.handled == AT_ONCE + 1
    assert asked.answered == [1]
    for at in (0, 2, 3, 4, 5):
        asked.answer(at)
    assert asked.answered == [0, 1, 2, 3, 4, 5]
    assert not asked.taken


def test_a_slot_is_kept_until_a_long_answer_is_written() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 1), answer=LONG_ANSWER)
    asked.answers[0]()
    for _ in range(10):
        asked.made.runtime.turn()
    asked.made.runtime.run_work()
    asked.made.runtime.turn()
    assert asked.answered == [0], "the thread writes the answer before it reads the next request"
    assert asked.handled == asked.taken == AT_ONCE
    asked.settle()
    assert asked.handled == AT_ONCE + 1
    assert asked.answered == [0]


def test_those_that_are_only_long_need_no_slot() -> None:
    asked = Asked(*[LARGE] * AT_ONCE, *[LONG] * 10)
    assert asked.handled == AT_ONCE + 10


def test_who_only_waits_for_others_keeps_nobody_waiting() -> None:
    """400 joins of 147 KB made another client wait for 49 s, when they had slots until they were answered."""
    asked = Asked(*[LARGE] * (AT_ONCE * 3), works=False)
    assert asked.handled == AT_ONCE * 3
    assert not asked.taken


def test_nobody_waits_for_long() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 3))
    asked.made.runtime.advance(WAITED_MS - 1)
    asked.settle()
    assert asked.handled == AT_ONCE
    asked.made.runtime.advance(1)
    asked.settle()
    assert asked.handled == AT_ONCE + 3
    for at in range(AT_ONCE + 3):
        asked.answer(at)
    assert not asked.taken


def test_of_who_goes_while_it_waits_nothing_is_kept() -> None:
    """350 requests of 480 KB that waited took 160 MB that were charged to nobody."""
    asked = Asked(*[LARGE] * (AT_ONCE + 3))
    works = len(asked.made.runtime.slices)
    asked.lose(AT_ONCE)
    assert len(asked.made.runtime.slices) == works - 1
    assert asked.taken == AT_ONCE
    asked.answer(0)
    assert asked.handled == AT_ONCE + 1, "the one that has gone is not handled, the next is"


def test_who_goes_while_it_is_handled_gives_its_slot_up() -> None:
    asked = Asked(*[LARGE] * (AT_ONCE + 1))
    asked.lose(0)
    asked.answers[0]()
    asked.settle()
    assert asked.handled == AT_ONCE + 1


def test_a_request_that_cannot_be_read_gives_its_slot_up() -> None:
    asked = Asked(*[LARGE[:4] + LARGE[4:60_000].ljust(len(LARGE) - 4, b"\xff")] * AT_ONCE, LARGE)
    assert asked.handled == asked.taken == 1


def test_a_handler_that_fails_gives_its_slot_up() -> None:
    asked = Asked()

    def fails(*_: Any) -> Deferred:
        raise ValueError("a bug")

    asked.made.server.routes.table = {ApiKey.DESCRIBE_LOG_DIRS: fails}
    asked.made.connection.data_received(LARGE)
    asked.settle()
    assert asked.made.transport.closed
    assert not asked.taken
