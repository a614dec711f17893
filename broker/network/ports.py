"""What a connection knows of its surroundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.handlers.dispatch import Routes
    from broker.network.closings import Closings
    from broker.network.connection import Connection
    from broker.network.counters import Counters
    from broker.network.memory import RequestMemory
    from broker.security.failures import Failures


class Owner(Protocol):
    """Who keeps the connections of a listener."""

    broker: Broker
    routes: Routes
    counters: Counters
    closings: Closings
    memory: RequestMemory
    failures: Failures
    tick: int  # grows with time; a connection notes it when it is heard of

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection in; the reason why not, when it is one too many."""

    def forget(self, connection: Connection) -> None:
        """Count it out."""
