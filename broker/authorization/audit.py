"""Decisions as events: `authorization_denied`, and at the level debug `authorization_allowed`.

The same refusal is told at most once a second, with a count of those before it; all refusals together at most a hundred
times a second, with a count of those that were left out.

Source: Kafka's StandardAuthorizerData.logAuditMessage (`kafka.authorizer.logger`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.authorization.acl_types import Operation, ResourceType
from broker.loop.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

log = get_logger()

_SPAN_MS = 1_000
_MOST_LINES = 100  # in a span
_LONGEST_NAME = 256


class Told(Protocol):
    """How a line is written: `Logger.info`."""

    def __call__(self, event: str, **facts: object) -> None:
        """One line."""


class Audit:
    """What is told of decisions."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._span_ends_ms = 0
        self._seen: dict[tuple[str, int, int, str, bool], int] = {}  # in this span -> how often
        self._before: dict[tuple[str, int, int, str, bool], int] = {}  # in the span before
        self._left_out = 0

    def decided(
        self, allowed: bool, principal: str, host: str, operation: int, resource: int, name: str, rule: str
    ) -> None:
        """One decision."""
        now_ms = self._now_ms()
        if now_ms >= self._span_ends_ms:
            if self._left_out:
                log.info("authorization_denials_left_out", count=self._left_out)
            recent = now_ms - self._span_ends_ms < _SPAN_MS
            self._before, self._seen = (self._seen if recent else {}), {}
            self._span_ends_ms, self._left_out = now_ms + _SPAN_MS, 0
        key = (principal, operation, resource, name, allowed)
        count = self._seen.get(key, 0)
        if count or len(self._seen) < _MOST_LINES:
            self._seen[key] = count + 1
        else:
            self._left_out += 1
            return
        if count:
            return
        tell: Told = log.debug if allowed else log.info
        tell(
            "authorization_allowed" if allowed else "authorization_denied",
            principal=principal[:_LONGEST_NAME],
            host=host,
            operation=Operation(operation).name,
            resource=ResourceType(resource).name,
            name=name[:_LONGEST_NAME],
            rule=rule,
            count=1 + max(self._before.get(key, 0) - 1, 0),  # this one, and those not told in the second before
        )
