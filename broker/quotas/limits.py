"""What quotas ask of one connection under one client id: what it did is measured, and what it has to wait follows.

It has one request at a time, as in Kafka, so this remembers that request: `began`, perhaps `fetched` or `mutation`,
`answered`.

Source: Kafka's ClientRequestQuotaManager, ControllerMutationQuotaManager, KafkaApis (handleProduceRequest,
handleFetchRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.catalogue.topic_changes import Refused
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.quotas.entities import Entity
    from broker.quotas.meters import Meters

_PERCENT_PER_NS = 100 / 1_000_000_000

Held = tuple["Entity", float] | None
"""Whose meter, and the bound; None: nothing holds."""


class Limits:
    """Those of a connection."""

    __slots__ = (
        "_fetch",
        "_later_ns",
        "_loop_ns",
        "_meters",
        "_mutations",
        "_owed_until_ms",
        "_produce",
        "_request",
        "_waits_ms",
    )

    def __init__(self, meters: Meters, produce: Held, fetch: Held, request: Held, mutations: Held) -> None:
        self._meters = meters
        self._produce = produce
        self._fetch = fetch
        self._request = request
        self._mutations = mutations
        self._loop_ns = 0
        self._later_ns = 0  # of that, what was worked for requests that are answered
        self._waits_ms: int | None = None  # what the answer says, once it is known
        self._owed_until_ms = 0

    # --- one request, in this order

    def began(self) -> None:
        """A request has come. What was worked after the answer before it said how long to wait counts with this one."""
        self._later_ns = self._loop_ns
        self._waits_ms = None
        self._owed_until_ms = 0

    def took(self, ns: int) -> None:
        """The loop has worked for it so long."""
        self._loop_ns += ns

    def produced(self, size_bytes: int) -> None:
        """It is a Produce of so many bytes, done already."""
        if self._produce is not None:
            quota, (entity, bound), now_ms = self._meters.produce, self._produce, self._meters.now_ms()
            meter = quota.meters.of(entity, now_ms)
            meter.record(size_bytes, now_ms)
            self._owes(quota.told(meter.throttle_ms(bound, now_ms)))

    @property
    def most_fetched_bytes(self) -> int | None:
        """What an answer to a Fetch may hold at most, so that the quota can be kept at all; None: anything."""
        if self._fetch is None:
            return None
        meters = self._meters
        return int(min(self._fetch[1] * meters.most_windows * meters.window_ms / 1_000, 2**31 - 1))

    @property
    def measures_fetches(self) -> bool:
        """Whether the size of an answer counts."""
        return self._fetch is not None

    def fetched(self, size_bytes: int) -> int:
        """The ms to wait instead of being told these bytes, 0: they may be told."""
        if self._fetch is not None:
            quota, (entity, bound), now_ms = self._meters.fetch, self._fetch, self._meters.now_ms()
            meter = quota.meters.of(entity, now_ms)
            meter.record(size_bytes, now_ms)
            waits_ms = quota.told(meter.throttle_ms(bound, now_ms))
            self._owes(waits_ms)
            if self.answered():
                meter.record(-size_bytes, now_ms)
        return self.answered()

    def mutation(self, *, strict: bool, told: bool = True) -> Callable[[int], None] | None:
        """What pays for partitions that are made or deleted; with `strict` it raises Refused while others are owed.

        With `told` the answer says how long to wait. None: nothing is to be paid.
        """
        if self._mutations is None:
            return None
        meters, (entity, bound) = self._meters, self._mutations

        def pay(partitions: int) -> None:
            now_ms = meters.now_ms()
            bucket = meters.mutations.meters.of(entity, now_ms)
            owes = bucket.tokens(bound, now_ms) < 0
            if not (strict and owes):
                bucket.take(partitions, bound, now_ms)
            if owes or not strict:
                waits_ms = meters.mutations.told(bucket.throttle_ms(bound, now_ms))
                if told:
                    self._owes(waits_ms)
            if strict and owes:
                error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                raise Refused(error, error.message)

        return pay

    def answered(self, *, exempt: bool = False) -> int:
        """The ms that its answer says and its connection is not heard; the same however often it is asked."""
        if self._waits_ms is None:
            now_ms = self._meters.now_ms()
            waits_ms = max(self._owed_until_ms - now_ms, 0)
            if exempt:
                self._loop_ns = self._later_ns
            elif self._request is not None:
                quota, (entity, bound) = self._meters.request, self._request
                meter = quota.meters.of(entity, now_ms)
                meter.record(self._loop_ns * _PERCENT_PER_NS, now_ms)
                self._loop_ns = 0
                over_ms = min(meter.throttle_ms(bound, now_ms), self._meters.window_ms)
                waits_ms = max(waits_ms, quota.told(over_ms))
            self._waits_ms = waits_ms
        return self._waits_ms

    def _owes(self, waits_ms: int) -> None:
        if waits_ms:
            self._owed_until_ms = max(self._owed_until_ms, self._meters.now_ms() + waits_ms)
