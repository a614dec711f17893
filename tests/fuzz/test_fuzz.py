"""Mutilated frames end in an answer or a closed connection: never in a trace, a hang, a long turn, or growing memory.

The long run is `make fuzz FRAMES=10000000 MINUTES=10`, the minutes being those over sockets; a seed that found
something replays with `make fuzz SEED=...`.
"""

import contextlib
import errno
import os
import socket
import ssl
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from broker.catalogue import topic_changes
from broker.handlers.dispatch import HANDLERS
from broker.handlers.metadata import metadata
from broker.loop import logs
from protocol.api_keys import ApiKey
from protocol.frames import decode_response, encode_request
from protocol.messages.api_versions import ApiVersionsRequest
from tests.fuzz.doors import Doors
from tests.fuzz.frames import Frames
from tests.fuzz.heartbeats import Heartbeats
from tests.fuzz.target import Target
from tests.fuzz.watched import HELD_S
from tests.support.broker_process import Kohort

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
    frames = Frames(SEED)
    target = Target(tmp_path / "data", frames, lifetime=min(20_000, FRAMES // 4))
    target.run(FRAMES // 2)
    before = _memory_bytes()
    target.run(FRAMES - FRAMES // 2)

    print(f"{FRAMES:,} frames, {frames.wide_ones} of them wide, the longest turn {target.longest_s * 1e3:.1f} ms")
    assert frames.wide_ones > FRAMES // 10_000
    assert target.answers > FRAMES // 50
    assert target.closed > FRAMES // 50
    assert _memory_bytes() - before < 64 * 1024 * 1024


def test_a_handler_that_burns_on_a_wide_request_is_seen(tmp_path: Path):
    """One of more elements than are read on the loop, so that its handler runs in a later turn."""

    def burning(broker: Any, context: Any, request: Any) -> Any:
        until = time.thread_time() + (2 * HELD_S if len(request.topics or ()) > 512 else 0)
        while time.thread_time() < until:
            pass
        return metadata(broker, context, request)

    handlers = {**HANDLERS, ApiKey.METADATA: burning}
    Target(tmp_path / "few", Frames(SEED, wide=0, apis=[ApiKey.METADATA]), handlers=handlers).run(100)
    with pytest.raises(AssertionError, match="a turn took"):
        Target(tmp_path / "many", Frames(SEED, wide=0.3, apis=[ApiKey.METADATA]), handlers=handlers).run(100)


def test_mutilated_heartbeats_of_members_that_are_there_end_in_an_answer_or_a_closed_connection(tmp_path: Path):
    """KIP-848: from their ids, epochs and partitions; wrong in some fields, or in some bytes, or not at all."""
    target = Target(tmp_path / "data", Heartbeats(SEED), lifetime=max(20_000, FRAMES // 20))
    target.run(FRAMES // 10 if FRAMES < 100_000 else FRAMES)

    assert target.highest_epoch > 20
    assert target.answers > FRAMES // 50


def _hang_up(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


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
            with doors.opened(broker, number, frames) as client:
                data = b"".join(frames.next() for _ in range(5))
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    client.sendall(data[: frames.random.randrange(len(data) + 1)])
                    if frames.random.random() < 0.5 and not isinstance(client, ssl.SSLSocket):
                        _hang_up(client)
                        while client.recv(65_536):
                            pass
        with doors.opened(broker, 0, frames) as client:
            client.sendall(encode_request(ApiVersionsRequest(), 0, 9))
            head = client.recv(4, socket.MSG_WAITALL)
            frame = head + client.recv(int.from_bytes(head), socket.MSG_WAITALL)
        print(f"{number:,} connections, {broker.memory_bytes() - before:,} bytes more")
        assert decode_response(ApiKey.API_VERSIONS, 0, frame)[0] == 9
        assert broker.memory_bytes() - before < 64 * 1024 * 1024
        assert "Traceback" not in broker.log()
