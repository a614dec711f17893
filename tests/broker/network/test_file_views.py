"""What is answered out of files goes to the kernel unseen: a page that the disk does not give would end the process."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.handlers.context import RequestContext
from broker.handlers.fetch import fetch
from broker.network.transport_side import TransportSide
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from storage.errors import StorageError
from tests.storage.logs import batch as log_batch
from tests.storage.logs import opened
from tests.support.data_plane import DataPlane, batch

ROOT = Path(__file__).resolve().parents[3]
_LOST_PAGES = """
import asyncio, mmap, os, sys, types
import uvloop
from broker.network.transport_side import TransportSide

async def main(path, size):
    loop = asyncio.get_running_loop()
    with open(path, "wb+") as file:
        file.write(b"x" * size)
        file.flush()
        view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))[100:]
    os.truncate(path, 0)
    lost = loop.create_future()

    class Answering(asyncio.Protocol):
        def connection_made(self, transport):
            side = TransportSide(types.SimpleNamespace(tick=0))
            side.made(transport, 1 << 20)
            side.put([b"head", view, b"tail"])
            side.write()

        def connection_lost(self, error):
            lost.set_result(error)

    server = await loop.create_server(Answering, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await reader.read()
    print(await lost)

uvloop.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("size", [40_000, 400_000])
def test_pages_that_cannot_be_read_end_one_connection(tmp_path: Path, size: int) -> None:
    """A mapped file that was cut: what a bad disk does, too."""
    ended = subprocess.run(
        [sys.executable, "-c", _LOST_PAGES, str(tmp_path / "file"), str(size)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, "[Errno 14] Bad address"), ended.stderr


class _Deaf:
    """A transport whose peer reads nothing."""

    def __init__(self) -> None:
        self.unread_bytes = 0

    def set_write_buffer_limits(self, **_: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def writelines(self, pieces: list[Any]) -> None:
        self.unread_bytes += sum(map(len, pieces))

    def pause_reading(self) -> None:
        pass


def test_views_of_files_are_not_our_memory_and_views_of_requests_are(tmp_path: Path) -> None:
    """A large batch that stays in its request is sent out of it, for as long as the reader takes."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    with path.open("rb") as file:
        of_a_file = memoryview(mmap.mmap(file.fileno(), 100_000, access=mmap.ACCESS_READ))[100:]
    for view, own_bytes in ((of_a_file, 8), (memoryview(bytes(100_000))[100:], 99_908)):
        owner: Any = SimpleNamespace(tick=0)
        side, transport = TransportSide(owner), _Deaf()
        side.made(transport, 1 << 20)
        side.put([b"head", view, b"tail"])
        side.write()
        side.left_unread()
        assert side.unsent_bytes == own_bytes


@pytest.mark.parametrize(("is_encrypted", "kind"), [(False, memoryview), (True, bytes)])
def test_who_encrypts_what_is_fetched_has_a_copy(tmp_path: Path, is_encrypted: bool, kind: type) -> None:
    plane = DataPlane(tmp_path / "data")
    plane.create("t")
    plane.produce("t", batch(b"a"))
    plane.partition("t").log.state.tail.clear()
    context = RequestContext(version=11)
    context.session.is_encrypted = is_encrypted
    wanted = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)])]
    response: Any = fetch(plane.broker, context, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, topics=wanted))
    assert {type(piece) for piece in response.responses[0].partitions[0].records} == {kind}


def test_a_copy_of_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", tail=None)
    log.append(log_batch(), leader_epoch=0)
    assert log.read(0, 1_000, copied=True).next_offset == 3
    path = log.segments[0].path(".log")
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(StorageError, match="shorter than it was"):
        log.read(0, 1_000, copied=True)
