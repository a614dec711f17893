"""What a connection has written and TLS has not encrypted yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

PIECE_BYTES = 65_536
"""Encrypted in one go: about a tenth of a millisecond."""


class Unencrypted:
    """In the order in which it was written. `size_bytes` is all of it."""

    __slots__ = ("_views", "size_bytes")

    def __init__(self) -> None:
        self._views: deque[memoryview] = deque()
        self.size_bytes = 0

    def add(self, pieces: Iterable[Any]) -> None:
        """These come last."""
        for piece in pieces:
            view = memoryview(piece)
            if view.nbytes:
                self._views.append(view)
                self.size_bytes += view.nbytes

    def clear(self) -> None:
        """Nobody wants it any more."""
        self._views.clear()
        self.size_bytes = 0

    def piece(self) -> memoryview:
        """Take what comes first, at most `PIECE_BYTES`; of small ones as many as fit, for one record."""
        views = self._views
        view = views[0][:PIECE_BYTES]
        self.size_bytes -= view.nbytes
        if view.nbytes < views[0].nbytes:
            views[0] = views[0][PIECE_BYTES:]
            return view
        views.popleft()
        if not views or view.nbytes + views[0].nbytes > PIECE_BYTES:
            return view
        parts, size = [view], view.nbytes
        while views and size + views[0].nbytes <= PIECE_BYTES:
            size += views[0].nbytes
            parts.append(views.popleft())
        self.size_bytes -= size - view.nbytes
        return memoryview(b"".join(parts))
