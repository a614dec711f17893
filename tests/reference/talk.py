"""One connection to a broker, byte by byte: what is said, and what comes of it, in words that two brokers can share."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable
from struct import pack
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSED = "closed"


class Step(NamedTuple):
    """Bytes, or what makes them of the token that came last; how the answer is told; how long to wait before."""

    said: bytes | Callable[[bytes], bytes]
    told: Callable[[bytes], Any]
    after_s: float = 0


def talk(address: str, steps: Iterable[Step], source: str = "127.0.0.1") -> list[Any]:
    """What came of each step, up to the end of the connection."""
    told: list[Any] = []
    token = b""
    with _connected(address, source) as peer:
        for step in steps:
            time.sleep(step.after_s)
            try:
                peer.sendall(step.said if isinstance(step.said, bytes) else step.said(token))
                frame = read(peer)
            except (ConnectionResetError, BrokenPipeError):
                frame = b""
            if not frame:
                return [*told, CLOSED]
            told.append(step.told(frame))
            token = _token(frame)
    return told


def read(peer: socket.socket) -> bytes:
    """A frame with its size, nothing at the end."""
    head = _exactly(peer, 4)
    if len(head) < 4:
        return b""
    size = int.from_bytes(head)
    body = _exactly(peer, size)
    return head + body if len(body) == size else b""


def end_of(peer: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    came = b""
    try:
        while piece := peer.recv(65_536):
            came += piece
    except (ConnectionResetError, ssl.SSLError):
        pass
    return came


def _connected(address: str, source: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=120, source_address=(source, 0))


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = peer.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


# --- what is said


def versions(version: int = 3, name: str = "lib") -> Step:
    """ApiVersions."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return Step(encode_request(request, version, 1, "k"), error_of)


def raw(body: bytes, told: Callable[[bytes], Any] | None = None) -> Step:
    """A frame of these bytes."""
    return Step(pack(">i", len(body)) + body, told or (lambda frame: frame[4:].hex()))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    """SaslHandshake; the mechanisms in the order of the alphabet."""

    def told(frame: bytes) -> Any:
        answer = decode_response(ApiKey.SASL_HANDSHAKE, version, frame)[1]
        return answer.error_code, sorted(answer.mechanisms)

    return Step(encode_request(SaslHandshakeRequest(mechanism=mechanism), version, 2, "k"), told)


def authenticate(token: bytes | Callable[[bytes], bytes], version: int = 2) -> Step:
    """SaslAuthenticate; what is random in its answer left out."""

    def told(frame: bytes) -> Any:
        answer = decode_response(ApiKey.SASL_AUTHENTICATE, version, frame)[1]
        return answer.error_code, answer.error_message, shape(bytes(answer.auth_bytes)), answer.session_lifetime_ms

    def said(shown: bytes) -> bytes:
        return encode_request(SaslAuthenticateRequest(auth_bytes=shown), version, 3, "k")

    return Step(said(token) if isinstance(token, bytes) else lambda last: said(token(last)), told)


def bare(token: bytes | Callable[[bytes], bytes]) -> Step:
    """A token behind a handshake of version 0."""

    def said(shown: bytes) -> bytes:
        return pack(">i", len(shown)) + shown

    return Step(said(token) if isinstance(token, bytes) else lambda last: said(token(last)), lambda f: shape(f[4:]))


def metadata(version: int = 1) -> Step:
    """A question for whoever is in: who is asked of an answer, is that there is one."""
    return Step(encode_request(MetadataRequest(topics=None), version, 7, "k"), lambda frame: "answered")


def error_of(frame: bytes) -> int:
    """Of an answer that begins with it, behind a header of version 0."""
    return int.from_bytes(frame[8:10], signed=True)


def shape(token: bytes) -> str:
    """Of SCRAM, without nonces, salts and signatures."""
    return re.sub(r"(?<![a-z])([rsv])=[^,]+", r"\1", token.decode(errors="replace"))


def _token(frame: bytes) -> bytes:
    """What a server-first of SCRAM's says, wherever it stands in an answer."""
    found = re.search(rb"r=[!-~]+,s=[!-~]+,i=\d+", frame)
    return found[0] if found else b""
