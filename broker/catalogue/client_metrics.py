"""What clients are asked to measure, and that they did: subscriptions, the clients that know of them, what they pushed.

Values that are pushed are counted, not looked into. A client counts as known for three of its push intervals.

Source: KIP-714; Kafka's ClientMetricsManager, ClientMetricsInstance.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

from broker.catalogue.cluster_state import CLIENT_METRICS_RESOURCE
from broker.config.client_metrics_configs import DEFAULT_INTERVAL_MS, INTERVAL_MS, MATCH, METRICS, patterns
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Configs = Mapping[tuple[int, str], Mapping[str, str]]

MOST_INSTANCES = 16_384
_LEAST_KNOWN_MS = 60_000
_CODECS = range(5)  # none, gzip, snappy, lz4, zstd


class Instance:
    """One client as it was last heard of. Times are in ms, 0 for never."""

    __slots__ = ("error", "interval_ms", "metrics", "pushed_ms", "requested_ms", "subscription_id", "terminating")

    def __init__(self, metrics: tuple[str, ...], interval_ms: int, subscription_id: int) -> None:
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.subscription_id = subscription_id
        self.requested_ms = self.pushed_ms = 0
        self.error = ErrorCode.NONE
        self.terminating = False

    def may_ask(self, now_ms: int) -> bool:
        """Whether it waited for its interval; it is noted then."""
        if now_ms - max(self.requested_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.requested_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether it waited for its interval, or has just been told what to push; it is noted then."""
        if self.requested_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class ClientMetrics:
    """The subscriptions, and the clients that asked for them."""

    def __init__(self, configs: Callable[[], Configs], max_bytes: Callable[[], int]) -> None:
        self.configs = configs  # of everything
        self._max_bytes = max_bytes
        self._instances: dict[bytes, Instance] = {}  # the one heard of longest ago first
        self.pushes: Counter[str] = Counter()  # by the name of the error, NONE among them
        self.pushed_bytes = 0

    @property
    def wanted(self) -> bool:
        """Whether anything is asked of any client."""
        return any(kind == CLIENT_METRICS_RESOURCE for kind, _ in self.configs())

    def known(self, now_ms: int) -> int:
        """How many clients have been heard of lately."""
        return sum(
            now_ms - max(one.requested_ms, one.pushed_ms) <= max(_LEAST_KNOWN_MS, 3 * one.interval_ms)
            for one in self._instances.values()
        )

    def subscription(self, instance_id: bytes, client: Mapping[str, str], now_ms: int) -> tuple[ErrorCode, Instance]:
        """What a client is to push. `client`: its attributes, as `match` names them."""
        one = self._heard_of(instance_id, client)
        after_error = one.error in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if not one.may_ask(now_ms) and not after_error:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, one
        one.error = ErrorCode.NONE
        return ErrorCode.NONE, one

    def push(
        self,
        instance_id: bytes,
        client: Mapping[str, str],
        now_ms: int,
        *,
        subscription_id: int,
        codec: int,
        size_bytes: int,
        terminating: bool,
    ) -> ErrorCode:
        """Count what a client has pushed, or say why not."""
        if int.from_bytes(instance_id) in (0, 1):
            error = ErrorCode.INVALID_REQUEST
        else:
            one = self._heard_of(instance_id, client)
            error = one.error = self._judged(one, now_ms, subscription_id, codec, size_bytes, terminating)
            one.terminating = terminating
        self.pushes[error.name] += 1
        if error is ErrorCode.NONE:
            self.pushed_bytes += size_bytes
        return error

    def _judged(
        self, one: Instance, now_ms: int, subscription_id: int, codec: int, size_bytes: int, terminating: bool
    ) -> ErrorCode:
        if one.terminating:
            return ErrorCode.INVALID_REQUEST
        if not one.may_push(now_ms) and not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != one.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if size_bytes > self._max_bytes():
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _heard_of(self, instance_id: bytes, client: Mapping[str, str]) -> Instance:
        metrics, interval_ms = self._subscribed_by(client)
        crc = zlib.crc32(f"{metrics}{interval_ms}".encode()) ^ zlib.crc32(instance_id)
        subscription_id = crc - (1 << 32) if crc >> 31 else crc
        one = self._instances.pop(instance_id, None)
        if one is None or one.subscription_id != subscription_id:
            one = Instance(metrics, interval_ms, subscription_id)
        self._instances[instance_id] = one
        if len(self._instances) > MOST_INSTANCES:
            del self._instances[next(iter(self._instances))]
        return one

    def _subscribed_by(self, client: Mapping[str, str]) -> tuple[tuple[str, ...], int]:
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for (kind, _), overrides in self.configs().items():
            if kind != CLIENT_METRICS_RESOURCE:
                continue
            wanted = patterns(overrides.get(MATCH) or "").items()
            if all(pattern.fullmatch(client[attribute]) for attribute, pattern in wanted):
                metrics.update(part.strip() for part in overrides.get(METRICS, "").split(",") if part.strip())
                interval_ms = min(interval_ms, int(overrides.get(INTERVAL_MS) or DEFAULT_INTERVAL_MS))
        return (("*",) if "*" in metrics else tuple(sorted(metrics))), interval_ms
