"""Each quota that clients are held against, and the meters of those whom it holds.

A meter is shared by all whom one quota holds together, outlives changes of its bound, and is forgotten when that makes
no difference any more.

Source: Kafka's ClientQuotaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from broker.quotas.entities import CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT
from broker.quotas.rates import Rate, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.config.settings import Settings
    from broker.quotas.entities import Entity

_SWEPT_AT = 1_000  # meters, the least

M = TypeVar("M", Rate, TokenBucket)


class Quota(Generic[M]):
    """One key: its values, and the meters of those that it holds."""

    def __init__(self, key: str, make: Callable[[], M]) -> None:
        self.key = key
        self.values: dict[Entity, float] = {}
        self.meters: dict[Entity, M] = {}
        self.throttled = 0
        """Answers that were held against it and found too many."""
        self.throttled_ms = 0
        self._make: Callable[[], M] = make
        self._sweep_at = _SWEPT_AT

    def meter(self, entity: Entity, bound: float, now_ms: int) -> M:
        """The meter of those who share it."""
        found = self.meters.get(entity)
        if found is None:
            if len(self.meters) >= self._sweep_at:
                self._sweep(now_ms)
            found = self.meters[entity] = self._make()
        return found

    def told(self, throttle_ms: int) -> int:
        """Count somebody's waiting; what it takes."""
        if throttle_ms:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        return throttle_ms

    def _sweep(self, now_ms: int) -> None:
        self.meters = {entity: meter for entity, meter in self.meters.items() if not meter.is_idle(now_ms)}
        self._sweep_at = max(_SWEPT_AT, 2 * len(self.meters))


class Meters:
    """Those of all quotas but that of addresses."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        num, window_ms = settings.quota_window_num, settings.quota_window_size_seconds * 1_000
        of_control = settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1_000
        self.now_ms = now_ms
        self.window_ms = window_ms
        self.most_windows = num - 1
        self.produce = Quota(PRODUCER_BYTES, lambda: Rate(num, window_ms))
        self.fetch = Quota(CONSUMER_BYTES, lambda: Rate(num, window_ms))
        self.request = Quota(REQUEST_PERCENT, lambda: Rate(num, window_ms))
        self.mutations = Quota(MUTATIONS, lambda: TokenBucket(*of_control))
