"""A bound socket whose connections are accepted, or left in the system's queue for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.loop.logs import get_logger
from broker.loop.packets import drop

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Sequence

AGAIN_AFTER_S = 1.0
"""When it could not begin to accept: for want of descriptors, most likely."""

log = get_logger(__name__)


class Listening:
    """One socket, on a loop that does not run yet; each connection is handled by a protocol of `make_protocol`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, make_protocol: Callable[[], Any], backlog: int
    ) -> None:
        self._loop = loop
        self._sock: socket.socket | None = sock
        self._make_protocol = make_protocol
        self._backlog = backlog
        self._paused = False
        self._starting: asyncio.Task[asyncio.Server] | None = None
        self._server: asyncio.AbstractServer | None = loop.run_until_complete(self._begin())

    def pause(self) -> None:
        """Accept nothing; who connects waits in the system's queue, and when that is full, before it."""
        self._paused = True
        if self._server is not None:
            self._server.close()
            self._server = None

    def resume(self) -> None:
        """Accept again."""
        self._paused = False
        if self._server is None and self._starting is None and self._sock is not None:
            self._starting = self._loop.create_task(self._begin())
            self._starting.add_done_callback(self._began)

    def turn_away(self, hosts: Sequence[str]) -> bool:
        """Let nobody of these addresses connect, and everybody else; whether the system does that."""
        return self._sock is not None and drop(self._sock, hosts)

    def close(self) -> None:
        """Let go of the port."""
        self.pause()
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    async def _begin(self) -> asyncio.Server:
        # Its copy is closed with the server; the socket itself goes on to listen.
        assert self._sock is not None
        copy = self._sock.dup()
        try:
            return await self._loop.create_server(self._make_protocol, sock=copy, backlog=self._backlog)
        except BaseException:
            copy.close()
            raise

    def _began(self, task: asyncio.Task[asyncio.Server]) -> None:
        self._starting = None
        if task.cancelled() or task.exception() is not None:
            log.error("not_listening", error=str(None if task.cancelled() else task.exception()))
            self._loop.call_later(AGAIN_AFTER_S, self._again)
        elif self._paused:
            task.result().close()
        else:
            self._server = task.result()

    def _again(self) -> None:
        if not self._paused:
            self.resume()
