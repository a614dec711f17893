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

log = get_logger(__name__)

_SPAN_MS = 1_000
_MOST_LINES = 100  # in a span
_LONGEST_NAME = 256


class Told(Protocol):
    """How a line is written: `Logger.info`."""

    def __call__(self, event: str, **facts: object) -> None:
        """One line."""


class Seen:
    """How often one decision was made in one span."""

    __slots__ = ("count", "over")

    def __init__(self) -> None:
        self.count = 1
        self.over = False  # the span


class Refusal:
    """One that is remembered: by which rule, and as what it was counted last."""

    __slots__ = ("rule", "seen")

    def __init__(self, rule: str, seen: Seen | None) -> None:
        self.rule = rule
        self.seen = seen


class Audit:
    """What is told of decisions. `at` calls back at a moment, in ms: who looks at the clock each time pays for it."""

    def __init__(self, now_ms: Callable[[], int], at: Callable[[int, Callable[[], None]], None]) -> None:
        self._now_ms = now_ms
        self._at = at
        self._span_ends_ms = 0
        self._seen: dict[tuple[str, int, int, str, bool], Seen] = {}  # in this span
        self._before: dict[tuple[str, int, int, str, bool], Seen] = {}  # in the span before
        self._left_out = 0

    def decided(
        self, allowed: bool, principal: str, host: str, operation: int, resource: int, name: str, rule: str
    ) -> Seen | None:
        """One decision. Returns as what it is counted in this span; None for one of too many."""
        now_ms = self._now_ms()
        if now_ms >= self._span_ends_ms:
            if self._left_out:
                log.info("authorization_denials_left_out", count=self._left_out)
            recent = now_ms - self._span_ends_ms < _SPAN_MS
            self._end_span()
            self._before, self._seen = (self._seen if recent else {}), {}
            self._span_ends_ms, self._left_out = now_ms + _SPAN_MS, 0
            self._at(self._span_ends_ms, self._end_span)
        key = (principal, operation, resource, name, allowed)
        seen = self._seen.get(key)
        if seen is not None:
            seen.count += 1
            return seen
        if len(self._seen) >= _MOST_LINES:
            self._left_out += 1
            return None
        seen = self._seen[key] = Seen()
        before = self._before.get(key)
        tell: Told = log.debug if allowed else log.info
        tell(
            "authorization_allowed" if allowed else "authorization_denied",
            principal=principal[:_LONGEST_NAME],
            host=host,
            operation=Operation(operation).name,
            resource=ResourceType(resource).name,
            name=name[:_LONGEST_NAME],
            rule=rule,
            count=1 if before is None else before.count,  # this one, and those not told in the second before
        )
        return seen

    def _end_span(self) -> None:
        """What is decided again is told again."""
        for seen in self._seen.values():
            seen.over = True
