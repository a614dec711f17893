"""Who asks a fresh broker for a coordinator is answered when its topic is there, which takes some milliseconds.

Kafka has the topic made and answers COORDINATOR_NOT_AVAILABLE; librdkafka comes back after a second, in each test anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.handlers.context import Deferred
from broker.testbed.acts import Call, later
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.handlers.context import RequestContext

_LOOK_EVERY_MS, _LOOKS = 2, 500
_TRANSACTION = 1


def patient(handler: Callable[[Broker, RequestContext, Any], Any]) -> Callable[[Broker, RequestContext, Any], Any]:
    """The handler of FindCoordinator, that waits for what it has made."""

    def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
        coordinators = broker.transactions if request.key_type == _TRANSACTION else broker.groups
        if coordinators.leaders:
            return handler(broker, context, request)
        answer = handler(broker, context, request)
        if isinstance(answer, Deferred) or not _comes(answer):
            return answer

        def look(call: Call, promise: Deferred, left: int = _LOOKS) -> None:
            if left and (not coordinators.leaders or coordinators.unloaded()):
                due_ms = call.runtime.now_ms() + _LOOK_EVERY_MS
                call.runtime.timers.set(("testbed", "made", id(promise)), due_ms, lambda: look(call, promise, left - 1))
            else:
                call.handle_later(promise, promise.complete)

        return later(look)(Call(ApiKey.FIND_COORDINATOR, handler, broker, context, request))

    return handle


def _comes(answer: Any) -> bool:
    told = [answer.error_code, *(one.error_code for one in answer.coordinators)]
    return ErrorCode.COORDINATOR_NOT_AVAILABLE in told
