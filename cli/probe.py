"""`kohort health [ADDRESS]`: whether a broker answers requests. For health checks of containers.

An open port alone says nothing: the listener is bound before the groups are loaded. So an ApiVersions request is sent,
and the answer read. Only `socket` is imported, since such a check runs every few seconds.
"""

from __future__ import annotations

import re
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 4.0
_CORRELATION_ID = 7
_HEAD = struct.Struct(">iih")  # size, correlation id, error code
_LISTENER = re.compile(r"(?:[^:/]+://)?\[?([^\]]*?)\]?:(\d+)")


def address(words: list[str], environment: Mapping[str, str]) -> tuple[str, int, bool]:
    """Where to ask, and whether by TLS: the word given (`SSL://host:port`), else the first of KAFKA_LISTENERS or
    KAFKA_ADVERTISED_LISTENERS, else port 9092.

    Raises: ValueError for a word that is no host:port.
    """
    listeners = environment.get("KAFKA_LISTENERS") or environment.get("KAFKA_ADVERTISED_LISTENERS") or ""
    controllers = environment.get("KAFKA_CONTROLLER_LISTENER_NAMES", "").split(",")
    candidates = words or [entry for entry in listeners.split(",") if entry.partition("://")[0] not in controllers]
    if not candidates or not candidates[0]:
        return "127.0.0.1", 9092, False
    match = _LISTENER.fullmatch(candidates[0].strip())
    if match is None:
        raise ValueError(f"health {candidates[0]}: it takes host:port")
    # What a listener is bound to, or told to others, is reached from here over the loopback.
    host = match[1] if words and match[1] not in ("", "0.0.0.0", "::") else "127.0.0.1"
    name = candidates[0].strip().partition("://")[0].upper()
    protocols = environment.get("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "").upper().replace(" ", "").split(",")
    protocol = dict(entry.split(":", 1) for entry in protocols if ":" in entry).get(name, name)
    return host, int(match[2]), protocol in ("SSL", "SASL_SSL")


def check(host: str, port: int, tls: bool = False) -> str | None:
    """Ask once; None when the answer is right, else a sentence with what is wrong.

    Over TLS the broker's certificate is not looked at: nothing that is said here is a secret. A broker that wants one
    of ours is taken for one that answers.
    """
    where = f"{host}:{port}"
    request = struct.pack(">hhih", 18, 0, _CORRELATION_ID, -1)  # ApiVersions v0, no client id
    try:
        with _connected(host, port, tls) as connection:
            connection.sendall(len(request).to_bytes(4) + request)
            answer = b""
            while len(answer) < _HEAD.size:
                more = connection.recv(4096)
                if not more:
                    return f"{where} closed the connection"
                answer += more
    except TimeoutError:
        return f"{where} accepts, and does not answer within {_TIMEOUT_S:.0f} s"
    except OSError as error:
        if tls and "CERTIFICATE" in str(getattr(error, "reason", "")):
            return None
        return f"{where} cannot be reached: {(error.strerror or str(error)).lower()}"
    _, correlation_id, error_code = _HEAD.unpack_from(answer)
    if correlation_id != _CORRELATION_ID or error_code:
        return f"{where} answers, but not as a Kafka broker does"
    return None


def _connected(host: str, port: int, tls: bool) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    if not tls:
        return plain
    import ssl  # noqa: PLC0415  most checks need none

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)
