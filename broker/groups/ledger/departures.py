"""What is seen of members after they left or were taken out: whether their connections closed, and who came back.

That tells a process that ended from one that was too slow, hung or was paused (`coordinator.why.verdicts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.events import DepartureTraced, MemberExpelled, MemberLeft, SessionExpired
from coordinator.values import altered
from coordinator.why.window import TRACED_AFTER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.groups.peers import Peer, Peers
    from broker.loop.runtime import Runtime
    from coordinator.cause import Cause
    from coordinator.events import GroupEvent

WATCHED_MS = 15 * 60_000
TRACES_MAX = 10_000
_UNTRACED = frozenset({"member_removed", "poll_timeout"})
"""Somebody else did it, or the client has said why."""

_Key = tuple[str, str, str]


class _Trace:
    __slots__ = ("back", "cause", "event", "peer")

    def __init__(self, event: GroupEvent, cause: Cause, peer: Peer) -> None:
        self.event = event
        self.cause = cause
        self.peer = peer
        self.back: Peer | None = None  # over which it was heard of again


class Departures:
    """A listener of `Groups` and of `Peers`; `tell` gets one or two events of each departure."""

    def __init__(self, runtime: Runtime, peers: Peers, tell: Callable[[GroupEvent], None]) -> None:
        self._runtime = runtime
        self._peers = peers
        self._tell = tell
        self._traces: dict[_Key, dict[str | None, _Trace]] = {}  # by group, client id and host; by member id
        self._of_peers: dict[tuple[_Key, Peer], dict[str | None, _Trace]] = {}  # the same, by connection too
        self._back: dict[tuple[_Key, Peer], _Trace] = {}  # by the connection over which one was heard of again
        self._count = 0
        peers.join_listeners.append(self.joined)
        peers.return_listeners.append(self.heard_again)

    def happened(self, event: GroupEvent) -> None:
        """Somebody may have gone."""
        what = event.what
        if not isinstance(what, (MemberLeft, SessionExpired, MemberExpelled)):
            return
        cause = what.cause
        peer = self._peers.gone(event.group_id, cause.member_id or "")
        if peer is None or peer.client is None or peer.closed_ms is not None or cause.trigger in _UNTRACED:
            return
        key = (event.group_id, *peer.client)
        earlier = self._traces.get(key, {}).get(cause.member_id)
        if earlier is not None:
            self._drop(key, earlier)  # it came back under the same id: their timer is one
        if self._count >= TRACES_MAX:
            return
        trace = _Trace(event, cause, peer)
        self._traces.setdefault(key, {})[cause.member_id] = trace
        self._of_peers.setdefault((key, peer), {})[cause.member_id] = trace
        self._count += 1
        self._peers.awaited.add((event.group_id, cause.member_id or ""))
        self._later(key, trace, TRACED_AFTER_MS, self._look)

    def heard_again(self, peer: Peer, group_id: str, member_id: str) -> None:
        """A member that had gone does not know it yet: its process lives, and is known whoever shares its name."""
        if peer.client is None:
            return
        key = (group_id, *peer.client)
        trace = self._traces.get(key, {}).get(member_id)
        if trace is not None:
            trace.back = peer
            self._back[key, peer] = trace

    def joined(self, peer: Peer, group_id: str) -> None:
        """A member joins over this connection: one that had gone from the group, perhaps."""
        if peer.client is None or not self._traces:
            return
        key = (group_id, *peer.client)
        own = next(iter(self._of_peers.get((key, peer), {}).values()), None)
        same: bool | None = own is not None
        traces, back = self._traces.get(key, {}), self._back.get((key, peer))
        if own is None and (back is not None or len(traces) == 1):
            # The Java client gives the connection to its coordinator up, and keeps the others.
            only = back if back is not None else next(iter(traces.values()))
            shared = bool(self._peers.namesakes(only.peer, besides=peer))
            rest = self._peers.survivors(only.peer, only.cause.at_ms, besides=peer)
            same = None if shared else self._peers.heard_since(rest, only.cause.at_ms)
            own = only if back is not None or same or (not shared and only.peer.closed_ms is None) else None
        if own is not None:
            self._drop(key, own)
            self._told(own, "returned", same=same)

    def _look(self, key: _Key, trace: _Trace) -> None:
        if trace.peer.closed_ms is not None and not self._peers.survivors(trace.peer, trace.cause.at_ms):
            self._told(trace, "closed")
            if not self._peers.namesakes(trace.peer):
                self._drop(key, trace)
                return
        else:
            self._told(trace, "open")
        self._later(key, trace, WATCHED_MS, self._drop)

    def _told(self, trace: _Trace, saw: str, *, same: bool | None = None) -> None:
        now_ms, cause, peer = self._runtime.now_ms(), trace.cause, trace.peer
        closed_ms = peer.closed_ms
        what = DepartureTraced(
            cause.member_id,
            cause.instance_id,
            cause.client_id,
            cause.client_host,
            cause.trigger,
            cause.at_ms,
            saw,
            (closed_ms if saw == "closed" and closed_ms is not None else now_ms) - cause.at_ms,
            peer.how if saw == "closed" else None,
            same,
        )
        self._tell(altered(trace.event, what=what, at_ms=now_ms))

    def _later(self, key: _Key, trace: _Trace, after_ms: int, then: Callable[[_Key, _Trace], None]) -> None:
        name = ("departure", trace.event.group_id, trace.cause.member_id)
        self._runtime.timers.set(name, self._runtime.now_ms() + after_ms, lambda: then(key, trace))

    def _drop(self, key: _Key, trace: _Trace) -> None:
        member_id, traces = trace.cause.member_id, self._traces.get(key, {})
        if traces.get(member_id) is not trace:
            return
        self._count -= 1
        self._runtime.timers.cancel(("departure", trace.event.group_id, member_id))
        self._peers.awaited.discard((trace.event.group_id, member_id or ""))
        if trace.back is not None:
            self._back.pop((key, trace.back), None)
        of_peer = self._of_peers[key, trace.peer]
        del traces[member_id], of_peer[member_id]
        if not traces:
            del self._traces[key]
        if not of_peer:
            del self._of_peers[key, trace.peer]
