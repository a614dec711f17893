"""Who is let in: at once, later, or not at all.

A connection over `max.connections` (of the broker or its listener) waits until another goes, and so do those behind it:
its listener accepts nothing meanwhile, and the system's queue fills. One that comes faster than
`max.connection.creation.rate` allows waits for a second at most. Over `max.connections.per.ip` it is closed; of an
address that connects faster than its quota it is held for a while, unheard, and then closed. While descriptors are
short no listener accepts. Where somebody has to log in `broker.network.door` comes before all of this.

Source: KIP-402, KIP-612; Kafka's SocketServer (ConnectionQuotas).
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from broker.network.door import Door
from broker.quotas.meters import Kept
from broker.quotas.rates import Rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.broker import Broker
    from broker.network.listener_security import ListenerSecurity
    from broker.network.ports import OpenConnection

log = get_logger(__name__)

NO_RATE = 2**31 - 1
_SHORT_LOOK_MS = 100
_TOLD_EVERY_MS = 60_000
_MOST_RATES = 10_000  # addresses that are measured before those that are quiet are forgotten


class _Waiting:
    """A connection that is there and not let in."""

    __slots__ = ("connection", "until_ms")

    def __init__(self, connection: OpenConnection) -> None:
        self.connection = connection
        self.until_ms: int | None = None  # known when it is the first of its listener


class Admission:
    """Of all listeners. `accept(listener, whether)` is told when a listener is to leave connections in the queue,
    `turn_away(listener, addresses)` of whom it is to see nothing; it says whether that can be.
    """

    def __init__(
        self,
        broker: Broker,
        securities: Mapping[str, ListenerSecurity],
        accept: Callable[[str, bool], None],
        turn_away: Callable[[str, Sequence[str]], bool],
    ) -> None:
        self._broker = broker
        self._securities = securities
        self._accept = accept
        self._turn_away = turn_away
        self._now_ms = broker.runtime.now_ms
        self.total = 0
        self.refused = 0
        """Connections that were one too many of their address."""
        self.throttled = 0
        """Connections that had to wait, or were sent away, since they came too fast."""
        self._per_host: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()
        self._host_limits: dict[str, int] = {}
        self._queues: dict[str, deque[_Waiting]] = {}
        self._short = False  # of descriptors
        self._told_short_ms = 0
        self._rates: dict[str, Rate] = {}  # by listener, and of the broker under ""
        self._rates_of_hosts: Kept[str, Rate] = Kept(self._new_rate, _MOST_RATES)
        self._guarded = [name for name, one in securities.items() if one.protocol.tls or one.protocol.sasl]
        percentage = broker.settings.kohort_unauthenticated_percentage
        self.door = Door(broker.runtime, percentage, self._entered, self._accept_strangers, self._turn_away_strangers)
        broker.settings.on_change(self._read_limits)
        self._read_limits()

    def arrived(self, connection: OpenConnection) -> None:
        """A new one: it is told `let_in`, `keep_out`, or to close."""
        listener = connection.listener
        self._queues.setdefault(listener, deque())
        if self._short:
            self._accept(listener, False)
        elif self._broker.runtime.short_of_descriptors():
            self._pause()
        if listener in self._guarded:
            self.door.arrived(connection)
        else:
            self._entered(connection)

    def _entered(self, connection: OpenConnection) -> None:
        listener = connection.listener
        queue = self._queues[listener]
        waiting = _Waiting(connection)
        if not queue and self._has_turn(listener, waiting):
            self._decide(connection)
            return
        connection.keep_out()
        queue.append(waiting)
        if len(queue) == 1:
            self._accept(listener, False)

    def left(self, connection: OpenConnection) -> None:
        """One that was let in has gone."""
        self.total -= 1
        self._per_listener[connection.listener] -= 1
        count = self._per_host[connection.host] - 1
        if count:
            self._per_host[connection.host] = count
        else:
            del self._per_host[connection.host]
        self._go_on()

    def end(self) -> None:
        """Send away who waits."""
        self.door.end()
        self._broker.runtime.timers.cancel(("admission", "descriptors"))
        for listener, queue in self._queues.items():
            self._broker.runtime.timers.cancel(("admission", listener))
            while queue:
                queue.popleft().connection.end()

    # ---

    def _go_on(self) -> None:
        for listener, queue in self._queues.items():
            if not queue:
                continue
            while queue and (queue[0].connection.closed or self._has_turn(listener, queue[0])):
                connection = queue.popleft().connection
                if not connection.closed:
                    self._decide(connection)
            self._accept_if_open(listener)

    def _accept_if_open(self, listener: str) -> None:
        if not self._queues.get(listener) and not self._short and not (self.door.shut and listener in self._guarded):
            self._accept(listener, True)

    def _accept_strangers(self, whether: bool) -> None:
        for listener in self._guarded:
            if whether:
                self._accept_if_open(listener)
            else:
                self._accept(listener, False)

    def _turn_away_strangers(self, hosts: Sequence[str]) -> bool:
        done = [self._turn_away(listener, hosts) for listener in self._guarded]
        return all(done)

    def _pause(self) -> None:
        """Leave everybody in the system's queue until there are descriptors again."""
        self._short, now_ms = True, self._now_ms()
        if now_ms - self._told_short_ms >= _TOLD_EVERY_MS:
            self._told_short_ms = now_ms
            log.warning("descriptors_short", connections=self.total, why="nobody is accepted until some are given back")
        for listener in self._queues:
            self._accept(listener, False)
        self._look_again()

    def _look_again(self) -> None:
        runtime = self._broker.runtime
        if runtime.short_of_descriptors():
            runtime.timers.set(("admission", "descriptors"), runtime.now_ms() + _SHORT_LOOK_MS, self._look_again)
            return
        self._short = False
        for listener in self._queues:
            self._accept_if_open(listener)

    def _has_turn(self, listener: str, waiting: _Waiting) -> bool:
        now_ms = self._now_ms()
        if waiting.until_ms is None:
            waiting.until_ms = now_ms + self._delay_ms(listener, now_ms)
        if now_ms < waiting.until_ms:
            self._broker.runtime.timers.set(("admission", listener), waiting.until_ms, self._go_on)
            return False
        if self.total >= self._broker.settings.max_connections:
            return False
        security = self._securities.get(listener)
        most = None if security is None else security.max_connections
        return most is None or self._per_listener[listener] < most

    def _delay_ms(self, listener: str, now_ms: int) -> int:
        settings = self._broker.settings
        security = self._securities.get(listener)
        own = None if security is None else security.max_connection_rate
        delay_ms = 0
        for name, bound in (("", settings.max_connection_creation_rate), (listener, own)):
            if bound is None or bound == NO_RATE:
                continue
            rate = self._rates.get(name)
            if rate is None:
                rate = self._rates[name] = self._new_rate()
            rate.record(1, now_ms)
            delay_ms = max(delay_ms, self._at_most_a_window(rate.throttle_ms(max(bound, 1), now_ms)))
        self.throttled += delay_ms > 0
        return delay_ms

    def _decide(self, connection: OpenConnection) -> None:
        host = connection.host
        delay_ms = self._delay_of_host_ms(host)
        if delay_ms:
            self.throttled += 1
            connection.end_later([], delay_ms)
            return
        count = self._per_host.get(host, 0)
        limit = self._host_limits.get(host, self._broker.settings.max_connections_per_ip)
        if count >= limit:
            self.refused += 1
            connection.close(f"max.connections.per.ip={limit} are open from {host}")
            return
        self.total += 1
        self._per_listener[connection.listener] += 1
        self._per_host[host] = count + 1
        connection.let_in()

    def _delay_of_host_ms(self, host: str) -> int:
        bound = self._broker.quotas.of_address(host)
        if bound is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rates_of_hosts.of(host, now_ms)
        rate.record(1, now_ms)
        delay_ms = self._at_most_a_window(rate.throttle_ms(bound, now_ms))
        if delay_ms:
            rate.record(-1, now_ms)
        return delay_ms

    def _new_rate(self) -> Rate:
        settings = self._broker.settings
        return Rate(settings.quota_window_num, settings.quota_window_size_seconds * 1_000)

    def _at_most_a_window(self, delay_ms: int) -> int:
        return min(delay_ms, self._broker.settings.quota_window_size_seconds * 1_000)

    def _read_limits(self) -> None:
        limits = {}
        for entry in self._broker.settings.max_connections_per_ip_overrides:
            host, _, count = entry.rpartition(":")
            if count.isdigit():
                limits[host] = int(count)
        self._host_limits = limits
        self._go_on()
