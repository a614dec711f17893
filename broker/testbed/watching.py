"""In front of every handler of a broker under test: notes what is asked, and lets faults have their way."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from broker.handlers.dispatch import Handlers
from broker.testbed.acts import Call
from broker.testbed.faults import Faults, api_key
from broker.testbed.patience import patient
from broker.testbed.plain import plain
from broker.testbed.ports import UnderTest
from protocol.api_keys import ApiKey
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.broker import Broker
    from broker.handlers.context import RequestContext
    from broker.testbed.auditing.tap import Audit

_KEPT = 10_000  # requests, the newest


class Watch:
    """The requests of a broker, and its faults."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.audit: Audit | None = None
        self._seen: deque[tuple[int, int, int, str, Any]] = deque(maxlen=_KEPT)

    def over(self, handlers: Mapping[int, Any]) -> Mapping[int, Any]:
        """The table of handlers that a broker under test has."""

        def find(api: int) -> Any:
            return self._over(api, patient(handlers[api]) if api == ApiKey.FIND_COORDINATOR else handlers[api])

        return Handlers(handlers, find)

    def _over(self, api: int, handler: Any) -> Callable[[Broker, RequestContext, Any], Any]:
        seen, faults = self._seen, self.faults
        produces = api == ApiKey.PRODUCE

        def watched(broker: Broker, context: RequestContext, request: Any) -> Any:
            # Record data is not kept: it would be a second copy of every log.
            kept = plain(request, context.version, broker.catalogue.image) if produces else request
            seen.append((broker.runtime.now_ms(), api, context.version, context.client_id, kept))
            if faults.rules:
                act = faults.hit(api, context, request, broker.catalogue.image)
                if act is not None:
                    return act(Call(api, handler, broker, context, request))
            return handler(broker, context, request)

        return watched

    def requests(self, broker: Broker, words: dict[str, Any]) -> list[dict[str, Any]]:
        """What clients have asked, oldest first; of one API, or of one client."""
        wanted = None if words.get("api") is None else api_key(words["api"])
        client_id = words.get("client_id")
        return [
            {
                "at_ms": at_ms,
                "api": APIS[api].name,
                "version": version,
                "client_id": client,
                "body": plain(request, version, broker.catalogue.image),
            }
            for at_ms, api, version, client, request in self._seen
            if wanted in (None, api) and client_id in (None, client)
        ]


class Watched(UnderTest, Protocol):
    """A broker under test whose requests are watched."""

    watch: Watch
