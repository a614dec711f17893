"""Requests that the client library cannot send (OffsetDelete, ApiVersions, quotas), and those whose refusal it loses
(DescribeAcls) or does not outlive (DescribeUserScramCredentials), over a connection of our own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Self

from cli.errors import Failed
from cli.wire_security import encrypted, log_in, protocol_of
from protocol.errors import ErrorCode, ProtocolError
from protocol.frames import decode_response, encode_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from protocol.schema import Message

_LARGEST_ANSWER_BYTES = 100 * 1024 * 1024
_TLS_ALERT = b"\x15\x03"


class HungUp(Failed):
    """The connection was closed in the place of an answer: mostly, it should have been spoken to otherwise."""


class Wire:
    """One connection, one request at a time. Raises: Failed for whatever goes wrong on it."""

    def __init__(self, host: str, port: int, *, timeout_s: float, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` are those of a client of the library: TLS and who one is."""
        self.where = f"{host}:{port}"
        self._last_id = 0
        settings = settings or {}
        tls, sasl = protocol_of(settings)
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise Failed(f"{self.where} cannot be reached: {(error.strerror or str(error)).lower()}") from None
        try:
            if tls:
                self._socket = encrypted(self._socket, host, settings)
            if sasl:
                log_in(self.ask, self.where, settings, timeout_s=timeout_s)
        except OSError as error:
            self._socket.close()
            raise Failed(f"{self.where}: {error.strerror or error}") from None
        except BaseException:
            self._socket.close()
            raise

    def ask(self, request: Message, version: int) -> Any:
        """The answer to a request."""
        assert request.API_KEY is not None
        self._last_id += 1
        try:
            self._socket.sendall(encode_request(request, version, self._last_id, "kohort"))
            head = self._receive(4)
            if head.startswith(_TLS_ALERT):
                raise HungUp(f"{self.where} wants TLS")
            size = int.from_bytes(head)
            if size > _LARGEST_ANSWER_BYTES:
                raise Failed(f"{self.where} does not answer as Kafka does")
            return decode_response(request.API_KEY, version, head + self._receive(size))[1]
        except TimeoutError:
            raise Failed(f"{self.where} does not answer in time") from None
        except ConnectionError:  # closed before it had read what was said
            raise self._hung_up() from None
        except OSError as error:
            raise Failed(f"{self.where}: {(error.strerror or str(error)).lower()}") from None
        except ProtocolError as error:
            raise Failed(f"{self.where} does not answer as Kafka does: {error}") from None

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise self._hung_up()
            data += more
        return data

    def _hung_up(self) -> HungUp:
        return HungUp(f"{self.where} closed the connection; does it want TLS or a log-in?")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def hangs_up_on_everybody(host: str, port: int, *, within_s: float) -> bool:
    """Whether who listens there closes connections before a word is said, in so many seconds at most.

    A broker does that to a host that has too many (`max.connections.per.ip`) or makes them too fast, and as it ends.
    """
    try:
        with socket.create_connection((host, port), timeout=within_s) as connected:
            return not connected.recv(1)
    except TimeoutError:
        return False
    except OSError:  # reset, or not even accepted any more
        return True


def told(answer: Any) -> str:
    """What an answer, or a part of one, says of its own error: its message, else the words for its code."""
    text: str = answer.error_message or text_of(answer.error_code)
    return text.rstrip(".")


def text_of(code: int) -> str:
    """What an error code means, in Kafka's words without the last full stop; `NONE` for 0."""
    try:
        return ErrorCode(code).message.rstrip(".")
    except ValueError:
        return f"error {code}"
