"""The quotas of the metadata log: whom they hold, as it is now. A listener of the catalogue.

Source: Kafka's ClientQuotaMetadataManager.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from broker.catalogue.listeners import Rereading
from broker.catalogue.topics_delta import TopicsListener
from broker.quotas.entities import CONNECTIONS, IP, counting, entity_of
from broker.quotas.limits import Limits
from broker.quotas.meters import Meters
from protocol.records.metadata_records import ClientQuotaRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.catalogue.cluster_state import ClusterState
    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.config.settings import Settings


class ClientQuotas(TopicsListener, Rereading):
    """The quotas that the metadata log holds, and which of them holds for a user, a client id or an address."""

    def __init__(self, records: Iterable[ClientQuotaRecord], settings: Settings, now_ms: Callable[[], int]) -> None:
        self.meters = meters = Meters(settings, now_ms)
        self._every = (meters.produce, meters.fetch, meters.request, meters.mutations)
        self.by_address: dict[str | None, float] = {}
        """New connections a second, of an address; None: of each that is not named."""
        self.on_change: list[Callable[[], None]] = []
        self._take(records)

    def limits(self, principal: str, client_id: str) -> Limits | None:
        """What they ask of connections of `User:alice` under a client id; None: nothing."""
        user = principal.partition(":")[2]
        found = [None if not quota.values else counting(quota.values, user, client_id) for quota in self._every]
        return Limits(self.meters, *found) if any(found) else None

    def of_address(self, host: str) -> float | None:
        """How many connections a second an address may make; None: any number."""
        named = self.by_address.get(host)
        return self.by_address.get(None) if named is None else named

    # --- the catalogue's

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:
        """Quotas have changed, perhaps."""
        changed = [record for record in delta.rights if isinstance(record, ClientQuotaRecord)]
        if changed:
            for record in changed:
                self._apply(record)
            self._tell()

    def reread(self, state: ClusterState) -> None:
        """Quotas are what `state` says."""
        for quota in self._every:
            quota.values.clear()
        self.by_address.clear()
        self._take(state.kept.quotas.values())
        self._tell()

    def _take(self, records: Iterable[ClientQuotaRecord]) -> None:
        for record in records:
            self._apply(record)

    def _tell(self) -> None:
        for told in self.on_change:
            told()

    def _apply(self, record: ClientQuotaRecord) -> None:
        values: dict[Any, float] | None
        name: Any
        if record.entity[0].entity_type == IP:
            values = self.by_address if record.key == CONNECTIONS else None
            name = _address(record.entity[0].entity_name)
        else:
            values = next((quota.values for quota in self._every if quota.key == record.key), None)
            name = entity_of(record.entity)
        if values is None:
            return
        if record.remove:
            values.pop(name, None)
        else:
            values[name] = record.value


def _address(name: str | None) -> str | None:
    """As the socket of a peer says it."""
    try:
        return name if name is None else str(ip_address(name))
    except ValueError:
        return name
