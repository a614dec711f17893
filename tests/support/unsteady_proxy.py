"""A network that delays and cuts: a proxy in front of a broker, which clients are told is its address."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class UnsteadyProxy:
    """Within its `with`, connections to `address` reach 127.0.0.1:`upstream`, which need not always be there.

    Once it is told to `disturb`, each read of up to 64 KiB, in either direction, is held back for up to
    `longest_delay_s` by a chance of `delayed`, and by a chance of `cut` the connection ends there: before it is passed
    on, in the middle of it, or behind it, so that a request is lost, is torn, or is carried out and nobody hears of it.
    `seed` repeats the choices, not what they meet.
    """

    upstream: int
    seed: int = 0
    delayed: float = 0.0
    longest_delay_s: float = 0.1
    cut: float = 0.0
    cuts: int = 0
    delays: int = 0
    _sockets: set[socket.socket] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        """host:port for a client."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._listener)
        for one in list(self._sockets):
            _end(one)

    def disturb(self, *, delayed: float = 0.05, cut: float = 0.003) -> None:
        """From now on by these chances."""
        self.delayed, self.cut = delayed, cut

    def calm(self) -> None:
        """From now on nothing is delayed or cut."""
        self.delayed = self.cut = 0.0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:  # it is being started again
                client.close()
                continue
            for one in (client, broker):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.add(one)
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if self._random.random() < self.delayed:
                    self.delays += 1
                    time.sleep(self._random.uniform(0, self.longest_delay_s))
                if self._random.random() < self.cut:
                    self.cuts += 1
                    sink.sendall(chunk[: self._random.choice((0, len(chunk) // 2, len(chunk)))])
                    break
                sink.sendall(chunk)
        for one in (source, sink):
            self._sockets.discard(one)
            _end(one)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)  # wakes whoever reads from it
    one.close()
