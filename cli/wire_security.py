"""TLS and a log-in for `cli.wire`, by the settings of the client library: its own connections are not ours to use.

PLAIN, SCRAM and OAUTHBEARER; any other mechanism is refused with a sentence.

Source: RFC 4616, RFC 5802, RFC 7628; Kafka's SslFactory, SaslClientAuthenticator.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.errors import Failed, UsageError
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator, Mapping

    from protocol.schema import Message

    Ask = Callable[[Message, int], Any]

_HANDSHAKE, _AUTHENTICATE = 1, 2  # versions
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4_096, 10_000_000
"""The least that Kafka's client takes, too; the most is some seconds of work."""


def protocol_of(settings: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the listener speaks TLS, and whether it wants a log-in. Raises: UsageError."""
    name = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    if name not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise UsageError(f"security.protocol={name}: it takes PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
    return name.endswith("SSL"), name.startswith("SASL")


def encrypted(plain: socket.socket, host: str, settings: Mapping[str, Any]) -> ssl.SSLSocket:
    """The connection under TLS. Raises: UsageError, OSError."""
    try:
        context = ssl.create_default_context(
            cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem") or None
        )
        context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https") != "none"
        _show_certificate(context, settings)
    except (OSError, ValueError) as error:
        raise UsageError(f"the certificates of --command-config cannot be used: {error}") from None
    return context.wrap_socket(plain, server_hostname=host)


def _show_certificate(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    password = settings.get("ssl.key.password")
    if "ssl.keystore.location" in settings:
        _load(context, *_unpacked(settings["ssl.keystore.location"], settings.get("ssl.keystore.password")), None)
    elif "ssl.certificate.location" in settings:
        context.load_cert_chain(settings["ssl.certificate.location"], settings.get("ssl.key.location"), password)
    elif "ssl.certificate.pem" in settings:
        _load(context, settings["ssl.certificate.pem"].encode(), settings.get("ssl.key.pem", "").encode(), password)


def _load(context: ssl.SSLContext, chain: bytes, key: bytes, password: str | None) -> None:
    """OpenSSL takes files alone: one that is in memory, and on no disk."""
    file = os.memfd_create("kohort", os.MFD_CLOEXEC)
    try:
        os.write(file, key + b"\n" + chain)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=password)
    finally:
        os.close(file)


def _unpacked(location: str, password: str | None) -> tuple[bytes, bytes]:
    """Chain and key of a PKCS12 file, as PEM. Raises: OSError, ValueError."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  few commands need it
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    word = None if password is None else password.encode()
    key, leaf, others = pkcs12.load_key_and_certificates(Path(location).read_bytes(), word)
    if key is None or leaf is None:
        raise ValueError(f"{location} has no key with a certificate")
    chain = b"".join(one.public_bytes(Encoding.PEM) for one in (leaf, *others))
    return chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def log_in(ask: Ask, where: str, settings: Mapping[str, Any], *, timeout_s: float) -> None:
    """Say who one is. Raises: Failed, UsageError."""
    mechanism = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI")
    user, password = str(settings.get("sasl.username", "")), str(settings.get("sasl.password", ""))
    if mechanism == "PLAIN":
        steps = _plain(user, password)
    elif mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        steps = _scram(user, password, f"sha{mechanism[-3:]}")
    elif mechanism == "OAUTHBEARER":
        steps = _oauth_bearer(_token(settings, timeout_s))
    else:
        raise UsageError(
            f"sasl.mechanism={mechanism}: this command takes PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    offered = ask(SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE)
    if offered.error_code:
        raise Failed(f"{where} takes {', '.join(offered.mechanisms)}, not {mechanism}")
    token = next(steps)
    while True:
        answer = ask(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE)
        if answer.error_code:
            raise Failed(f"{where}: {answer.error_message}")
        try:
            token = steps.send(answer.auth_bytes)
        except StopIteration:
            return
        except (ValueError, KeyError):
            raise Failed(f"{where} does not know the password either: its answer is not the one it should be") from None


def _plain(user: str, password: str) -> Generator[bytes, bytes, None]:
    yield f"\0{user}\0{password}".encode()


def _oauth_bearer(token: str) -> Generator[bytes, bytes, None]:
    told = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if told:  # why not; the broker ends it once it has heard this
        yield b"\x01"


def _token(settings: Mapping[str, Any], timeout_s: float) -> str:
    from pipeline.errors import DataError  # noqa: PLC0415  few commands need it
    from pipeline.errors import UsageError as WrongSetting  # noqa: PLC0415
    from pipeline.oauth_token import access_token  # noqa: PLC0415

    try:
        return access_token(settings, timeout_s=timeout_s)
    except DataError as error:
        raise Failed(str(error)) from None
    except WrongSetting as error:
        raise UsageError(str(error)) from None


def _scram(user: str, password: str, digest: str) -> Generator[bytes, bytes, None]:
    name = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(18)
    first = f"n={name},r={nonce}"
    told = (yield f"n,,{first}".encode()).decode()
    facts = dict(part.partition("=")[::2] for part in told.split(","))
    if not facts["r"].startswith(nonce):
        raise ValueError("another nonce")
    iterations = int(facts["i"])
    if not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise Failed(f"asked for {iterations} SCRAM iterations: not from {_LEAST_ITERATIONS} to {_MOST_ITERATIONS}")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(facts["s"]), iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    bare = f"c=biws,r={facts['r']}"
    said = f"{first},{told},{bare}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), said, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = (yield f"{bare},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), said, digest)
    if not hmac.compare_digest(base64.b64decode(last.removeprefix("v=")), expected):
        raise ValueError("another signature")
