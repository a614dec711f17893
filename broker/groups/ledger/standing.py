"""Which groups have findings now: what `kohort_group_finding` tells, worked out a few groups at a time, when asked.

A group is looked at anew when the ledger has a new record of it, and every `STALE_MS`, for what only the group itself
says. Findings of weight alone: hints are nothing to alert on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.why.window import JUDGED
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.groups.ledger.ledger import Ledger
    from broker.loop.runtime import Runtime

RECENT_MS = 60 * 60_000
"""What a finding is made of happened since then: it ends by itself when things are well again."""
STALE_MS = 5 * 60_000
AT_ONCE = 10
GROUPS_MAX = 100_000
_Found = tuple[int, tuple[tuple[str, int], ...]]


class StandingFindings:
    """A listener of the ledger's records."""

    def __init__(self, runtime: Runtime) -> None:
        self.ledger: Ledger | None = None  # put in its place by `broker.composition`
        self._runtime = runtime
        self._changed: dict[str, None] = {}
        self._found: dict[str, _Found] = {}  # when it was looked at, and (rule, last moment), of those with any
        self._looks: list[
            list[str]
        ] = []  # the group that each who asks looks at now; emptied if it is removed meanwhile

    def on_ledger(self, record: Mapping[str, Any]) -> None:
        """The group is to be looked at."""
        group_id = record["group_id"]
        if record["kind"] == "group_removed":
            self._changed.pop(group_id, None)
            self._found.pop(group_id, None)
            for look in self._looks:
                if group_id in look:
                    look.clear()
        elif len(self._changed) < GROUPS_MAX:
            self._changed[group_id] = None

    def refreshed(self) -> Iterator[None]:
        """Look at some groups, in steps: those that changed, then those that were looked at longest ago."""
        if self.ledger is None or not self.ledger.enabled:
            return
        now_ms = self._runtime.now_ms()
        due = list(self._changed)[:AT_ONCE]
        if len(due) < AT_ONCE:
            stale = [group_id for group_id, (at_ms, _) in self._found.items() if at_ms < now_ms - STALE_MS]
            due += [group_id for group_id in stale if group_id not in self._changed][: AT_ONCE - len(due)]
        look: list[str] = []
        self._looks.append(look)
        try:
            for group_id in due:
                if group_id in self._changed or group_id in self._found:  # it may have been removed meanwhile
                    look[:] = [group_id]
                    yield from self._look_at(group_id, now_ms, look)
        finally:
            self._looks = [one for one in self._looks if one is not look]

    def _look_at(self, group_id: str, now_ms: int, look: list[str]) -> Iterator[None]:
        assert self.ledger is not None
        self._changed.pop(group_id, None)
        try:
            found, _ = yield from self.ledger.findings_in_steps(group_id, JUDGED, since_ms=now_ms - RECENT_MS)
        except KafkaError:
            if look:
                self._changed[group_id] = None  # its log cannot be read now
            return
        told = tuple([(one["rule"], one["last_at_ms"] or now_ms) for one in found if one["severity"] == "warning"])
        if look and told:
            self._found[group_id] = now_ms, told
        else:
            self._found.pop(group_id, None)

    def standing(self) -> Iterator[tuple[str, str]]:
        """(group id, rule) of what was found, and is not over."""
        since_ms = self._runtime.now_ms() - RECENT_MS
        for group_id, (_, found) in list(self._found.items()):
            for rule, last_ms in found:
                if last_ms >= since_ms:
                    yield group_id, rule
