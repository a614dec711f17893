"""The broker as its handlers see it: one object with everything a request may need.

It is put together in `broker.composition`; the parts know nothing of each other but what they are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.client_metrics import ClientMetrics
from broker.groups.figures import GroupFigures
from broker.groups.ledger.standing import StandingFindings
from broker.groups.peers import Peers
from broker.quotas.client_quotas import ClientQuotas
from broker.transactions.figures import TransactionFigures
from broker.transactions.history import TransactionHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from broker.authorization.authorizer import Authorizer
    from broker.catalogue.catalogue import Catalogue
    from broker.catalogue.producer_ids import ProducerIds
    from broker.config.settings import Settings
    from broker.groups.groups import Groups
    from broker.groups.ledger import Ledger
    from broker.groups.transactions import GroupTransactions
    from broker.loop.runtime import Runtime
    from broker.partitions import Partitions
    from broker.partitions.markers import Markers
    from broker.partitions.moves import Moves
    from broker.partitions.verification import Verifier
    from broker.transactions.transactions import Transactions
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
        self.secret = b""
        """Random, the same for as long as the directory is, and told to nobody."""
        self.endpoints: dict[str, Endpoint] = {}
        self.authorizer: Authorizer | None = None  # who decides what principals may; None: everybody may everything
        self.served: Collection[int] = ()  # the API keys that have a handler
        self.features: Callable[[], tuple[Mapping[str, int], int]] = lambda: ({}, -1)
        """The finalized features of the cluster, by name, and a number that rises when they change."""
        # The same for everybody, but for clients from before version 4, and for as long as no feature changes.
        self.api_versions_responses: dict[tuple[bool, bool, int], ApiVersionsResponse] = {}
        # Put in their places by `broker.composition`, before anything is served.
        self.catalogue: Catalogue
        self.partitions: Partitions
        self.verifier: Verifier
        self.markers: Markers
        self.moves: Moves
        self.groups: Groups
        self.group_transactions: GroupTransactions
        self.transactions: Transactions
        self.producer_ids: ProducerIds
        self.ledger: Ledger
        self.quotas = ClientQuotas((), settings, runtime.now_ms)
        self.client_metrics = ClientMetrics(dict, lambda: settings.telemetry_max_bytes)
        self.peers = Peers(runtime)
        self.standing_findings = StandingFindings(runtime)
        self.group_figures = GroupFigures()
        self.transaction_figures = TransactionFigures()
        self.transaction_history = TransactionHistory()

    def endpoint(self, listener: str) -> Endpoint:
        """The advertised address of a listener."""
        return self.endpoints[listener]
