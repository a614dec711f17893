"""TLS between a socket and its connection: the transport of the one, the protocol of the other.

Bytes come from the socket and go through OpenSSL (`ssl.MemoryBIO`) to the connection, and the other way. It is done
here and not by the event loop, since a connection must count, and have its time, before its handshake is done; and
since the loop would encrypt whatever it is given in one piece: here it is `_AT_ONCE_BYTES`, and what is more shares the
slice of each turn that all long work has, no faster than the peer takes it. What has come is decrypted so many records
at a time in the same way: a record may be new keys alone, and cost thirty microseconds for its 27 bytes.

Steps of a handshake are taken in a thread, since a signature by a key of RSA takes up to 4 ms. Meanwhile the thread
alone touches the OpenSSL side: what the peer sends is kept in `_early`. A step is taken when a record is whole, and
there are so many and no more: a hello that comes byte by byte would cost twenty times as much as one at once.

Source: PEP 3156 (transports and protocols); Python's ssl.SSLObject.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger
from broker.loop.slices import InThread
from broker.network.unencrypted import PIECE_BYTES, Unencrypted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from broker.network.ports import Decrypted, TlsOwner
    from broker.network.tls_settings import TlsSide

HANDSHAKE_WITHIN_MS = 10_000
AHEAD_BYTES = 262_144
"""What a peer may send while its handshake waits for its turn."""

_AT_ONCE_BYTES = 2 * PIECE_BYTES  # encrypted in the turn in which it was written: about a fifth of a millisecond
_RAW_HIGH_BYTES = 262_144  # encrypted and not taken by the kernel yet
_READ_BYTES = 65_536
_RECORDS_A_STEP = 16  # given to OpenSSL in one piece: half a millisecond if all are new keys
_MOST_STEPS = 32  # of a handshake: a client with a certificate has six records in all
_MOST_UNREAD_BYTES = 2 * _RAW_HIGH_BYTES  # more than answers come to: what OpenSSL says of itself was not read
_RECORD_HEAD_BYTES = 5
_RECORD_TYPES = range(20, 24)
_MOST_RECORD_BYTES = 16_384 + 2_048
_MOST_LAST_BYTES = 64  # an alert, encrypted or not
_NOTHING = ssl.MemoryBIO()
_HANDSHAKE_FAILURE = bytes.fromhex("15030300020228")  # the alert, as Java sends it to a hello of SSL 2

log = get_logger(__name__)


class _Nobody:
    """The connection of a channel that is gone."""

    peer = host = ""

    def peer_ended(self) -> None:
        """It has."""

    def pause_writing(self) -> None:
        """It writes no more."""

    def end(self) -> None:
        """It has."""


_NOBODY: Any = _Nobody()


class TlsChannel:
    """One accepted socket on a listener with TLS."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_begun",
        "_closing",
        "_connection",
        "_decrypting",
        "_early",
        "_established",
        "_given",
        "_gone",
        "_handshaking",
        "_head",
        "_high",
        "_incoming",
        "_last_words",
        "_low",
        "_outgoing",
        "_outside",
        "_owner",
        "_pending",
        "_pumping",
        "_raw",
        "_raw_paused",
        "_reading",
        "_side",
        "_steps",
        "_tls",
        "_writing_paused",
    )

    def __init__(self, connection: Decrypted, owner: TlsOwner, side: TlsSide) -> None:
        self._connection = connection
        self._owner = owner
        self._side = side
        self._raw: Any  # asyncio.Transport, which only `broker.loop.loop_runtime` may name
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject
        self._begun = False  # there is `_tls`: from the first bytes on
        self._established = self._handshaking = False
        self._closing = self._gone = False
        self._reading = True  # as far as the connection is concerned
        self._head = b""  # the first three bytes
        self._early = bytearray()  # came while the handshake waits for its turn, or is in a thread
        self._given = 0  # bytes in the newest step of it
        self._last_words = False  # it has gone, and a step is to say why
        self._ahead = False  # that is too much
        self._steps = 0  # of the handshake, so far
        self._decrypting = False  # more of what has come is to be decrypted in slices
        self._pending = Unencrypted()
        self._outside = False  # its handshake, and the time for it, begin when it is let in
        self._pumping = False  # more of it is to be encrypted in slices
        self._raw_paused = self._writing_paused = False
        self._high = self._low = 0

    # --- the protocol of the socket

    def connection_made(self, raw: Any) -> None:
        """A peer has connected: it counts from now on."""
        self._raw = raw
        raw.set_write_buffer_limits(high=_RAW_HIGH_BYTES, low=_RAW_HIGH_BYTES // 4)
        self._connection.connection_made(self)
        self._outside = self._connection.outside
        if not self._outside:
            self._set_deadline()

    def data_received(self, data: bytes) -> None:
        """Encrypted bytes."""
        if self._gone or self._closing:
            return
        if self._established:
            if not self._early and len(data) == _RECORD_HEAD_BYTES + int.from_bytes(data[3:5]):
                self._incoming.write(data)
                self._decrypt()
                return
            self._early += data
            if not self._decrypting:
                self._read()
            return
        if len(self._head) < 3:
            self._head += data[: 3 - len(self._head)]
            if len(self._head) == 3 and self._head[0] & 0x80 and self._head[2] == 1:
                # OpenSSL would wait for all of it, up to 32 kilobytes, to refuse it then.
                self._raw.write(_HANDSHAKE_FAILURE)
                self._refuse("a hello of ssl 2")
                return
        self._early += data
        self._go_on_shaking()
        if not self._ahead and len(self._early) > AHEAD_BYTES:
            self._ahead = True
            self._raw.pause_reading()

    def eof_received(self) -> None:
        """The peer sends no more: the socket closes itself."""
        self._connection.peer_ended()

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        self._raw_paused = True

    def resume_writing(self) -> None:
        """It does again."""
        self._raw_paused = False
        if not self._pumping:
            self._pump()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        if self._gone:
            return
        self._gone = True
        self._owner.broker.runtime.timers.cancel(("handshake", id(self)))
        self._pending.clear()
        # Who refuses our certificate sends an alert and goes, often before the alert has its turn.
        if self._handshaking and not self._closing and self._steps:
            self._last_words = 0 < (len(self._early) or (self._steps > 1 and self._given)) <= _MOST_LAST_BYTES
        self._connection.connection_lost(error)
        self._connection = _NOBODY
        if not self._last_words:
            self._let_go()

    def _let_go(self) -> None:
        # This and its connection know each other, and would wait for the garbage collector, a hundred kilobytes of
        # OpenSSL's with them.
        if self._begun:
            del self._tls
        self._incoming = self._outgoing = _NOTHING

    # --- the transport of the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the socket's."""
        return self._raw.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Between how many unsent bytes the connection is paused and resumed."""
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        """Unsent bytes, encrypted or not."""
        return int(self._pending.size_bytes + self._raw.get_write_buffer_size())

    def write(self, data: Any) -> None:
        """Send this."""
        self.writelines((data,))

    def writelines(self, pieces: Iterable[Any]) -> None:
        """Send these."""
        self._pending.add(pieces)
        if not self._pumping:
            self._pump()
        if self._pending.size_bytes and not self._writing_paused and self.get_write_buffer_size() > self._high:
            self._writing_paused = True
            self._connection.pause_writing()

    def pause_reading(self) -> None:
        """Read the socket no further."""
        self._reading = False
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        """Read it again."""
        self._reading = True
        if self._outside:
            self._outside = False
            self._set_deadline()
            self._go_on_shaking()
        if not self._ahead:
            self._raw.resume_reading()

    def close(self) -> None:
        """End it when everything is sent."""
        if not self._closing and not self._gone:
            self._closing = True
            if not self._pumping:
                self._pump()

    def abort(self) -> None:
        """End it now."""
        self._pending.clear()
        self._raw.abort()

    # ---

    def _set_deadline(self) -> None:
        runtime = self._owner.broker.runtime
        deadline_ms = runtime.now_ms() + HANDSHAKE_WITHIN_MS
        runtime.timers.set(("handshake", id(self)), deadline_ms, lambda: self._refuse("it took too long"))

    def _go_on_shaking(self) -> None:
        if self._handshaking or self._outside or not self._whole_bytes():
            return
        self._handshaking = True
        if not self._begun:
            self._begun = True
            self._tls = self._side.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # Handshakes of one address follow each other: a thousand hold up those of no other, and nobody who is in.
        self._owner.broker.runtime.in_slices(
            self._shake_hands(self._connection),
            _nothing,
            lambda error: self._failed("TLS handshake", error),
            owner=("handshake", self._connection.host),
            wanted=lambda: not self._gone or self._last_words,
            at_once=False,
        )

    def _shake_hands(self, connection: Decrypted) -> Generator[InThread, None, None]:
        """As far as the bytes reach that have come."""
        while (whole_bytes := self._whole_bytes()) and not self._closing:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                self._refuse("it came in too many pieces")
                break
            self._give(whole_bytes)
            try:
                yield InThread(self._tls.do_handshake)
            except ssl.SSLWantReadError:
                if self._gone:
                    break
                self._flush()
                continue
            except ssl.SSLError as error:
                if self._gone:
                    self._tell(connection, _reason(error))
                    break
                self._flush()  # the alert
                self._refuse(_reason(error))
                break
            if self._gone:
                break
            self._flush()
            self._shaken()
            break
        self._handshaking = False
        if self._gone:
            self._let_go()
            return
        if not self._decrypting:
            self._caught_up()

    def _caught_up(self) -> None:
        """Nothing waits of what has come."""
        if self._ahead:
            self._ahead = False
            if self._reading and not self._closing and not self._gone:
                self._raw.resume_reading()

    def _give(self, count: int) -> None:
        """So many bytes, to OpenSSL."""
        self._given = count
        self._incoming.write(self._early[:count])
        del self._early[:count]

    def _whole_bytes(self) -> int:
        """How many of the first bytes that have come are whole records; all, if they are none: OpenSSL says it best."""
        early, end = self._early, 0
        for _ in range(_RECORDS_A_STEP):
            if end == len(early):
                break
            if early[end] not in _RECORD_TYPES:
                return len(early)
            if len(early) - end < _RECORD_HEAD_BYTES:
                break
            size = _RECORD_HEAD_BYTES + int.from_bytes(early[end + 3 : end + 5])
            if size > _RECORD_HEAD_BYTES + _MOST_RECORD_BYTES:
                return len(early)
            if end + size > len(early):
                break
            end += size
        return end

    def _shaken(self) -> None:
        if self._closing:
            return
        self._owner.broker.runtime.timers.cancel(("handshake", id(self)))
        principal = self._side.principal(self._tls.getpeercert(binary_form=True))
        if principal is None:
            self._refuse("no rule of ssl.principal.mapping.rules knows the certificate")
            return
        self._established = True
        self._connection.identified(principal)
        self._decrypt()
        self._read()
        if not self._gone:
            self._pump()

    def _failed(self, what: str, error: Exception) -> None:
        self._owner.counters.log_bug(what, self._connection.peer, error)
        self.abort()

    def _refuse(self, reason: str) -> None:
        if self._gone or self._closing:
            return
        self._tell(self._connection, reason)
        self._connection.end()

    def _tell(self, connection: Decrypted, reason: str) -> None:
        owner = self._owner
        _, left_out = owner.failures.failed(connection.host, 0, owner.broker.runtime.now_ms())
        if left_out is not None:
            log.info(
                "tls_handshake_failed",
                peer=connection.peer,
                listener=self._side.listener,
                reason=reason,
                **({"left_out": left_out} if left_out else {}),
            )

    def _read(self) -> None:
        """A step of what has come now, the rest in turn with all other long work."""
        if not self._decrypt_step() or not self._whole_bytes():
            return
        self._decrypting = True
        self._owner.broker.runtime.in_slices(
            self._decrypt_on(),
            _nothing,
            lambda error: self._failed("TLS", error),
            owner=("decrypting", id(self)),
            wanted=lambda: not self._gone,
        )
        if self._decrypting:
            self._ahead = True
            self._raw.pause_reading()

    def _decrypt_on(self) -> Generator[None, None, None]:
        while self._decrypt_step():
            yield
        self._decrypting = False
        self._caught_up()

    def _decrypt_step(self) -> bool:
        """Whether there was one to take."""
        if self._closing or self._gone:
            return False
        count = self._whole_bytes()
        if count:
            self._give(count)
            self._decrypt()
        return count > 0

    def _decrypt(self) -> None:
        pieces = []
        ended = False
        try:
            while True:
                piece = self._tls.read(_READ_BYTES)
                if not piece:
                    ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as error:
            ended = True
            log.info("tls_broken", peer=self._connection.peer, reason=_reason(error))
        if self._outgoing.pending:
            self._flush()
            if self._raw.get_write_buffer_size() > _MOST_UNREAD_BYTES:
                log.info("tls_broken", peer=self._connection.peer, reason="answers to new keys are not read")
                self.abort()
                return
        if pieces:
            self._connection.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if ended:
            self._reading = False
            self._early.clear()
            self._connection.peer_ended()
            self._raw.close()

    def _pump(self) -> None:
        """Encrypt and send what the kernel takes: a little now, the rest in turn with all other long work."""
        left = _AT_ONCE_BYTES // PIECE_BYTES
        while left and self._may_encrypt():
            self._encrypt()
            left -= 1
        if not self._may_encrypt():
            self._pumped()
            return
        self._pumping = True
        self._owner.broker.runtime.in_slices(
            self._pump_on(),
            _nothing,
            lambda error: self._failed("TLS", error),
            owner=self,
            wanted=lambda: not self._gone,
            at_once=False,
        )

    def _pump_on(self) -> Generator[None, None, None]:
        while self._may_encrypt():
            self._encrypt()
            yield
        self._pumping = False
        self._pumped()

    def _may_encrypt(self) -> bool:
        return self._pending.size_bytes > 0 and not self._raw_paused and not self._gone and self._established

    def _encrypt(self) -> None:
        try:
            self._tls.write(self._pending.piece())
        except ssl.SSLError:
            self._writing_paused = False  # nobody is to write more
            self.abort()
            return
        self._flush()

    def _pumped(self) -> None:
        """Everything is sent, or the kernel takes no more."""
        if self._gone:
            return
        if self._writing_paused and not self._raw_paused and self._pending.size_bytes <= self._low:
            self._writing_paused = False
            self._connection.resume_writing()
        if self._closing and not self._gone and not (self._pending.size_bytes and self._established):
            self._end()

    def _end(self) -> None:
        if self._established:
            with suppress(ssl.SSLError):  # our half is said; nobody waits for theirs
                self._tls.unwrap()
            self._flush()
        self._raw.close()

    def _flush(self) -> None:
        if not self._gone and self._outgoing.pending:
            self._raw.write(self._outgoing.read())


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    return str(error.reason or error).lower().replace("_", " ")


def _nothing(_: object) -> None:
    """The handshake goes on with what the peer sends."""
