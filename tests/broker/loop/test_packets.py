"""Addresses that a listening socket is not shown: the kernel drops what they send, and nobody else's."""

from __future__ import annotations

import select
import socket
import sys

import pytest

from broker.loop import packets
from tests.support.wire import is_ready

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the program is Linux' own")


def knock(at: socket.socket, host: str) -> socket.socket:
    """Somebody who connects from this address, and has not been answered yet."""
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    client.bind((host, 0))
    client.setblocking(False)
    assert client.connect_ex(("::1" if ":" in host else "127.0.0.1", at.getsockname()[1])) != 0
    return client


def answered(client: socket.socket, within_s: float) -> bool:
    return is_ready(client, within_s, select.POLLOUT)


@pytest.mark.parametrize(
    ("everywhere", "dropped", "away", "comes"),
    [
        (False, ["127.0.0.2"], "127.0.0.2", "127.0.0.1"),
        (True, ["127.0.0.3", "127.0.0.2"], "127.0.0.2", "127.0.0.1"),
        (True, ["::1"], "::1", "127.0.0.1"),
        (True, ["2001:db8::1", "::2", "10.0.0.1", "fe80::1%1", "127.0.0.2"], "127.0.0.2", "::1"),
        (True, [f"::{number:x}" for number in range(1, 30)], "::1", "127.0.0.2"),
    ],
)
def test_who_is_dropped_gets_no_answer_and_comes_when_nobody_is(
    everywhere: bool, dropped: list[str], away: str, comes: str
) -> None:
    listening = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) if everywhere else None
    with listening or socket.create_server(("127.0.0.1", 0)) as at:
        assert packets.drop(at, dropped)
        with knock(at, away) as first, knock(at, comes) as second:
            assert answered(second, 10)
            assert not answered(first, 0)
            assert packets.drop(at, [])
            assert answered(first, 10), "it knocks again after a second"


def test_of_a_connection_that_is_there_nothing_is_dropped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as at, knock(at, "127.0.0.2") as client:
        accepted, _ = at.accept()
        assert packets.drop(at, ["127.0.0.2"])
        with accepted:
            assert answered(client, 10)
            client.send(b"heard")
            accepted.settimeout(10)
            assert accepted.recv(5) == b"heard"


def test_where_the_kernel_has_no_such_thing_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as at:
        monkeypatch.setattr(packets, "_ATTACH", 9_999)
        assert not packets.drop(at, ["127.0.0.2"])
        monkeypatch.setattr(sys, "platform", "darwin")
        assert not packets.drop(at, [])
