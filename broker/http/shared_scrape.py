"""One scrape for all who ask while it is made: a hundred scrapers cost one.

What is made is kept until everybody has it. Who comes when a scrape is well on its way gets one of his own, so that
little is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOINED_BELOW_BYTES = 262_144
"""Nobody joins a scrape of which more has been made: most of the work, the gathering, comes before the first line."""


class SharedScrape:
    """The pieces of one scrape, read by several."""

    def __init__(self, pieces: Iterator[bytes], over: Callable[[SharedScrape], None]) -> None:
        self._pieces = pieces
        self._over = over
        self._made: list[bytes] = []
        self._dropped = 0  # of `_made`, which all have read
        self._size_bytes = 0
        self._readers: dict[int, int] = {}  # how many pieces each has read
        self._next_reader = 0
        self._ended = False
        self._failed: Exception | None = None

    @property
    def may_be_joined(self) -> bool:
        """Whether little enough of it has been made, and nothing is wrong with it."""
        return not self._ended and self._size_bytes <= JOINED_BELOW_BYTES

    def read(self) -> Iterator[bytes]:
        """All of it from the beginning; empty pieces say that some work was done. To be called while it may be joined.

        Raises: what the making of it has raised, to everybody.
        """
        self._next_reader += 1
        reader = self._next_reader
        self._readers[reader] = 0
        return self._read(reader)

    def _read(self, reader: int) -> Iterator[bytes]:
        try:
            while True:
                at = self._readers[reader]
                if at < self._dropped + len(self._made):
                    self._readers[reader] = at + 1
                    piece = self._made[at - self._dropped]
                    self._drop()
                    yield piece
                elif self._failed is not None:
                    raise self._failed
                elif self._ended:
                    return
                else:
                    self._step()
                    yield b""
        finally:
            del self._readers[reader]
            if not self._readers:
                self._end()
                self._failed = None  # it has been raised here, and knows this frame
            self._drop()

    def _step(self) -> None:
        try:
            piece = next(self._pieces, None)
        except Exception as error:
            self._failed = error
            self._end()
            return
        if piece is None:
            self._end()
        elif piece:
            self._made.append(piece)
            self._size_bytes += len(piece)

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._over(self)

    def _drop(self) -> None:
        """Forget what everybody has read, once nobody can come any more."""
        if self.may_be_joined or not self._readers:
            return
        passed = min(self._readers.values()) - self._dropped
        if passed > 0:
            del self._made[:passed]
            self._dropped += passed
