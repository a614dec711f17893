"""A connection's side of its transport: what is to be written, and whether the peer is read.

Answers of a turn are gathered and leave in one write. Reading stops for two reasons, which know nothing of each other:
too much of this peer's is unanswered or unread, or memory is short for all.
"""

from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.ports import Owner, Transport
    from protocol.schema.wire_types import Buffer

_JOIN_BELOW_BYTES = 65_536  # copying less than this together costs less than the kernel's looking at each piece


class TransportSide:
    """Of one connection."""

    __slots__ = (
        "_gated",
        "_out",
        "_own_bytes",
        "_owner",
        "_transport",
        "_view_bytes",
        "closed",
        "last_tick",
        "out_bytes",
        "reading_paused",
        "unsent_bytes",
        "write_paused",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: Transport
        self._out: list[Buffer] = []  # answers in order, not yet given to the transport
        self.out_bytes = 0
        """Bytes of the answers that are not yet given to the transport; 0 when there are none."""
        self._view_bytes = 0  # of these, views of files: nobody here may look into them
        self._own_bytes = 0  # of answers given to the transport, views of files apart, since it had none
        self.unsent_bytes = 0
        """Bytes of these when the transport said that the peer leaves too much unread; 0 since it has read them."""
        self.reading_paused = False
        """Too much of this peer's is unanswered or unread: it is not read."""
        self._gated = False  # memory is short: it is not read
        self.write_paused = False
        """The peer leaves too much unread."""
        self.closed = False
        self.last_tick = 0
        """The owner's `tick` when the peer was last heard, or written to."""

    def made(self, transport: Transport, most_unsent_bytes: int) -> None:
        """The transport is there."""
        self._transport = transport
        self.last_tick = self._owner.tick
        transport.set_write_buffer_limits(high=most_unsent_bytes, low=most_unsent_bytes // 4)

    # --- reading

    def hold_back(self) -> None:
        """Read it no further, since memory is short."""
        if not self.closed:
            # Again, even if it was asked before: a new transport begins to read whatever it was told at its making.
            self._gated = True
            if not self.reading_paused:
                self._transport.pause_reading()

    @property
    def is_read(self) -> bool:
        """Whether the peer could send more."""
        return not (self._gated or self.reading_paused)

    def let_go(self) -> None:
        """Read it again."""
        if self._gated and not self.closed:
            self._gated = False
            if not self.reading_paused:
                self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Read it no further: it has asked for enough."""
        if not self.reading_paused and not self.closed:
            self.reading_paused = True
            if not self._gated:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read it again."""
        self.reading_paused = False
        if not self._gated:
            self._transport.resume_reading()

    # --- writing

    def put(self, buffers: list[Buffer]) -> None:
        """Gather an answer."""
        self._out += buffers
        if len(buffers) == 1:
            self.out_bytes += len(buffers[0])
            return
        for piece in buffers:
            self.out_bytes += len(piece)
            if type(piece) is memoryview and type(piece.obj) is mmap:
                self._view_bytes += len(piece)

    def write(self) -> None:
        """Give the transport what is gathered."""
        out, out_bytes = self._out, self.out_bytes
        if not out_bytes:
            return
        self._out = []
        self.out_bytes = 0
        if out_bytes < _JOIN_BELOW_BYTES and not self._view_bytes:
            self._own_bytes += out_bytes
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        else:
            own_bytes, self._view_bytes = out_bytes - self._view_bytes, 0
            self._own_bytes = self._own_bytes + own_bytes if self._transport.get_write_buffer_size() else own_bytes
            if len(out) == 1:
                self._transport.write(out[0])
            else:
                self._transport.writelines(out)
        self.last_tick = self._owner.tick

    def left_unread(self) -> None:
        """The peer leaves too much unread."""
        self.write_paused = True
        self.pause_reading()
        self.unsent_bytes = min(self._own_bytes, self._transport.get_write_buffer_size())

    def was_read(self) -> None:
        """The peer has read most of it."""
        self.last_tick = self._owner.tick
        self.write_paused = False
        self._own_bytes = self.unsent_bytes = 0

    # --- the end

    def close(self) -> None:
        """End it once what is gathered has left."""
        self.write()
        self.closed = True
        self._transport.close()

    def abort(self) -> None:
        """End it at once, whatever the peer has not read yet."""
        self.closed = True
        self._transport.abort()

    def lost(self) -> None:
        """The transport is gone."""
        self.closed = True

    def forget(self) -> None:
        """What is gathered will not be written."""
        self._out = []
        self.out_bytes = 0
