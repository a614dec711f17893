"""A server whose connections auditors may watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.network.server import Server
from broker.testbed.auditing.tap import Tap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker.broker import Broker
    from broker.handlers.dispatch import Routes
    from broker.network.listener_security import ListenerSecurity
    from broker.testbed.auditing.tap import Audit


class TappedServer(Server):
    """As `Server`; while somebody audits, what connects in the clear is tapped."""

    def __init__(
        self,
        broker: Broker,
        routes: Routes,
        audit_of: Callable[[], Audit | None],
        securities: Mapping[str, ListenerSecurity],
    ) -> None:
        super().__init__(broker, routes, securities=securities)
        self._audit_of = audit_of

    def _factory(self, listener: str) -> Callable[[], Any]:
        make = super()._factory(listener)
        security = self.securities.get(listener)
        if security is not None and security.tls is not None:
            return make

        def made() -> Any:
            audit = self._audit_of()
            return make() if audit is None else Tap(make(), audit)

        return made
