"""Which connections members speak over, and what became of those: whether one died or hung only its connections say.

A heartbeat costs nothing here: a connection notes when bytes came, and members are tied to it when they join.

Always true: a connection that closed is remembered for `KEPT_MS`, and of all clients no more than `CLOSED_MAX`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.loop.runtime import Runtime

KEPT_MS = 15 * 60_000
CLOSED_MAX = 10_000

Facts = dict[str, Any]
_Key = tuple[str, str]


class Peer:
    """One connection. Moments: `heard_ns` of the monotonic clock, the others ms since 1970."""

    __slots__ = ("client", "closed_ms", "heard_ns", "how", "members", "opened_ms")

    def __init__(self) -> None:
        self.client: _Key | None = None  # client id and host, once a request has come
        self.opened_ms = 0
        self.heard_ns = 0  # when bytes of it were last looked at
        self.closed_ms: int | None = None
        self.how = ""  # `end of file`, `reset` or `broker`
        self.members: set[_Key] = set()  # (group id, member id) of those that joined over it


class Peers:
    """All connections that have said who they are."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._by_client: dict[_Key, dict[Peer, None]] = {}
        self._by_member: dict[_Key, Peer] = {}
        self._closed: deque[Peer] = deque()
        self.awaited: set[_Key] = set()
        """Members whose next heartbeat tells something: their connection closed, or they are gone."""
        self.join_listeners: list[Callable[[Peer, str], None]] = []
        """Told of every member that joins, with the group's id."""
        self.return_listeners: list[Callable[[Peer, str, str], None]] = []
        """Told of a heartbeat of an awaited member that is gone, with its group's id and its own."""

    def named(self, peer: Peer, client_id: str, host: str) -> None:
        """A request has said whose connection this is."""
        client = client_id, host
        if peer.client != client:
            self._leave_client(peer)
            peer.client = client
            peer.opened_ms = peer.opened_ms or self._runtime.now_ms()
            self._by_client.setdefault(client, {})[peer] = None

    def joined(self, peer: Peer, group_id: str, member_id: str) -> None:
        """A member speaks over this connection."""
        if self._tied(peer, (group_id, member_id)):
            for listener in self.join_listeners:
                listener(peer, group_id)

    def heard(self, peer: Peer, group_id: str, member_id: str) -> None:
        """A heartbeat came over this connection: of an awaited member, perhaps."""
        key = group_id, member_id
        if key not in self.awaited:
            return
        self.awaited.discard(key)
        if key in self._by_member:
            self._tied(peer, key)
        else:
            for listener in self.return_listeners:
                listener(peer, group_id, member_id)

    def _tied(self, peer: Peer, key: _Key) -> bool:
        """Whether it was not before."""
        before = self._by_member.get(key)
        if before is peer:
            return False
        if before is not None:
            before.members.discard(key)
        self._by_member[key] = peer
        peer.members.add(key)
        self.awaited.discard(key)
        return True

    def closed(self, peer: Peer, how: str) -> None:
        """It is gone."""
        if peer.client is None:
            return
        now_ms = self._runtime.now_ms()
        peer.closed_ms, peer.how = now_ms, how
        self.awaited |= peer.members
        closed = self._closed
        closed.append(peer)
        while closed and (len(closed) > CLOSED_MAX or (closed[0].closed_ms or 0) < now_ms - KEPT_MS):
            self._forget(closed.popleft())

    def of(self, group_id: str, member_id: str) -> Peer | None:
        """The connection over which the member joined last, as far as it is remembered."""
        return self._by_member.get((group_id, member_id))

    def gone(self, group_id: str, member_id: str) -> Peer | None:
        """As `of`; the member is no more."""
        peer = self._by_member.pop((group_id, member_id), None)
        if peer is not None:
            peer.members.discard((group_id, member_id))
            self.awaited.discard((group_id, member_id))
        return peer

    def namesakes(self, peer: Peer, *, besides: Peer | None = None) -> list[Peer]:
        """Open connections of other members whose client id and host are the same: other processes, as a rule."""
        there = self._open(peer.client) if peer.client is not None else []
        return [one for one in there if one not in (peer, besides) and one.members]

    def survivors(self, peer: Peer, at_ms: int, *, besides: Peer | None = None) -> list[Peer]:
        """Open connections of the same client that it had at that moment; none where others share its name."""
        there = self._open(peer.client) if peer.client is not None else []
        others = [one for one in there if one not in (peer, besides)]
        return [one for one in others if one.opened_ms <= at_ms] if not any(one.members for one in others) else []

    def heard_since(self, peers: Iterable[Peer], at_ms: int) -> bool:
        """Whether anything came over one of these since then."""
        ago_ns = (self._runtime.now_ms() - at_ms) * 1_000_000
        return any(one.heard_ns > self._runtime.clock_ns() - ago_ns for one in peers)

    def facts(self, group_id: str, member_id: str) -> Facts | None:
        """The state of a member's connections; None when nothing is known of them.

        `state` is `open` or `closed` (`how`, `closed_ms` ago); `quiet_ms`: for so long nothing came over any of its
        client's open connections, of which there are `open`. With `shared` others have that client's id and host, and
        only the connection over which the member spoke itself is looked at.
        """
        peer = self._by_member.get((group_id, member_id))
        if peer is None or peer.client is None:
            return None
        now_ms, now_ns = self._runtime.now_ms(), self._runtime.clock_ns()
        if peer.closed_ms is not None:
            # Who connected again after that speaks over another one, if it is the same process.
            later = [one for one in self._open(peer.client) if one.opened_ms >= peer.closed_ms]
            older = any(one.opened_ms < peer.closed_ms for one in self.namesakes(peer))
            if not later or older:
                return {"state": "closed", "how": peer.how, "closed_ms": max(now_ms - peer.closed_ms, 0)}
            found: Facts = {"state": "open", "again": True, "open": len(later), "quiet_ms": _quiet_ms(later, now_ns)}
            return found | _joined_again(later, group_id, member_id)
        own_ms = max(now_ns - peer.heard_ns, 0) // 1_000_000
        there = list(self._open(peer.client))
        found = {"state": "open", "open": len(there), "own_quiet_ms": own_ms, "quiet_ms": _quiet_ms(there, now_ns)}
        if self.namesakes(peer):
            found |= {"open": 1, "quiet_ms": own_ms, "shared": True}
        return found | _joined_again([peer], group_id, member_id)

    def _open(self, client: _Key) -> Iterable[Peer]:
        return [one for one in self._by_client.get(client, ()) if one.closed_ms is None]

    def _leave_client(self, peer: Peer) -> None:
        there = self._by_client.get(peer.client) if peer.client is not None else None
        if there is not None:
            there.pop(peer, None)
            if not there and peer.client is not None:
                del self._by_client[peer.client]

    def _forget(self, peer: Peer) -> None:
        self._leave_client(peer)
        for key in peer.members:
            if self._by_member.get(key) is peer:
                del self._by_member[key]
                self.awaited.discard(key)


def _joined_again(peers: Iterable[Peer], group_id: str, member_id: str) -> Facts:
    """Whether the client is in the group under another member id too."""
    others = any(group == group_id and other != member_id for one in peers for group, other in one.members)
    return {"joined_again": True} if others else {}


def _quiet_ms(peers: Iterable[Peer], now_ns: int) -> int:
    return max(now_ns - max((one.heard_ns for one in peers), default=now_ns), 0) // 1_000_000
