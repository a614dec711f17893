"""What may happen to a request instead of its handler: each act takes the request's place in its connection's order.

An act is `act(call)`; it returns what a handler returns. Nothing else is begun on the connection before it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from broker.handlers.context import CloseConnection, Deferred, Encoded
from broker.testbed.error_answers import error_answer, spoiled
from protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.catalogue.topics_image import TopicsImage
    from broker.handlers.context import AnswerRoute, RequestContext
    from broker.loop.runtime import Runtime
    from protocol.errors import ErrorCode

_numbers = count()


class Call:
    """One request on its way to its handler."""

    def __init__(self, api_key: int, handler: Any, broker: Broker, context: RequestContext, request: Any) -> None:
        self.api_key = api_key
        self.runtime: Runtime = broker.runtime
        self.request = request
        self._handler = handler
        self._broker = broker
        self._context = context

    @property
    def image(self) -> TopicsImage:
        """The topics that there are."""
        return self._broker.catalogue.image

    def handle(self) -> Any:
        """What the handler returns."""
        return self._handler(self._broker, self._context, self.request)

    def handle_later(self, promise: Deferred, then: Callable[[Any], None]) -> None:
        """Have it handled, for a promise that was returned; `then(answer)`."""
        if promise.gone:
            return
        try:
            answer = self.handle()
            if isinstance(answer, Deferred) and answer.done:
                answer.raise_failure()
                answer = answer.response
        except Exception as error:
            promise.fail(error)
            return
        if isinstance(answer, Deferred):
            answer.route, answer.correlation_id = promise.route, promise.correlation_id
            answer.connection = _Relay(promise, then)
            promise.on_gone = answer.abandon
        else:
            then(answer)


class _Relay:
    """In the place of a connection: hands on an answer."""

    def __init__(self, promise: Deferred, then: Callable[[Any], None]) -> None:
        self._promise = promise
        self._then = then

    def deferred_completed(self, deferred: Deferred) -> None:
        response, deferred.response = deferred.response, None
        if isinstance(response, CloseConnection):
            self._promise.complete(response)
        else:
            self._then(response)

    def failed(self, _: AnswerRoute | None, error: Exception) -> None:
        self._promise.fail(error)


Act = Callable[[Call], Any]


def later(begin: Callable[[Call, Deferred], None]) -> Act:
    """Begun when the request has its place, so that its answer has a route."""

    def act(call: Call) -> Deferred:
        promise = Deferred()
        promise.holds = True
        call.runtime.soon(lambda: begin(call, promise))
        return promise

    return act


def error(api_key: int, code: ErrorCode) -> Act:
    """Answer with an error; nothing is done."""
    if api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return later(
            lambda call, promise: call.handle_later(promise, lambda all_: promise.complete(spoiled(all_, code)))
        )
    return lambda call: error_answer(call.api_key, call.request, code)


def delay(ms: int) -> Act:
    """Handle it so much later."""

    def begin(call: Call, promise: Deferred) -> None:
        key = ("testbed", "delay", next(_numbers))
        promise.on_gone = lambda: call.runtime.timers.cancel(key)
        due_ms = call.runtime.now_ms() + ms
        call.runtime.timers.set(key, due_ms, lambda: call.handle_later(promise, promise.complete))

    return later(begin)


def drop(*, handled: bool) -> Act:
    """Never answer; with `handled` what it asks for is done all the same."""

    def begin(call: Call, promise: Deferred) -> None:
        if handled:
            call.handle_later(promise, lambda _: None)

    return later(begin)


def silence(ms: int, *, handled: bool) -> Act:
    """Never answer, and end the connection some time later, as a network does that has lost the way."""

    def begin(call: Call, promise: Deferred) -> None:
        if handled:
            call.handle_later(promise, lambda _: None)
        key = ("testbed", "silence", next(_numbers))
        promise.on_gone = lambda: call.runtime.timers.cancel(key)
        due_ms = call.runtime.now_ms() + ms
        call.runtime.timers.set(key, due_ms, lambda: promise.complete(CloseConnection("a fault of its test")))

    return later(begin)


def disconnect(when: str) -> Act:
    """End the connection: `before` it is handled, `during` its answer (half of it leaves), `after` that."""

    def before(call: Call, promise: Deferred) -> None:
        promise.complete(CloseConnection("a fault of its test"))

    def during(call: Call, promise: Deferred) -> None:
        def cut(answer: Any) -> None:
            if answer is not None and not isinstance(answer, Encoded):
                head = promise.route.encode(answer, promise.correlation_id)[0]
                answer = Encoded([bytes(head[: max(len(head) // 2, 1)])])
            _end(call, promise, answer)

        call.handle_later(promise, cut)

    def after(call: Call, promise: Deferred) -> None:
        call.handle_later(promise, lambda answer: _end(call, promise, answer))

    return later({"before": before, "during": during, "after": after}[when])


def _end(call: Call, promise: Deferred, answer: Any) -> None:
    """Answer, and end the connection when that has left."""
    connection = promise.connection
    assert connection is not None

    def end() -> None:
        connection.failed(None, CloseConnection("a fault of its test"))

    promise.complete(answer)
    # The answer is written when this turn ends.
    call.runtime.next_turn(lambda: call.runtime.next_turn(end))


def throttle(ms: int) -> Act:
    """Handle it, and tell the client to be quiet for so long."""

    def begin(call: Call, promise: Deferred) -> None:
        def told(answer: Any) -> None:
            if hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = ms
            promise.complete(answer)

        call.handle_later(promise, told)

    return later(begin)


class Hold:
    """Requests wait before they are handled, until they are released."""

    def __init__(self) -> None:
        self.held: list[tuple[Call, Deferred]] = []
        self._released = False

    def __call__(self, call: Call) -> Any:
        """The act."""
        return call.handle() if self._released else later(self._begin)(call)

    def _begin(self, call: Call, promise: Deferred) -> None:
        if self._released:
            call.handle_later(promise, promise.complete)
        else:
            self.held.append((call, promise))

    @property
    def count(self) -> int:
        """How many wait now, of clients that are still there."""
        return sum(not promise.gone for _, promise in self.held)

    def release(self) -> None:
        """Have them handled, and let all others pass."""
        self._released = True
        held, self.held = self.held, []
        for call, promise in held:
            call.handle_later(promise, promise.complete)
