"""The answers that one connection owes, in the order of its requests (D7).

An answer that comes early waits for its turn. One that is long is written in a thread, and what comes after it waits.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from broker.handlers.context import CloseConnection, Deferred, Encoded
from broker.network.long_messages import encoded, let_go
from protocol.api_keys import ApiKey
from protocol.errors import LongMessage

if TYPE_CHECKING:
    from broker.handlers.context import Answering, AnswerRoute, Session
    from broker.handlers.dispatch import Route
    from broker.loop.runtime import Runtime
    from broker.network.transport_side import TransportSide

LARGE_REQUEST_BYTES = 16_384
"""Who holds less is no reason for memory to be short."""
_OBJECTS_FACTOR = 30  # what a request of many small things becomes while it is answered in slices


class Answers:
    """Of one connection: those that have come leave through its side of the transport."""

    __slots__ = ("_clock_ns", "_runtime", "_session", "_side", "held", "inflight_bytes", "since_ns", "waiting")

    def __init__(self, runtime: Runtime, side: TransportSide, session: Session) -> None:
        self._runtime = runtime
        self._clock_ns = runtime.clock_ns
        self._side = side
        self._session = session
        self.waiting: deque[Deferred] = deque()
        """Answers owed, in order; the first one is not done."""
        self.inflight_bytes = 0
        """Of the requests that they belong to."""
        self.held = False
        """Nothing is begun before everything in `waiting` is answered."""
        self.since_ns = 0
        """When the oldest request came that is being handled or waits for that; 0: there is none."""

    def park(
        self, deferred: Deferred, connection: Answering, route: Route, correlation_id: int, size_bytes: int
    ) -> None:
        """Owe this answer, behind the others."""
        self._session.api = route.name
        deferred.connection = connection
        deferred.route = route
        deferred.correlation_id = correlation_id
        deferred.began_ns = self.since_ns
        self.waiting.append(deferred)
        if size_bytes >= LARGE_REQUEST_BYTES and route.api_key != ApiKey.PRODUCE:
            size_bytes *= _OBJECTS_FACTOR
        deferred.size_bytes = size_bytes
        self.inflight_bytes += size_bytes

    def drain(self) -> bool:
        """Encode the answers whose turn has come; false when the connection ended over one."""
        waiting = self.waiting
        now_ns = self._clock_ns()
        alive = True
        # What came together leaves together, and so took the same time.
        answered: AnswerRoute | None = None
        count = began_ns = 0
        while waiting and waiting[0].done:
            deferred = waiting.popleft()
            route, response = deferred.route, deferred.response
            deferred.response = None  # its handler may hold on to the deferred for longer
            try:
                if type(response) is Encoded:
                    self._side.put(response.buffers)
                elif type(response) is CloseConnection:  # raised, it would know this frame, and the frame it
                    assert deferred.connection is not None
                    deferred.connection.failed(route, response)
                    alive = False
                    break
                elif response is not None:
                    self._side.put(route.encode(response, deferred.correlation_id))  # type: ignore[arg-type]  # see above
            except LongMessage:
                deferred.response = response
                response = None
                waiting.appendleft(self._write_in_thread(deferred))
                break
            except Exception as error:
                assert deferred.connection is not None
                deferred.connection.failed(route, error)
                alive = False
                break
            self.inflight_bytes -= deferred.size_bytes
            if route is not answered or deferred.began_ns != began_ns:
                if answered is not None:
                    answered.tally(count, now_ns - began_ns)
                answered, began_ns, count = route, deferred.began_ns, 0
            count += 1
        if answered is not None:
            answered.tally(count, now_ns - began_ns)
        if not waiting:
            self.held = False
        return alive

    def replace(self, deferred: Deferred, later: Deferred) -> None:
        """`later` is what the newest of those that wait is answered with."""
        _take_place(later, deferred)
        self.waiting[-1] = later

    def abandon(self) -> None:
        """Nobody is there to be answered."""
        waiting, self.waiting = self.waiting, deque()
        for deferred in waiting:
            deferred.abandon()

    def _write_in_thread(self, deferred: Deferred) -> Deferred:
        """What stands in the place of an answer that is too long, while it is written."""
        later = Deferred()
        _take_place(later, deferred)
        answer, deferred.response = [deferred.response], None
        parts: list[object] = getattr(deferred, "parts", [])
        runtime, owner = self._runtime, self._session

        def written(result: tuple[Encoded, list[object]]) -> None:
            later.complete(result[0])
            for each in (parts, result[1]):
                runtime.in_slices(let_go(each), _nothing, _nothing, owner=owner)

        assert deferred.connection is not None
        runtime.in_slices(
            encoded(deferred.route, answer, deferred.correlation_id),
            written,
            partial(deferred.connection.failed, deferred.route),
            owner=owner,
            wanted=lambda: not later.gone,
        )
        return later


def _take_place(later: Deferred, deferred: Deferred) -> None:
    later.connection = deferred.connection
    later.route = deferred.route
    later.correlation_id = deferred.correlation_id
    later.size_bytes = deferred.size_bytes
    later.began_ns = deferred.began_ns


def _nothing(_: object) -> None:
    """Nobody waits for that."""
