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
    from broker.network.slow_frames import SlowFrames
    from broker.security.failures import Failures


class Owner(Protocol):
    """Who keeps the connections of a listener."""

    broker: Broker
    routes: Routes
    counters: Counters
    closings: Closings
    memory: RequestMemory
    failures: Failures
    slow_frames: SlowFrames
    tick: int  # grows with time; a connection notes it when it is heard of

    def admit(self, connection: Connection) -> None:
        """A new connection: it is let in, kept out for now, or closed."""

    def joined(self, connection: Connection) -> None:
        """It is let in."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""
