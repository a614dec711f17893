"""`kohort health`: an open port is not enough."""

from __future__ import annotations

import socket
import threading

import pytest

from cli import probe as health


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        ([], {}, ("127.0.0.1", 9092, False)),
        (["example:19092"], {}, ("example", 19092, False)),
        (["[::1]:9093"], {}, ("::1", 9093, False)),
        (
            [],
            {"KAFKA_LISTENERS": "C://:9093,IN://0.0.0.0:19092", "KAFKA_CONTROLLER_LISTENER_NAMES": "C"},
            ("127.0.0.1", 19092, False),
        ),
        ([], {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:9094"}, ("127.0.0.1", 9094, False)),
        ([], {"KAFKA_LISTENERS": "SSL://:9093"}, ("127.0.0.1", 9093, True)),
    ],
)
def test_where_it_asks(words: list[str], environment: dict[str, str], expected: tuple[str, int, bool]) -> None:
    """Host, port, and whether it speaks TLS there."""
    assert health.address(words, environment) == expected


def test_what_is_no_address_is_named() -> None:
    with pytest.raises(ValueError, match="host:port"):
        health.address(["nonsense"], {})


def answering(answer: bytes) -> int:
    """A server that gives every connection the same answer, once; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(answer)
        server.close()

    threading.Thread(target=serve, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


def test_a_right_answer_is_healthy_and_others_are_not() -> None:
    good = (10).to_bytes(4) + (7).to_bytes(4) + bytes(6)
    assert health.check("127.0.0.1", answering(good)) is None
    assert "not as a Kafka broker" in (health.check("127.0.0.1", answering(b"HTTP/1.1 400 Bad Request\r\n")) or "")
    assert "closed the connection" in (health.check("127.0.0.1", answering(b"")) or "")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "cannot be reached" in (health.check("127.0.0.1", port) or "")
