"""Refused commits and joins, counted: of a client that tries again and again there is one record a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.events import CommitRefused, CommitsRefused, JoinRefused, JoinsRefused
from coordinator.values import altered

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.loop.runtime import Runtime
    from coordinator.events import GroupEvent

WINDOW_MS = 1_000
_WINDOWS_MAX = 10_000
_TOPICS_MAX = 20
_PROTOCOLS_MAX = 20

_Key = tuple[str, str, str, str]


class Refusals:
    """Collects those of a second per group, member and error; then tells one `commits_refused` or `joins_refused`."""

    def __init__(self, runtime: Runtime, tell: Callable[[GroupEvent], None]) -> None:
        self._runtime = runtime
        self._tell = tell
        self._windows: dict[_Key, GroupEvent] = {}

    def add(self, event: GroupEvent) -> None:
        """One commit or join was refused."""
        one = event.what
        assert isinstance(one, (CommitRefused, JoinRefused))
        # Who has no member id is known by its client id.
        key = event.group_id, event.kind, one.member_id or f"{one.client_id}@{one.client_host}", one.error
        known = self._windows.get(key)
        if known is not None:
            so_far = known.what
            if isinstance(so_far, CommitsRefused) and isinstance(one, CommitRefused):
                new = tuple([name for name in one.topics if name not in so_far.topics])
                topics = (*so_far.topics, *new)[:_TOPICS_MAX]
                self._windows[key] = altered(known, what=altered(so_far, count=so_far.count + 1, topics=topics))
            elif isinstance(so_far, JoinsRefused):
                self._windows[key] = altered(known, what=altered(so_far, count=so_far.count + 1))
            return
        counted = altered(event, what=_first(one))
        if len(self._windows) >= _WINDOWS_MAX:
            self._tell(counted)
            return
        self._windows[key] = counted
        deadline_ms = self._runtime.now_ms() + WINDOW_MS
        self._runtime.timers.set(("ledger_refusals", *key), deadline_ms, lambda: self._close(key))

    def close(self) -> None:
        """Tell of all that is counted so far."""
        for key in list(self._windows):
            self._runtime.timers.cancel(("ledger_refusals", *key))
            self._close(key)

    def _close(self, key: _Key) -> None:
        counted = self._windows.pop(key, None)
        if counted is not None:
            self._tell(counted)


def _first(one: CommitRefused | JoinRefused) -> CommitsRefused | JoinsRefused:
    who = one.member_id, one.client_id, one.client_host, one.error, 1
    if isinstance(one, CommitRefused):
        return CommitsRefused(*who, one.request_generation, one.topics)
    return JoinsRefused(*who, one.protocols[:_PROTOCOLS_MAX], one.group_protocols[:_PROTOCOLS_MAX])
