"""What is said, and how soon, where a broker does not want to be spoken to like that."""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import pytest

from cli import cluster
from cli.cluster import Cluster
from cli.errors import UsageError
from cli.wire import HungUp, hangs_up_on_everybody
from tests.cli.conftest import kohort
from tests.support.broker_process import ROOT, Kohort, eventually, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOG_IN = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism={mechanism}
sasl.username=alice
sasl.password={password}
"""
TEN_MINUTES = ("--timeout", "600000")
"""As long as nobody would wait."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(a listener where nobody logs in, one where alice does, by a password that is `secret`)."""
    opened, closed = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{opened},SASL_PLAINTEXT://127.0.0.1:{closed}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";',
    }
    with Kohort(tmp_path_factory.mktemp("refusing"), settings, port=opened):
        yield f"127.0.0.1:{opened}", f"127.0.0.1:{closed}"


@pytest.mark.parametrize(
    ("mechanism", "password", "says"),
    [
        ("PLAIN", "wrong", "SASL authentication error: Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-512", "secret", "Unsupported SASL mechanism: broker's supported mechanisms: PLAIN"),
    ],
)
def test_a_log_in_that_is_refused(
    mechanism: str, password: str, says: str, places: tuple[str, str], text_file: Callable[[str], str]
) -> None:
    _, closed = places
    config = ("--command-config", text_file(LOG_IN.format(mechanism=mechanism, password=password)))
    ended = kohort("topics", "list", "-b", closed, *config, *TEN_MINUTES)
    assert (ended.code, ended.err.startswith(f"kohort: {closed}: "), says in ended.err) == (1, True, True), ended


def test_plain_words_where_one_logs_in(places: tuple[str, str]) -> None:
    _, closed = places
    ended = kohort("topics", "list", "-b", closed, *TEN_MINUTES)
    assert ended.err == f"kohort: {closed} closed the connection; does it want TLS or a log-in?\n"


def test_tls_where_nobody_speaks_it(places: tuple[str, str], text_file: Callable[[str], str]) -> None:
    opened, _ = places
    ended = kohort(
        *("topics", "list", "-b", opened, "--command-config", text_file("security.protocol=SSL\n"), *TEN_MINUTES)
    )
    assert (ended.code, ended.err.startswith(f"kohort: {opened}: SSL handshake failed")) == (1, True), ended


def test_a_log_in_that_our_own_connection_does_not_know_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kerberos, which may well take more than a second."""

    def wire(*_: object, **__: object) -> NoReturn:
        raise UsageError("sasl.mechanism=GSSAPI: this command takes PLAIN")

    monkeypatch.setattr(Cluster, "wire", wire)
    object.__new__(Cluster)._try_the_door("127.0.0.1:1")


class Full:
    """Closes every connection before a word is said, as a broker that lets a host have so many; until `wants_words`."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.hung_up = 0
        self.wants_words = threading.Event()
        self._thread = threading.Thread(target=self._hang_up, daemon=True)
        self._thread.start()

    def _hang_up(self) -> None:
        with suppress(OSError):  # it listens no more
            while True:
                connection, _ = self.listening.accept()
                if self.wants_words.is_set():
                    threading.Thread(target=self._hear, args=(connection,), daemon=True).start()
                else:
                    connection.close()
                    self.hung_up += 1

    def _hear(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1)

    def close(self) -> None:
        with suppress(OSError):  # closed before
            self.listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.listening.close()


@pytest.fixture
def full() -> Iterator[Full]:
    full = Full()
    yield full
    full.close()


def test_who_hangs_up_on_everybody_is_tried_until_the_time_is_out(full: Full) -> None:
    """It may pass, and has nothing to do with a log-in."""
    began_s = time.monotonic()
    ended = kohort("topics", "list", "-b", full.address, "--timeout", "2500")
    assert (
        ended.err
        == f"kohort: {full.address} closes every connection: this host may have too many of them, or it is ending\n"
    )
    assert (ended.code, time.monotonic() - began_s >= 2.5) == (1, True)


def test_who_hangs_up_on_everybody_and_then_wants_a_log_in_is_understood(
    full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_first(host: str, port: int, *, within_s: float) -> bool:
        found = hangs_up_on_everybody(host, port, within_s=within_s)
        full.wants_words.set()
        return found

    monkeypatch.setattr(cluster, "hangs_up_on_everybody", at_first)
    began_s = time.monotonic()
    with pytest.raises(HungUp, match=r"closed the connection; does it want TLS or a log-in\?$"):
        Cluster(argparse.Namespace(bootstrap_server=full.address, timeout=20_000))
    assert time.monotonic() - began_s < 20  # and not when the time is out


def test_who_is_gone_when_the_time_is_out_cannot_be_reached(full: Full) -> None:
    words = ("topics", "list", "-b", full.address, "--timeout", "2500")
    command = subprocess.Popen([sys.executable, "-m", "kohort", *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    eventually(lambda: full.hung_up > 1)  # one that looks whether anybody is there, and the library's
    full.close()
    _, err = command.communicate(timeout=60)
    assert err == f"kohort: {full.address} cannot be reached: connection refused\n"


def test_an_interrupt_is_heard_while_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = ("topics", "list", "-b", f"127.0.0.1:{silent.getsockname()[1]}", *TEN_MINUTES)
        command = subprocess.Popen(
            [sys.executable, "-m", "kohort", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        connections = [silent.accept()[0] for _ in range(2)]  # a look whether anybody is there, and the library's
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
        assert (command.returncode, out, err) == (130, b"", b"kohort: interrupted\n")
        for connection in connections:
            connection.close()
