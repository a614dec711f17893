"""An HTTP server without sockets: what connections wrote, parsed by h11's client side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h11

from broker.http.answers import Answer, json_answer
from broker.http.connection import HttpConnection
from broker.http.server import HttpServer
from tests.support.connections import FakeTransport
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable


class HttpHarness:
    """One connection to a server whose every request is answered by `respond`."""

    def __init__(self, respond: Callable[[str, str, dict[str, str]], Any] | None = None) -> None:
        self.runtime = VirtualRuntime()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.answer = respond or (lambda method, target, headers: json_answer({"target": target}))
        self.server = HttpServer(self.runtime, lambda: self._respond)
        self.connection, self.transport = self.connect()
        self.runtime.turn()

    def _respond(self, method: str, target: str, headers: dict[str, str], _host: str) -> Any:
        self.requests.append((method, target, headers))
        return self.answer(method, target, headers)

    def connect(self, host: str = "127.0.0.1") -> tuple[HttpConnection, FakeTransport]:
        """One more connection."""
        connection, transport = self.server.protocol(), FakeTransport(host)
        transport.protocol = connection  # type: ignore[assignment]  # it is asked to pause, no more
        connection.connection_made(transport)
        return connection, transport

    def send(self, data: bytes | str) -> None:
        """Bytes arrive, and everything that can happen without time passing does."""
        self.connection.data_received(data.encode() if isinstance(data, str) else data)
        self.runtime.turn()

    def get(self, target: str = "/x", *headers: str, method: str = "GET") -> None:
        """A request arrives, in one piece."""
        self.send("\r\n".join((f"{method} {target} HTTP/1.1", "Host: broker", *headers, "", "")))

    def answers(self, *methods: str) -> list[tuple[int, bytes]]:
        """(status, body) of every answer; `methods` are those asked with, GET where none is given."""
        client = h11.Connection(h11.CLIENT)
        found: list[tuple[int, bytes]] = []
        client.receive_data(bytes(self.transport.written))
        while True:
            number = len(found)
            method = methods[number] if number < len(methods) else "GET"
            if client.our_state is h11.IDLE:
                client.send(h11.Request(method=method, target="/", headers=[("Host", "broker")]))
                client.send(h11.EndOfMessage())
            event = client.next_event()
            if isinstance(event, h11.Response):
                status, body = event.status_code, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                found.append((status, body))
                if client.their_state is not h11.DONE:
                    return found
                client.start_next_cycle()
            else:
                return found


__all__ = ["Answer", "HttpHarness"]
