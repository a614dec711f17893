"""Who speaks over a connection, and what follows from that for its requests: their contexts, quotas and routes.

Who somebody is changes seldom (a log-in, another client id), and quotas do: what follows is worked out once, and kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.context import RequestContext, Session
from broker.network.throttling import ThrottledRoute, settle
from protocol.frames import CLIENT_ID_AT

if TYPE_CHECKING:
    from broker.handlers.dispatch import Route
    from broker.network.ports import Owner
    from broker.network.throttling import Muted
    from broker.quotas.limits import Limits


class Caller:
    """Of one connection, over this listener."""

    __slots__ = (
        "_broker",
        "_contexts",
        "_limits",
        "_principal",
        "_routes",
        "client_id",
        "header_end",
        "host",
        "id_bytes",
        "listener",
        "peer",
        "routes",
        "served",
        "session",
    )

    def __init__(self, owner: Owner, listener: str) -> None:
        self._broker = owner.broker
        self._routes = owner.routes
        self.listener = listener
        self.host = ""
        """The bare address, `127.0.0.1`."""
        self.peer = ""
        """Address and port."""
        self.session = Session()
        self.routes = owner.routes.made
        """By `api_key << 16 | version`: those of everybody, or its own where quotas hold it."""
        self.served: dict[int, tuple[Route, RequestContext]] = {}
        """What serves a request of the client that spoke last, by `api_key << 16 | version`."""
        self.client_id: str | None = None
        self.id_bytes: bytes | tuple[()] = ()
        """The client id with its length, as it stands in requests; (): not known yet."""
        self.header_end = 0
        """Where it ends in a request."""
        self._contexts: dict[int, RequestContext] = {}  # by version; of `client_id`
        self._principal = "User:ANONYMOUS"
        self._limits: Limits | None = None  # what quotas ask of it

    @property
    def was_heard(self) -> bool:
        """Whether a request of who it is has come."""
        return bool(self._contexts)

    def came_from(self, host: str, port: object) -> None:
        """A client has connected."""
        self.host = host.removeprefix("::ffff:")
        self.peer = f"{self.host}:{port}"

    def is_now(self, principal: str) -> None:
        """It has said who it is."""
        self._principal = principal
        self.hold_to_quotas()

    def hold_to_quotas(self) -> None:
        """They have changed, or who it is has: requests that were begun keep what held for them."""
        self._contexts = {}
        self.served = {}
        limits = self._broker.quotas.limits(self._principal, self.client_id or "")
        if limits is not None or self._limits is not None:
            settle(self.routes.values())
            self._limits = limits
            self.session.took = None if limits is None else limits.took
            self.routes = self._routes.made if limits is None else {}

    def over(self) -> None:
        """It is gone."""
        if self._limits is not None:
            settle(self.routes.values())
        # What throttles it and its requests hold each other.
        self.routes, self.served = self._routes.made, {}

    # --- of one request

    def named(self, client_id: str | None, frame: bytes) -> None:
        """The client says that this is its id, in the header of a whole request."""
        self._is_of(client_id)
        length = int.from_bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + 2], "big", signed=True)
        self.header_end = CLIENT_ID_AT + 2 + max(length, 0)
        self.id_bytes = frame[CLIENT_ID_AT : self.header_end]

    def find(self, api_key: int, version: int, muted: Muted) -> tuple[Route, RequestContext] | None:
        """What serves a version of an API for who spoke last, None if nothing does; `muted` if a quota says so."""
        key = api_key << 16 | version
        route = self.routes.get(key)
        if route is None:
            route = self._routes.find(api_key, version)
            if route is None:
                return None
            if self._limits is not None:
                route = ThrottledRoute(route, muted, self._limits, self._broker.runtime.clock_ns)
                self.routes[key] = route
        found = self.served[key] = route, self._contexts.get(version) or self._new_context(version)
        return found

    def context(self, client_id: str | None, version: int) -> RequestContext:
        """Of a request of this client in this version."""
        self._is_of(client_id)
        return self._contexts.get(version) or self._new_context(version)

    def _is_of(self, client_id: str | None) -> None:
        """Serve this client from now on."""
        if client_id != self.client_id:
            self.client_id = client_id
            self.id_bytes = ()
            self.hold_to_quotas()

    def _new_context(self, version: int) -> RequestContext:
        broker, client_id = self._broker, self.client_id or ""
        context = RequestContext(self._principal, self.listener, self.host, client_id, version, self.session)
        if broker.authorizer is not None:
            context.rights = broker.authorizer.rights(context.principal, self.host)
        context.limits = self._limits
        if not self._contexts:
            self.session.client = f"{client_id}@{self.peer}"
            broker.peers.named(self.session.peer, client_id, "/" + self.host)
        self._contexts[version] = context
        return context
