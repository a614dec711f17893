"""A broker that somebody else has started, Apache Kafka perhaps: its address, and what a test cannot have of it."""

from __future__ import annotations

from typing import Any

from kohort.testing import configs
from kohort.testing.broker import Broker
from kohort.testing.errors import Refused


class External:
    """In the place of a `Broker`: clients are told its address; nothing else can be asked of it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def config(self, library: str) -> dict[str, Any]:
        """As `Broker.config`."""
        return configs.config(library, self.bootstrap_servers)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Broker, name):
            raise AttributeError(name)
        raise Refused(
            f"{name} needs a broker that Kohort has started (the fixtures kohort and kohort_proc); this one, at "
            f"{self.bootstrap_servers}, is only an address: use a client"
        )

    def __repr__(self) -> str:
        return f"<External {self.bootstrap_servers}>"
