"""What does the log cost, without a broker around it? Appends, reads into a socket, opening and recovering.

python -m benchmarks.partition_log
"""

from __future__ import annotations

import platform
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.records.batch import Record, encode_batch
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
SMALL_BATCHES = 300_000
LARGE_BATCHES = 1_000
READ_BYTES = 1 << 20


def batch(size_bytes: int) -> bytearray:
    """One record in a batch of about `size_bytes`."""
    return encode_batch([Record(0, 1_700_000_000_000, b"key", b"v" * (size_bytes - 76))])


def report(question: str, seconds: float, count: int, note: str = "") -> None:
    print(f"{question:52} {seconds / count * 1e6:12.2f} us  {note}")


def best(count: int, work: Callable[[int], object]) -> float:
    """Seconds for `count` calls, the best of some rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for at in range(count):
            work(at)
        times.append(time.perf_counter() - began)
    return min(times)


def appends(directory: Path, name: str, size_bytes: int, count: int) -> None:
    (directory / f"{name}-0").mkdir()
    log = PartitionLog.open(directory / f"{name}-0", LogConfig())
    prepared = iter([batch(size_bytes) for _ in range(count)])
    rounds = count // ROUNDS
    report(f"append {size_bytes} B", best(rounds, lambda _: log.append(next(prepared), leader_epoch=0)), rounds)
    log.close()


def reads(directory: Path) -> None:
    log = PartitionLog.open(directory / "large-0", LogConfig(), clean=True)
    sender, receiver = socket.socketpair()

    def drain() -> None:
        into = bytearray(READ_BYTES)
        while receiver.recv_into(into):
            pass

    threading.Thread(target=drain, daemon=True).start()

    def fetch(at: int, *, copied: bool) -> None:
        for buffer in log.read(at * 10 % (LARGE_BATCHES - 20), READ_BYTES, copied=copied).buffers:
            sender.sendall(buffer)

    report("read 1 MB and send it, mapped", best(1_000, lambda at: fetch(at, copied=False)), 1_000)
    report("read 1 MB and send it, copied", best(1_000, lambda at: fetch(at, copied=True)), 1_000)
    sender.close()
    small = PartitionLog.open(directory / "small-0", LogConfig(), clean=True)
    report("read 4 KB anywhere", best(20_000, lambda at: small.read(at * 7919 % 200_000, 4096)), 20_000)
    end = small.append(batch(200), leader_epoch=0)
    report("read the newest batch", best(20_000, lambda _: small.read(end, READ_BYTES)), 20_000)
    small.close()
    log.close()


def openings(directory: Path) -> None:
    for name in ("small", "large"):
        folder = directory / f"{name}-0"
        report(
            f"open {name} after a clean stop",
            best(100, lambda _: PartitionLog.open(folder, LogConfig(), clean=True)),  # noqa: B023  called at once
            100,
        )
        began = time.perf_counter()
        log = PartitionLog.open(folder, LogConfig())
        seconds, megabytes = time.perf_counter() - began, log.size_bytes / 1e6
        note = f"{megabytes:.0f} MB in {seconds:.2f} s"
        report(f"recover {name}, per batch", seconds, log.log_end_offset, note)
        began, offset = time.perf_counter(), 0
        while offset < log.log_end_offset:
            offset = log.read(offset, READ_BYTES, copied=True).next_offset
        seconds = time.perf_counter() - began
        report(f"scan {name} to load it, per MB", seconds, round(megabytes), f"{megabytes / seconds:.0f} MB/s")


def main() -> None:
    """Run everything in a temporary folder."""
    print(f"Python {platform.python_version()}, {platform.machine()}, best of {ROUNDS} rounds")
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        appends(directory, "small", 200, SMALL_BATCHES)
        appends(directory, "large", 100 * 1024, LARGE_BATCHES)
        reads(directory)
        openings(directory)


if __name__ == "__main__":
    main()
