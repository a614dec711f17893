"""What HTTP handlers may look at: the broker, its connections, its log keeping. Put together by `broker.process`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.http.shared_scrape import SharedScrape
    from broker.network.server import Server
    from broker.partitions.log_manager import LogManager


class App:
    """Everything that can be asked about. `stopping` turns true when the process is on its way down."""

    def __init__(self, broker: Broker, server: Server, log_manager: LogManager) -> None:
        self.broker = broker
        self.server = server
        self.log_manager = log_manager
        self.stopping = False
        self.moments: dict[str, Any] = {}  # what scrapes remember of groups that are behind (`broker.http.metrics.lag`)
        self.scrapes: dict[bool, SharedScrape] = {}  # those on their way, in OpenMetrics or not
        self._version = ""

    @property
    def version(self) -> str:
        """Kohort's own."""
        if not self._version:
            from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow, and rarely asked for

            try:
                self._version = version("kohort")
            except PackageNotFoundError:
                self._version = "unknown"
        return self._version
