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

K = TypeVar("K")
M = TypeVar("M", Rate, TokenBucket)


class Kept(Generic[K, M]):
    """Meters by whom they hold. From `least` on the idle ones are forgotten each time that there are twice as many."""

    def __init__(self, make: Callable[[], M], least: int) -> None:
        self._make: Callable[[], M] = make
        self._least = self._sweep_at = least
        self._meters: dict[K, M] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, whom: K, now_ms: int) -> M:
        """The meter of those who share it."""
        found = self._meters.get(whom)
        if found is None:
            if len(self._meters) >= self._sweep_at:
                self._meters = {key: meter for key, meter in self._meters.items() if not meter.is_idle(now_ms)}
                self._sweep_at = max(self._least, 2 * len(self._meters))
            found = self._meters[whom] = self._make()
        return found


class Quota(Generic[M]):
    """One key: its values, and the meters of those that it holds."""

    def __init__(self, key: str, make: Callable[[], M]) -> None:
        self.key = key
        self.values: dict[Entity, float] = {}
        self.meters: Kept[Entity, M] = Kept(make, _SWEPT_AT)
        self.throttled = 0
        """Answers that were held against it and found too many."""
        self.throttled_ms = 0

    def told(self, throttle_ms: int) -> int:
        """Count somebody's waiting; what it takes."""
        if throttle_ms:
            self.throttled += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


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
