"""Connections to listeners of every kind, each as far in as its way takes it: what frames over a socket go through."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from base64 import b64encode
from typing import TYPE_CHECKING

from protocol.frames import encode_request
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fuzz.frames import Frames
    from tests.support.broker_process import Kohort

DOORS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
WAYS = ("stranger", "inside", "shaking hands", "logging in")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PACKAGE = "org.apache.kafka.common.security."
_MODULES = {
    "PLAIN": 'plain.PlainLoginModule required user_fuzz="z"',
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule required",
}
_JWT = b".".join(b64encode(part) for part in (b'{"alg":"RS256","kid":"one"}', b'{"sub":"fuzz","exp":9e9}', b"signed"))
TOKENS = {
    "PLAIN": (b"\0fuzz\0z", b"fuzz\0fuzz\0z"),
    "SCRAM-SHA-256": (b"n,,n=fuzz,r=fyko+d2lbbFgONRv9qkxdawL", b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=AAAA"),
    "SCRAM-SHA-512": (b"n,a=fuzz,n=fuzz,r=fyko,e=1", b"c=biws,r=fyko,p=" + b64encode(bytes(64))),
    "OAUTHBEARER": (b"n,,\1auth=Bearer " + _JWT.replace(b"=", b"") + b"\1\1", b"\1"),
}


def log_in_module(mechanism: str) -> str:
    """The line of JAAS for it. Whoever comes `inside` logs in with PLAIN."""
    return f"{_PACKAGE}{_MODULES.get(mechanism, 'scram.ScramLoginModule required')};"


class Doors:
    """Listeners of every kind, before and behind a TLS handshake and a log-in, and in the middle of both."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        (folder / "server.pem").write_bytes(authority.issue().pem())
        (folder / "keys.json").write_text('{"keys": []}')
        lines = {name: log_in_module(name) for name in MECHANISMS}
        self.settings: dict[str, object] = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in DOORS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "server.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.certificate_pem.decode(),
            "listener.name.ssl.ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            **{
                f"listener.name.{listener}.{name.lower()}.sasl.jaas.config": line
                for listener in ("sasl_plaintext", "sasl_ssl")
                for name, line in lines.items()
            },
            "auto.create.topics.enable": "false",
            "connection.failed.authentication.delay.ms": 0,
            "kohort.unauthenticated.percentage": 100,
            "kohort.log.level": "error",
        }
        self._trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        self._trusting.check_hostname = False
        self._trusting.load_cert_chain(*authority.issue("fuzz").write(folder, "fuzz"))

    def opened(self, broker: Kohort, number: int, frames: Frames) -> socket.socket:
        """The connection of this number, which goes its way through one of the doors."""
        ready = re.search(r"ready on (.*) in", broker.log())
        assert ready is not None
        way, door = WAYS[number % len(WAYS)], DOORS[number // len(WAYS) % len(DOORS)]
        port = int(ready[1].split(" and ")[DOORS.index(door)].rpartition(":")[2])
        return come(door, way, port, self._trusting, frames)


def come(
    door: str, way: str, port: int, trusting: ssl.SSLContext, frames: Frames, *, source: str = "127.0.0.1"
) -> socket.socket:
    """A connection from the address `source` through this door, as far in as its way takes it. Raises: OSError."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0))
    try:
        if way == "stranger":
            return client
        if door.endswith("SSL"):
            if way == "shaking hands":
                _mutilated_handshake(client, trusting, frames)
                return client
            client = trusting.wrap_socket(client, server_hostname="localhost")
        if door.startswith("SASL"):
            if way == "logging in":
                _mutilated_log_in(client, frames)
            else:
                _log_in(client)
    except BaseException:
        client.close()
        raise
    return client


def _mutilated_handshake(client: socket.socket, trusting: ssl.SSLContext, frames: Frames) -> None:
    """Each flight of a client's, one of them not as it should be, until somebody has had enough."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shaking = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    wrong_at = frames.random.randrange(2)
    for flight in range(2):
        try:
            shaking.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            return
        sent = outgoing.read()
        try:
            client.sendall(frames.scarred(sent) if flight == wrong_at else sent)
            if flight == wrong_at:
                return
            incoming.write(client.recv(65_536))
        except ConnectionError:
            return


def _mutilated_log_in(client: socket.socket, frames: Frames) -> None:
    """Tokens of one mechanism or another's, scarred or whole, in the frames of either handshake, all at once."""
    rng = frames.random
    version, mechanism = rng.randrange(2), rng.choice(MECHANISMS)
    sent = encode_request(SaslHandshakeRequest(mechanism=mechanism), version, 1)
    for token in TOKENS[mechanism if rng.random() < 0.8 else rng.choice(MECHANISMS)]:
        shown = frames.scarred(token) if rng.random() < 0.7 else token
        if version:
            sent += encode_request(SaslAuthenticateRequest(auth_bytes=shown), rng.randrange(3), 2)
        else:
            sent += len(shown).to_bytes(4) + shown
    with contextlib.suppress(ConnectionError):
        client.sendall(sent)


def _log_in(client: socket.socket) -> None:
    client.sendall(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1))
    client.sendall(encode_request(SaslAuthenticateRequest(auth_bytes=b"\0fuzz\0z"), 2, 2))
    for _ in range(2):
        answer = _exactly(client, int.from_bytes(_exactly(client, 4)))
    assert answer[4:8] == b"\0\0\0\1", "it is not let in"  # no tags, no error, no message


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("closed by the broker")
        data += piece
    return data
