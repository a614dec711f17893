"""A tap on the wire of a broker under test: auditors see every request as it comes, and every answer as it leaves.

What they find is kept for the test. It stands between the loop and a connection, on listeners without TLS.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from broker.catalogue.internal_topics import OFFSETS_TOPIC
from broker.loop.logs import get_logger
from broker.testbed.auditing.auditors import Everything, values
from broker.testbed.auditing.exchange import Exchange
from broker.testbed.auditing.owners import Owners
from protocol.api_keys import ApiKey
from protocol.errors import ProtocolError
from protocol.frame_cutter import FrameCutter
from protocol.frames import decode_response, read_request_header
from protocol.registry import APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker import Broker
    from broker.partitions import Partition

log = get_logger(__name__)

_LARGEST_BYTES = (1 << 31) - 1
_READ_BYTES = 1 << 30
_HANDSHAKES = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_FINDINGS_AT_MOST = 20
_A_DAY_MS = 86_400_000


class Audit:
    """The auditors of a broker, through all its lives in this process, and what they have found."""

    def __init__(self, *, fresh: bool) -> None:
        self._broker: Broker | None = None
        self._everything = Everything(fresh=fresh, topic_name=self._topic_name)
        self._owners = Owners(self._topic_id)
        self._ticks = count()
        self.findings: list[str] = []
        self.exchanges = 0

    def watch(self, broker: Broker) -> None:
        """This is the broker, now."""
        self._broker = broker
        broker.partitions.on_recovered.append(self._loaded_anew)

    def broker_died(self) -> None:
        """What was not answered may have been done or not."""
        self._everything.broker_died(0)

    def groups_loaded_anew(self, index: int) -> None:
        """A coordinator has read its groups again."""
        assert self._broker is not None
        self._everything.groups_loaded_anew(index, self._broker.settings.offsets_topic_num_partitions)

    def clock_moved(self, by_ms: int) -> None:
        """What is not used for long is forgotten: groups, and after days what they have committed."""
        self._everything.reborn.update(self._everything.groups)
        if by_ms >= _A_DAY_MS:
            self._everything.fresh = False
            self._everything.commits.clear()

    def arrived(self, exchange: Exchange) -> None:
        """The broker has the whole request."""
        self.exchanges += 1
        exchange.arrived = next(self._ticks)
        self._shown(self._everything.arrived, exchange)
        self._shown(self._owners.arrived, exchange)

    def answered(self, exchange: Exchange) -> None:
        """The broker has written the answer."""
        exchange.answered = next(self._ticks)
        self._shown(self._everything.answered, exchange)
        self._shown(self._owners.answered, exchange)

    def close(self) -> list[str]:
        """What was found in all, after a look at what was acknowledged: whether it is there."""
        broker = self._broker
        assert broker is not None
        for (topic, index), acknowledged in list(self._everything.acknowledged.items()):
            if topic not in self._everything.changed and acknowledged:
                self._guarded(lambda place=(topic, index): self._look(broker, place))  # type: ignore[misc]
        return self.findings

    def _look(self, broker: Broker, place: tuple[str, int]) -> None:
        partition = broker.partitions.get(*place)
        assert partition is not None, f"{place} is gone, with records that were acknowledged"
        if partition.settings.log.compact:
            return
        lies = partition.log
        data = bytes(b"".join(lies.read(lies.log_start_offset, _READ_BYTES, copied=True).buffers))
        self._everything.log(place, dict(values(data)), lies.log_start_offset)

    def _loaded_anew(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC:
            self.groups_loaded_anew(partition.index)

    def _topic_name(self, topic_id: bytes) -> str | None:
        return None if self._broker is None else self._broker.catalogue.image.topic_name(topic_id)

    def _topic_id(self, name: str) -> bytes | None:
        return None if self._broker is None else self._broker.catalogue.image.topic_id(name)

    def _shown(self, see: Callable[[Exchange], None], exchange: Exchange) -> None:
        self._guarded(lambda: see(exchange), exchange)

    def _guarded(self, look: Callable[[], None], exchange: Exchange | None = None) -> None:
        """No auditor stops a broker."""
        try:
            look()
        except AssertionError as found:
            of = "" if exchange is None else f" ({type(exchange.request).__name__} of {exchange.client or 'no id'})"
            if len(self.findings) < _FINDINGS_AT_MOST:
                self.findings.append(f"{found}{of}")
        except Exception:
            log.exception("auditor_failed", request="" if exchange is None else type(exchange.request).__name__)


class Tap:
    """The protocol of an accepted socket, in front of its connection."""

    def __init__(self, connection: Any, audit: Audit) -> None:
        self._connection = connection
        self._audit = audit
        self._in, self._out = FrameCutter(_LARGEST_BYTES), FrameCutter(_LARGEST_BYTES)
        self._open: deque[tuple[int, Exchange]] = deque()
        self._blind = False  # what comes is no Kafka protocol
        for name in ("eof_received", "pause_writing", "resume_writing", "connection_lost"):
            setattr(self, name, getattr(connection, name))

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        self._connection.connection_made(_Wire(transport, self._written))

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        if not self._blind:
            try:
                for frame in self._in.feed(data):
                    self._request(frame)
            except ProtocolError:
                self._blind = True  # the connection says so itself
        self._connection.data_received(data)

    def _request(self, frame: bytes) -> None:
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        if api_key in APIS and api_key not in _HANDSHAKES:
            request = APIS[api_key].request.decode(version, frame[position:])
            exchange = Exchange(client_id or "", request, version)
            self._open.append((correlation_id, exchange))
            self._audit.arrived(exchange)

    def _written(self, data: bytes) -> None:
        if self._blind:
            return
        try:
            for frame in self._out.feed(data):
                correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
                # Produce without acknowledgements is not answered.
                while self._open and self._open[0][0] != correlation_id and _unanswered(self._open[0][1]):
                    self._open.popleft()
                if self._open and self._open[0][0] == correlation_id:
                    exchange = self._open.popleft()[1]
                    _, exchange.response = decode_response(exchange.request.API_KEY, exchange.version, frame)
                    self._audit.answered(exchange)
        except ProtocolError:
            self._blind = True


def _unanswered(exchange: Exchange) -> bool:
    return exchange.request.API_KEY == ApiKey.PRODUCE and not exchange.request.acks


class _Wire:
    """A transport that shows what is written to it."""

    def __init__(self, transport: Any, show: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._show = show

    def write(self, data: Any) -> None:
        """As the transport's."""
        self._show(bytes(data))
        self._transport.write(data)

    def writelines(self, pieces: list[Any]) -> None:
        """As the transport's."""
        pieces = list(pieces)
        self._show(b"".join(pieces))
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
