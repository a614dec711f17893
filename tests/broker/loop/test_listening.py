"""A listener that leaves connections in the queue for a while, and accepts again."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from broker.loop import listening


def test_a_listener_that_cannot_accept_again_tries_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of descriptors, say, which others give back."""
    monkeypatch.setattr(listening, "AGAIN_AFTER_S", 0.01)
    accepted = asyncio.Event()

    class Peer(asyncio.Protocol):
        def connection_made(self, _: asyncio.BaseTransport) -> None:
            accepted.set()

    loop = asyncio.new_event_loop()
    create_server, failures = loop.create_server, 2

    async def failing(*words: Any, **named: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await create_server(*words, **named)

    sock = socket.create_server(("127.0.0.1", 0))
    one = listening.Listening(loop, sock, Peer, 10)
    monkeypatch.setattr(loop, "create_server", failing)
    one.pause()
    one.resume()

    with socket.create_connection(sock.getsockname()):
        loop.run_until_complete(asyncio.wait_for(accepted.wait(), 10))
    one.close()
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()
