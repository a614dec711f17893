"""Where to listen and what clients are told."""

import socket
from typing import Any

import pytest

from broker.config.listeners import Listener, host_and_port, parse_listeners
from broker.config.setting_types import SettingsError
from broker.config.settings import Settings
from broker.network.binding import bind


def parsed(**given: str) -> list[Listener]:
    return parse_listeners(Settings({key.replace("_", "."): value for key, value in given.items()}))


def test_a_listener_is_advertised_under_its_own_address_unless_another_is_given():
    assert parsed(listeners="PLAINTEXT://127.0.0.1:0") == [Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)]
    assert parsed(listeners="PLAINTEXT://0.0.0.0:9092", advertised_listeners="PLAINTEXT://broker.example:19092") == [
        Listener("PLAINTEXT", "0.0.0.0", 9092, "broker.example", 19092)
    ]


def test_a_listener_without_a_host_is_advertised_under_the_machines_name():
    (listener,) = parsed(listeners="PLAINTEXT://:9092")

    assert (listener.host, listener.advertised_host) == ("", socket.gethostname())


def test_several_listeners_each_have_their_own_advertised_address():
    """containers: INSIDE and HOST."""
    inside, host = parsed(
        listeners="INSIDE://0.0.0.0:19092, HOST://0.0.0.0:9092",
        advertised_listeners="INSIDE://broker:19092,HOST://127.0.0.1:9092",
        listener_security_protocol_map="INSIDE:PLAINTEXT,HOST:PLAINTEXT",
    )

    assert (inside.name, inside.advertised_host) == ("INSIDE", "broker")
    assert (host.name, host.advertised_host) == ("HOST", "127.0.0.1")


def test_an_ipv6_address_stands_in_brackets():
    (listener,) = parsed(listeners="PLAINTEXT://[::1]:9092")

    assert listener.host == "::1"
    assert host_and_port(listener.host, 1) == "[::1]:1"


def test_a_controllers_listener_is_left_out():
    """A combined KRaft node's server.properties starts unchanged."""
    listeners = parsed(
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )

    assert [listener.name for listener in listeners] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listeners": "127.0.0.1:9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:70000"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "twice"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "cannot have the address a:1"),
        ({"listeners": "INSIDE://127.0.0.1:9093"}, "does not say what INSIDE speaks"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"listeners": "PLAINTEXT://[::]:9092"}, "advertised.listeners"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients can reach"),
        ({"advertised_listeners": "OTHER://a:9092"}, "names of listeners"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "PLAINTEXT:TLS"}, "one of PLAINTEXT"),
        ({"listeners": "C://a:1", "controller_listener_names": "C"}, "at least one listener"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_with_a_sentence(given: dict[str, str], words: str):
    with pytest.raises(SettingsError) as refused:
        parsed(**given)

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_port_0_is_a_free_one_and_the_same_for_both_families():
    sockets = bind(Listener("PLAINTEXT", "", 0, "x", 0))
    try:
        ports = {sock.getsockname()[1] for sock in sockets}
        assert len(ports) == 1
        assert ports != {0}
    finally:
        for sock in sockets:
            sock.close()


@pytest.mark.parametrize(
    ("resolved", "bound"),
    [(("::1", "127.0.0.1"), "127.0.0.1"), (("127.0.0.1", "::1"), "127.0.0.1"), (("::1",), "::1")],
)
def test_of_a_names_addresses_the_first_of_ipv4_is_bound(
    monkeypatch: pytest.MonkeyPatch, resolved: tuple[str, ...], bound: str
):
    """As Java does: `localhost` is ::1 first in most containers, and their health checks ask 127.0.0.1."""
    asked = []

    def resolve(host: str, port: int, **hints: int) -> list[Any]:
        asked.append(host)
        return [info for address in resolved for info in real(address, port, **hints)]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    (sock,) = bind(Listener("PLAINTEXT", "localhost", 0, "localhost", 0))
    with sock:
        assert sock.getsockname()[0] == bound
    assert asked == [b"localhost"], "of text, Python loads the tables of IDNA"


def test_a_port_in_use_is_an_error_before_anything_else_happens():
    (first,) = bind(Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0))
    first.listen()
    try:
        with pytest.raises(OSError, match="in use"):
            bind(Listener("PLAINTEXT", "127.0.0.1", first.getsockname()[1], "127.0.0.1", 0))
    finally:
        first.close()


def test_socket_buffers_are_as_asked_for():
    (sock,) = bind(Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0), send_buffer=70_000, receive_buffer=50_000)
    try:
        # Linux doubles what it is asked for.
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 70_000
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (50_000, 100_000)
    finally:
        sock.close()
