"""What those who have not logged in may take of the loop, so that a crowd of them touches nobody who has.

On a listener with TLS or SASL every connection has a price until it has logged in: what it costs to accept it, and
what its first steps cost. Two buckets, each of half of `kohort.unauthenticated.percentage` of the time, pay these. Who
logs in gets the price back, so only the others are bounded. While the second bucket owes, new connections wait
outside, unread, and addresses take turns in being let in: ten thousand of one address hold up none of another. While
the first owes, these listeners accept nothing, and the system's queue fills; so that it does not fill with a few
addresses alone, the system drops for a while what comes from those that came most.

Source: docs/decisions/strangers.md.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.quotas.rates import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.loop.runtime import Runtime
    from broker.network.ports import OpenConnection

ACCEPT_NS = 100_000
"""Accepting and closing a connection, and the objects for it."""
FIRST_STEPS_NS = 100_000
"""Its first bytes, their answer, and the line that says how it ended."""
HANDSHAKE_NS = 700_000
"""A TLS handshake with an EC key, its way to a thread and back included."""
LOOK_MS = 10
"""How often it is looked who may come in, while somebody waits."""
OUTSIDE_MS = 30_000
"""Nobody waits for longer: clients have given up by then."""
MOST_OUTSIDE = 20_000
CROWD = 100
"""So many of one address in a second, none of whom has logged in, are a crowd."""
AWAY_MS = 2_000
"""How long a crowd's address is not listened to. Who tries once comes again after one second, and after three."""
_MOST_ADDRESSES = 16  # that are kept away at once
_WINDOW_MS = 1_000
_TOLD_EVERY_MS = 60_000
_SECONDS = 10  # that a bucket may have saved up for
_PERCENT_NS = 10_000_000  # of a second
_ALL = 100

log = get_logger(__name__)


class Door:
    """Of all listeners that ask who somebody is. `enter` lets one in, `accept` is told whether they are to accept,
    `turn_away` from which addresses nobody is to come to them; it says whether the system can do that.
    """

    def __init__(
        self,
        runtime: Runtime,
        percentage: int,
        enter: Callable[[OpenConnection], None],
        accept: Callable[[bool], None],
        turn_away: Callable[[Sequence[str]], bool],
    ) -> None:
        self._runtime = runtime
        self._enter = enter
        self._accept = accept
        self._turn_away = turn_away
        self._open = percentage >= _ALL
        self._bound = percentage * _PERCENT_NS / 2  # nanoseconds a second, of each bucket
        self._accepting = TokenBucket(_SECONDS, 1_000)
        self._entering = TokenBucket(_SECONDS, 1_000)
        # By address, the one whose turn it is first: who waits, and since when.
        self._outside: dict[str, deque[tuple[OpenConnection, int]]] = {}
        self.outside = 0
        """Connections that wait."""
        self.waited = 0
        """Those that had to."""
        self.turned_away = 0
        """Those of addresses that had too many waiting already, and those that waited for too long."""
        self._came: dict[str, int] = {}  # of each address since `_since_ms`, but for those who have logged in
        self._since_ms = 0
        self._away: list[str] = []  # addresses from which nobody comes for now
        self._told_ms = self._told_away_ms = 0
        self.shut = False
        """Whether listeners are to accept nothing."""

    def arrived(self, connection: OpenConnection) -> None:
        """A connection of nobody known: it is let in, waits outside, or is sent away."""
        if self._open:
            self._enter(connection)
            return
        now_ms = self._runtime.now_ms()
        self._accepting.take(ACCEPT_NS, self._bound, now_ms)
        if now_ms - self._since_ms >= _WINDOW_MS:
            self._since_ms = now_ms
            self._came.clear()
        self._came[connection.host] = self._came.get(connection.host, 0) + 1
        if not self.shut and self._accepting.tokens(self._bound, now_ms) < 0:
            self.shut = True
            self._accept(False)
            self._keep_crowds_away(now_ms)
            self._runtime.timers.set(("door", "shut"), now_ms + LOOK_MS, self._open_again)
        if not self.outside and self._entering.tokens(self._bound, now_ms) > 0:
            self._let_in(connection, now_ms)
            return
        waiting = self._outside.get(connection.host)
        if waiting is not None and len(waiting) >= MOST_OUTSIDE - self.outside:
            # As many as there is room left: one address has half of it at most, and the next one finds some.
            self.turned_away += 1
            connection.end()
            return
        connection.keep_outside()
        if waiting is None:
            waiting = self._outside[connection.host] = deque()
        waiting.append((connection, now_ms))
        self.outside += 1
        self.waited += 1
        if self.outside == 1:
            if now_ms - self._told_ms >= _TOLD_EVERY_MS:
                self._told_ms = now_ms
                log.warning(
                    "connections_wait_outside", why="too much was done of late for those who have not logged in"
                )
            self._runtime.timers.set(("door", "outside"), now_ms + LOOK_MS, self._look)

    def logged_in(self, connection: OpenConnection) -> None:
        """It is somebody: what it has cost does not count."""
        now_ms = self._runtime.now_ms()
        self._accepting.take(-ACCEPT_NS, self._bound, now_ms)
        self._entering.take(-connection.price_ns, self._bound, now_ms)
        connection.price_ns = 0
        if self._came.get(connection.host):
            self._came[connection.host] -= 1

    def end(self) -> None:
        """Send away who waits."""
        for name in ("outside", "shut", "away"):
            self._runtime.timers.cancel(("door", name))
        waiting, self._outside, self.outside = self._outside, {}, 0
        for each in waiting.values():
            for connection, _ in each:
                connection.end()

    # ---

    def _let_in(self, connection: OpenConnection, now_ms: int) -> None:
        connection.price_ns = FIRST_STEPS_NS + HANDSHAKE_NS if connection.shakes_hands else FIRST_STEPS_NS
        self._entering.take(connection.price_ns, self._bound, now_ms)
        self._enter(connection)

    def _look(self) -> None:
        now_ms = self._runtime.now_ms()
        while self._outside and self._entering.tokens(self._bound, now_ms) > 0:
            host = next(iter(self._outside))
            waiting = self._outside.pop(host)
            connection, since_ms = waiting.popleft()
            if waiting:
                self._outside[host] = waiting  # behind all others
            self.outside -= 1
            if connection.closed:
                continue
            if now_ms - since_ms >= OUTSIDE_MS:
                self.turned_away += 1
                connection.end()
            else:
                self._let_in(connection, now_ms)
        if self.outside:
            self._runtime.timers.set(("door", "outside"), now_ms + LOOK_MS, self._look)

    def _keep_crowds_away(self, now_ms: int) -> None:
        """Those who knock fill the queue in which the others wait, whom nobody can tell apart there."""
        crowds = [host for host, count in self._came.items() if count >= CROWD]
        crowds = sorted(crowds, key=self._came.__getitem__, reverse=True)
        away = list(dict.fromkeys(crowds + self._away))[:_MOST_ADDRESSES]
        if not crowds or not self._turn_away(away):
            return
        self._away = away
        self._runtime.timers.set(("door", "away"), now_ms + AWAY_MS, self._listen_to_all)
        if now_ms - self._told_away_ms >= _TOLD_EVERY_MS:
            self._told_away_ms = now_ms
            log.warning(
                "addresses_kept_away", addresses=",".join(away), ms=AWAY_MS, why="too many came who do not log in"
            )

    def _listen_to_all(self) -> None:
        self._away = []
        self._turn_away(())

    def _open_again(self) -> None:
        now_ms = self._runtime.now_ms()
        owed_ms = self._accepting.throttle_ms(self._bound, now_ms)
        if owed_ms:
            self._runtime.timers.set(("door", "shut"), now_ms + owed_ms, self._open_again)
        else:
            self.shut = False
            self._accept(True)
