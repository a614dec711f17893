"""A connection's side of its transport: what is to be written, and whether the peer is read.

Answers of a turn are gathered and leave in one write. Reading stops for two reasons, which know nothing of each other:
too much of this peer's is unanswered or unread, or memory is short for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.ports import Owner, Transport
    from protocol.schema.wire_types import Buffer

_JOIN_BELOW_BYTES = 65_536  # copying less than this together costs less than the kernel's looking at each piece


class TransportSide:
    """What `broker.network.connection` has of it."""

    __slots__ = (
        "_gated",
        "_out",
        "_out_bytes",
        "_own_bytes",
        "_owner",
        "_reading_paused",
        "_transport",
        "closed",
        "last_tick",
        "unsent_bytes",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: Transport
        self._out: list[Buffer] = []  # answers in order, not yet given to the transport
        self._out_bytes = 0
        self._own_bytes = 0  # of answers given to the transport, views of files apart, since it had none
        self.unsent_bytes = 0
        """Bytes of these when the transport said that the peer leaves too much unread; 0 since it has read them."""
        self._reading_paused = False
        self._gated = False  # memory is short: it is not read
        self.closed = False
        self.last_tick = 0

    def hold_back(self) -> None:
        """Read it no further, since memory is short."""
        if not self.closed:
            # Again, even if it was asked before: a new transport begins to read whatever it was told at its making.
            self._gated = True
            if not self._reading_paused:
                self._transport.pause_reading()

    @property
    def is_read(self) -> bool:
        """Whether the peer could send more."""
        return not (self._gated or self._reading_paused)

    def let_go(self) -> None:
        """Read it again."""
        if self._gated and not self.closed:
            self._gated = False
            if not self._reading_paused:
                self._transport.resume_reading()

    def abort(self) -> None:
        """End it at once, whatever the peer has not read yet."""
        self.closed = True
        self._transport.abort()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.closed:
            self._reading_paused = True
            if not self._gated:
                self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused = False
        if not self._gated:
            self._transport.resume_reading()

    def _put(self, buffers: list[Buffer]) -> None:
        self._out += buffers
        self._out_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))

    def _write(self) -> None:
        out = self._out
        if not out:
            return
        if self._out_bytes < _JOIN_BELOW_BYTES:
            self._own_bytes += self._out_bytes
        else:
            if not self._transport.get_write_buffer_size():
                self._own_bytes = 0
            self._own_bytes += sum(len(piece) for piece in out if piece.__class__ is not memoryview)
        if len(out) == 1:
            self._transport.write(out[0])
        elif self._out_bytes < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        self._out = []
        self._out_bytes = 0
        self.last_tick = self._owner.tick
