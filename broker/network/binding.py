"""Sockets for listeners."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.config.listeners import Address, Listener


def bind(listener: Listener | Address, *, send_buffer: int = -1, receive_buffer: int = -1) -> list[socket.socket]:
    """Sockets bound to the listener's address, not listening yet; two (IPv4, IPv6) when it names no host.

    Of the addresses of a name it is the first of IPv4, else the first: `localhost` is 127.0.0.1 whatever the resolver
    puts first. Source: java.net.InetAddress, whose java.net.preferIPv6Addresses is false, as Kafka's sockets use it.

    The buffers of accepted connections are those of their listening socket, in bytes; -1 leaves them to the system.
    Raises: OSError, its text naming the address.
    """
    if listener.host:
        # As bytes, where it can be: of text Python asks the tables of IDNA, half a megabyte with them.
        host = listener.host.encode() if listener.host.isascii() else listener.host
        infos = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        infos = sorted(infos, key=lambda info: info[0] != socket.AF_INET)[:1]
    else:
        infos = socket.getaddrinfo(None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    port = listener.port
    try:
        for family, kind, protocol, _, place in infos:
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError:
                if sockets or len(infos) > 1:
                    continue  # a machine without IPv6 (or IPv4) still has the other
                raise
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
                if size > 0:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((place[0], port, *place[2:]))
            port = sock.getsockname()[1]  # the same free port for both families
            sock.setblocking(False)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
