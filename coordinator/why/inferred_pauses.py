"""What the commits of a group tell beside its generations: how long they paused, and that somebody set or removed them.

A commit in `__consumer_offsets` does not say who made it; its time and the group's state then are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator.why.inferred_departures import LastCommits, last_commits

TopicPartition = tuple[str, int]
Record = dict[str, Any]

_TOLD_MS = 1_000
_USUAL_SHARE = 2
_OFFSETS_MAX = 200


class _Span(NamedTuple):
    last_ms: int  # before the generation
    usual_ms: float  # between two commits, until then


class Commits:
    """Follows the commits of one group in the order of the log."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._last_ms: dict[TopicPartition, int] = {}
        self._usual_ms: dict[TopicPartition, float] = {}
        self._offset: dict[TopicPartition, int] = {}
        self._awaited: dict[TopicPartition, _Span] = {}
        self._open: Record | None = None  # the generation that is read on from

    def of(self, partitions: Iterable[TopicPartition], since_ms: int) -> LastCommits:
        """The last of these partitions, if there were any since then."""
        return last_commits(partitions, self._last_ms, self._usual_ms, since_ms)

    def began(self, record: Record) -> None:
        """A generation with members: until the first commit of each partition nothing says that it is read."""
        self._open = record
        self._awaited = {tp: _Span(last_ms, self._usual_ms.get(tp, 0.0)) for tp, last_ms in self._last_ms.items()}

    def follow(
        self, tp: TopicPartition, offset: int | None, at_ms: int, *, empty: bool, generation: int
    ) -> Record | None:
        """One commit, or the tombstone of one (`offset` is None). What it is, if nobody was in the group then."""
        before = self._offset.get(tp)
        if offset is None:
            self._offset.pop(tp, None)
            self._last_ms.pop(tp, None)
        else:
            self._offset[tp] = offset
            last_ms = self._last_ms.get(tp)
            if last_ms is not None and not empty and tp not in self._awaited:
                usual = self._usual_ms.get(tp)
                gap = float(max(at_ms - last_ms, 0))
                self._usual_ms[tp] = gap if usual is None else usual * 0.8 + gap * 0.2
            self._last_ms[tp] = at_ms
        span = self._awaited.pop(tp, None)
        if span is not None and offset is not None and not empty and self._open is not None:
            self._paused(tp, span, at_ms)
        if empty and before != offset:
            return self._changed(tp, before, offset, at_ms, generation)
        return None

    def _paused(self, tp: TopicPartition, span: _Span, at_ms: int) -> None:
        took_ms = at_ms - span.last_ms
        worst = (self._open or {}).get("paused")
        if took_ms < _TOLD_MS or took_ms < _USUAL_SHARE * span.usual_ms or self._open is None:
            return
        if worst is None or took_ms > worst["ms"]:
            self._open["paused"] = {
                "topic": tp[0],
                "partition": tp[1],
                "ms": took_ms,
                "usual_ms": int(span.usual_ms),
            }

    def _changed(
        self, tp: TopicPartition, before: int | None, offset: int | None, at_ms: int, generation: int
    ) -> Record:
        return {
            "version": 1,
            "kind": "offsets_changed",
            "source": "inferred",
            "at_ms": at_ms,
            "group_id": self._group_id,
            "generation": generation,
            "by": "client" if offset is not None else "removed",
            "client_id": None,
            "client_host": None,
            "offsets": [{"topic": tp[0], "partition": tp[1], "from": before, "to": offset}],
            "truncated": 0,
        }


def merged(found: list[Record], one: Record) -> None:
    """Add a change of offsets; those of one moment are one."""
    last = found[-1] if found else {}
    if last.get("kind") == "offsets_changed" and last["by"] == one["by"] and one["at_ms"] - last["at_ms"] < 1_000:
        if len(last["offsets"]) < _OFFSETS_MAX:
            last["offsets"] += one["offsets"]
        else:
            last["truncated"] += 1
        return
    found.append(one)
