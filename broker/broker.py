"""The broker as its handlers see it: one object with everything a request may need.

It is put together in `broker.server`; the parts know nothing of each other but what they are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.group_figures import GroupFigures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.dispatch import Handler
    from broker.runtime import Runtime
    from broker.settings import Settings
    from protocol.messages.api_versions import ApiVersionsResponse


class Endpoint:
    """The address under which clients of a listener reach this broker."""

    __slots__ = ("host", "listener", "port")

    def __init__(self, listener: str, host: str, port: int) -> None:
        self.listener = listener
        self.host = host
        self.port = port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Broker:
    """Settings, clock, topics, partitions and groups of this process.

    `endpoints` maps a listener's name to its advertised address, with the real port when port 0 was asked for: answers
    that name this broker use `broker.endpoint(context.listener)`.
    """

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime
        self.node_id = settings.node_id
        self.cluster_id = ""
        self.endpoints: dict[str, Endpoint] = {}
        self.handlers: Mapping[int, Handler] = {}
        self.api_versions_response: ApiVersionsResponse | None = None  # the same for everybody
        self.catalogue: Any = None
        self.partitions: Any = None
        self.groups: Any = None
        self.producer_ids: Any = None
        self.ledger: Any = None
        self.group_figures = GroupFigures()

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of a listener."""
        return self.endpoints[listener]
