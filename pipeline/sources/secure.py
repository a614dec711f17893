"""TLS and SASL on the pipeline's own connections. The mechanisms are those of kafka-python, which is kept.

Source: KIP-43, KIP-152; RFC 4616, 5802, 7628.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Callable
from typing import Any

from pipeline.errors import DataError, EnvironmentMissing, UsageError
from pipeline.oauth_token import access_token
from pipeline.sources.access import Access
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.schema import Message

Ask = Callable[[Message, int], Any]
"""Sends a request in a version, and gives its answer."""


def wrapped(plain: socket.socket, host: str, access: Access) -> socket.socket:
    """The socket, in TLS where the protocol is one with it. Raises: OSError, UsageError."""
    if not access.protocol.endswith("SSL"):
        return plain
    try:
        return _context(access).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise OSError(f"its certificate is not trusted: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise OSError(f"no TLS: {error.reason or error}") from error


def log_in(ask: Ask, address: str, access: Access) -> None:
    """Say who one is, where the protocol wants it. Raises: OSError, DataError, EnvironmentMissing, UsageError."""
    if not access.protocol.startswith("SASL"):
        return
    answer = ask(SaslHandshakeRequest(mechanism=access.mechanism), 1)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise DataError(f"{address} does not take SASL {access.mechanism}; it offers {offered}")
    exchange = _mechanism(access)
    while not exchange.is_done():
        answer = ask(SaslAuthenticateRequest(auth_bytes=exchange.auth_bytes()), 1)
        if answer.error_code:
            who = access.settings.get("sasl.username")
            name = f" as {who}" if who else ""
            said = answer.error_message or ErrorCode(answer.error_code).name
            raise DataError(f"{address} refuses {access.mechanism}{name}: {said}")
        try:
            exchange.receive(answer.auth_bytes)
        except (ValueError, KeyError) as error:
            raise DataError(f"{address} answers {access.mechanism} as no broker does: {error}") from error


def _context(access: Access) -> ssl.SSLContext:
    settings = access.settings
    try:
        context = ssl.create_default_context(cadata=settings.get("ssl.ca.pem"))
    except (ssl.SSLError, ValueError) as error:
        raise UsageError("the certificates to trust are no PEM") from error
    if settings.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    chain, key = settings.get("ssl.certificate.pem"), settings.get("ssl.key.pem")
    if chain and key:
        # The library reads them from a file only; this one is nobody else's, and gone at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{key}\n{chain}\n")
            file.flush()
            try:
                context.load_cert_chain(file.name, password=settings.get("ssl.key.password", ""))
            except ssl.SSLError as error:
                raise UsageError(f"the client's certificate and key cannot be used: {error.reason}") from error
    return context


def _mechanism(access: Access) -> Any:
    try:
        from kafka.net.sasl import get_sasl_mechanism  # type: ignore[import-untyped]  # noqa: PLC0415  only who logs in
        from kafka.net.sasl.oauth import AbstractTokenProvider  # type: ignore[import-untyped]  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise EnvironmentMissing(
            "SASL needs kafka-python 3 where Spark's Python runs: pip install 'kafka-python>=3'"
        ) from error

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # it says no types
        def token(self) -> str:
            return access_token(access.settings, timeout_s=access.timeout_ms / 1000)

    user = access.settings.get("sasl.username", "")
    if access.mechanism.startswith("SCRAM"):
        user = user.replace("=", "=3D").replace(",", "=2C")
    return get_sasl_mechanism(access.mechanism)(
        sasl_mechanism=access.mechanism,
        sasl_plain_username=user,
        sasl_plain_password=access.settings.get("sasl.password", ""),
        sasl_oauth_token_provider=Provider(),
        # It warns of passwords in the clear, which whoever chose SASL_PLAINTEXT knows.
        security_protocol="SASL_SSL",
    )
