"""The control channel: JSON objects, a line each, over a socket that the test's process has made.

Each command is answered by one object with the same `id`, in whatever order they are done.

The process ends when the channel does: no testbed outlives its test run, however that ends.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_READ_BYTES = 262_144


class ChannelClosed(Exception):
    """The test's process is gone."""


class Channel:
    """The testbed's end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._begun = b""

    def receive(self) -> list[dict[str, Any]]:
        """The commands that have come; waits if nothing has. Raises: ChannelClosed."""
        try:
            data = self.sock.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise ChannelClosed
        *lines, self._begun = (self._begun + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def send(self, answer: Mapping[str, Any]) -> None:
        """Answer a command. The test waits for it, so that this does not wait long. Raises: ChannelClosed."""
        try:
            self.sock.sendall(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            raise ChannelClosed from None
