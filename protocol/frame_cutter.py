"""A stream of bytes, cut into frames.

A frame is an int32 size and as many bytes. It stays whole: the size is its first four bytes, so that a chunk which is
one frame is passed on as it came, and a frame that came in pieces is put together once.
"""

from __future__ import annotations

from struct import Struct

from protocol.errors import ProtocolError

_SMALL_BYTES = 4096
"""Pieces below this are gathered in a bytearray: a sender of single bytes must not cost us an object for each."""

_INT32_MAX = (1 << 31) - 1

_read_size = Struct(">I").unpack_from


class BadFrameSize(ProtocolError):
    """A frame that says it is of negative size, or larger than is allowed.

    `size` is what it says, in bytes without the four of the size itself; `frames` are the whole frames before it.
    """

    def __init__(self, size: int, *, limit: int, frames: list[bytes]) -> None:
        super().__init__(f"frame of {size} bytes, allowed are 0 to {limit}")
        self.size, self.limit, self.frames = size, limit, frames


class FrameCutter:
    """Cuts what one connection sends. `limit` is `socket.request.max.bytes`, the largest size that a frame may have."""

    __slots__ = ("_head", "_pieces", "_whole", "limit", "missing")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """May be changed; it counts for the sizes that are read from then on."""
        self._head = b""  # fewer than four bytes of a size
        self._pieces: list[bytes | bytearray | memoryview] = []  # of a frame whose size is known
        self._whole = 0  # bytes of this frame when it is whole
        self.missing = 0
        """Bytes that a frame which has begun still needs; 0 when its size is not known either."""

    @property
    def holds_part(self) -> bool:
        """Whether a frame has begun that is not whole yet."""
        return bool(self._pieces or self._head)

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return self._whole - self.missing if self.missing else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes, return the frames that are whole now.

        Nothing is kept in advance for what a frame says it will be.
        Raises: BadFrameSize; the stream has no frames after that.
        """
        frames: list[bytes] = []
        position = 0
        if self._pieces:
            position = self.missing
            if len(data) < position:
                self._keep(data)
                self.missing = position - len(data)
                return frames
            self.missing = 0
            self._pieces.append(memoryview(data)[:position])
            frames.append(b"".join(self._pieces))
            self._pieces = []
        elif self._head:
            data = self._head + data
            self._head = b""
        end_of_data = len(data)
        limit = self.limit
        while end_of_data - position >= 4:
            (size,) = _read_size(data, position)
            if size > limit:  # as a negative one is too, read without its sign
                signed = size if size <= _INT32_MAX else size - (1 << 32)
                raise BadFrameSize(signed, limit=limit, frames=frames)
            end = position + 4 + size
            if end > end_of_data:
                self._keep(memoryview(data)[position:] if position else data)
                self.missing = end - end_of_data
                self._whole = end - position
                return frames
            frames.append(data[position:end])
            position = end
        self._head = data[position:]
        return frames

    def clear(self) -> None:
        """Forget the frame that has begun: nothing more will come."""
        self._pieces = []
        self._head = b""
        self.missing = 0

    def _keep(self, piece: bytes | memoryview) -> None:
        if len(piece) >= _SMALL_BYTES:
            self._pieces.append(piece)
        elif self._pieces and type(self._pieces[-1]) is bytearray:
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
