"""Mutilated frames end in an answer or a closed connection: never in a trace, a hang, or growing memory.

The long run is `make fuzz FRAMES=10000000 MINUTES=10`, the minutes being those over sockets; a seed that found
something replays with `make fuzz SEED=...`.
"""

import contextlib
import os
import re
import socket
import ssl
import time
from itertools import count
from pathlib import Path

import pytest

from broker.catalogue import topic_changes
from broker.loop import logs
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.fuzz.frames import Frames
from tests.fuzz.target import Target
from tests.support.broker_process import Kohort
from tests.support.certificates import Authority

DOORS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
FRAMES = int(os.environ.get("KOHORT_FUZZ_FRAMES", "20000"))
MINUTES = float(os.environ.get("KOHORT_FUZZ_MINUTES", "0"))
SEED = int(os.environ.get("KOHORT_FUZZ_SEED", "1"))


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topic_changes, "MAX_PARTITIONS", topic_changes.MAX_PARTITIONS)
    yield
    logs.configure()


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_frames_in_process_end_in_an_answer_or_a_closed_connection(tmp_path: Path):
    target = Target(tmp_path / "data", Frames(SEED), lifetime=min(20_000, FRAMES // 4))
    target.run(FRAMES // 2)
    before = _memory_bytes()
    target.run(FRAMES - FRAMES // 2)

    assert target.answers > FRAMES // 50
    assert target.closed > FRAMES // 50
    assert _memory_bytes() - before < 64 * 1024 * 1024


class Doors:
    """Listeners of every kind, before and behind a TLS handshake and a log-in."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        (folder / "server.pem").write_bytes(authority.issue().pem())
        users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_fuzz="z";'
        self.settings: dict[str, object] = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in DOORS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "server.pem",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
            "auto.create.topics.enable": "false",
            "connection.failed.authentication.delay.ms": 0,
            "kohort.log.level": "error",
        }
        self._trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        self._trusting.check_hostname = False

    def opened(self, broker: Kohort, number: int) -> socket.socket:
        """A connection to one of them; every second one is as far as it gets by fair means."""
        ready = re.search(r"ready on (.*) in", broker.log())
        assert ready is not None
        door, goes_in = DOORS[number // 2 % len(DOORS)], number % 2
        port = ready[1].split(" and ")[DOORS.index(door)].rpartition(":")[2]
        client = socket.create_connection(("127.0.0.1", int(port)), timeout=10)
        if not goes_in:
            return client
        if door.endswith("SSL"):
            client = self._trusting.wrap_socket(client, server_hostname="localhost")
        if door.startswith("SASL"):
            client.sendall(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1))
            client.sendall(encode_request(SaslAuthenticateRequest(auth_bytes=b"\0fuzz\0z"), 2, 2))
            for _ in range(2):
                head = _exactly(client, 4)
                answer = _exactly(client, int.from_bytes(head))
            assert answer[4:8] == b"\0\0\0\1", "it is not let in"  # no tags, no error, no message
        return client


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        assert piece
        data += piece
    return data


def test_frames_over_a_socket_leave_the_broker_alive_and_small(tmp_path: Path):
    """SE73: what a kernel makes of it too: pieces, resets, half-closed connections; on every kind of listener."""
    frames = Frames(SEED + 1)
    doors = Doors(tmp_path)
    with Kohort(tmp_path / "broker", doors.settings) as broker:
        before = broker.memory_bytes()
        until = time.monotonic() + 60 * MINUTES
        for number in count():
            if number >= 304 and time.monotonic() >= until:
                break
            with doors.opened(broker, number) as client:
                data = b"".join(frames.next() for _ in range(5))
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    client.sendall(data[: frames.random.randrange(len(data) + 1)])
                    if frames.random.random() < 0.5 and not isinstance(client, ssl.SSLSocket):
                        client.shutdown(socket.SHUT_WR)
                        while client.recv(65_536):
                            pass
        with doors.opened(broker, 0) as client:
            client.sendall(encode_request(ApiVersionsRequest(), 0, 9))
            head = client.recv(4, socket.MSG_WAITALL)
            frame = head + client.recv(int.from_bytes(head), socket.MSG_WAITALL)
        assert decode_response(ApiKey.API_VERSIONS, 0, frame)[0] == 9
        assert broker.memory_bytes() - before < 64 * 1024 * 1024
        assert "Traceback" not in broker.log()
