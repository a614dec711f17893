"""What the scripted clients share: the events they print, the commands they read, the records they write.

A worker is started with one JSON object as its argument and prints one JSON object per line. Every event has `t`, the
machine's monotonic clock in nanoseconds, so that histories of several processes can be laid beside each other.

    assigned   partitions given by this rebalance; generation and member_id where the client tells
    revoked    partitions taken (or lost), printed when the client has finished with them
    read       partition, first and last offset: all offsets between have been read, in order
    committing, committed, commit_failed    positions by partition; `committing` goes out before the request
    stalls     it polls no more for `stall_ms`
    fatal      the client gave up: the error's name
    left       closed in good order

Commands on stdin, one a line: `leave` ends the worker in good order; `stall` has it work `stall_ms` without polling.
"""

import hashlib
import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

PARTITIONS = 6
# Fixed, so that the same records have the same bytes whoever wrote them.
FIRST_TIMESTAMP_MS = 1_700_000_000_000

_lock = threading.Lock()


def emit(event: str, **facts: Any) -> None:
    """Print one event. Safe from any thread."""
    line = json.dumps({"event": event, "t": time.monotonic_ns(), **facts})
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def settings() -> dict[str, Any]:
    """The JSON object that this worker was started with."""
    return json.loads(sys.argv[1])


def on_command(act: Callable[[str], None]) -> None:
    """Call `act` with every line of stdin, from a thread of its own; the end of stdin counts as `leave`."""

    def listen() -> None:
        for line in sys.stdin:
            act(line.strip())
        act("leave")

    threading.Thread(target=listen, daemon=True).start()


class Record(NamedTuple):
    """One record as every client can write and read it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def record(index: int) -> Record:
    """The record number `index`. `JavaWorker.java` makes the same ones."""
    key = None if index % 7 == 0 else b"key-%d" % index
    size = (index * 37) % 300
    text = b"value-%d " % index
    value = None if index % 101 == 0 and key is not None else (text * (size // len(text) + 1))[:size]
    headers = []
    if index % 5 == 0:
        headers = [("n", b"%d" % index), ("empty", b"")]
    return Record(index % PARTITIONS, key, value, headers, FIRST_TIMESTAMP_MS + index)


def records(count: int) -> Iterator[Record]:
    """The first `count` records."""
    return map(record, range(count))


class Digest:
    """SHA-256 over the records of one partition, in the order they came."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(
        self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp_ms: int
    ) -> None:
        """Take in one record."""
        parts = [struct.pack(">q", timestamp_ms)]
        headers = list(headers)
        pieces = [key, value]
        for name, content in headers:
            pieces += [name.encode(), content]
        for piece in pieces:
            parts.append(struct.pack(">i", -1 if piece is None else len(piece)))
            parts.append(piece or b"")
        parts.append(struct.pack(">i", len(headers)))
        self._hash.update(b"".join(parts))
        self.count += 1

    def value(self) -> str:
        """The digest so far, in hex."""
        return self._hash.hexdigest()


def expected(count: int) -> dict[int, tuple[int, str]]:
    """What a reader of the first `count` records finds: count and digest by partition."""
    digests = [Digest() for _ in range(PARTITIONS)]
    for partition, *rest in records(count):
        digests[partition].add(*rest)
    return {partition: (digest.count, digest.value()) for partition, digest in enumerate(digests)}


def emit_reads(batches: Iterable[tuple[int, list[int]]]) -> None:
    """Print `read` for each (partition, offsets), cut where offsets do not follow each other."""
    for partition, offsets in batches:
        first = offsets[0]
        for here, after in zip(offsets, [*offsets[1:], None], strict=True):
            if after != here + 1:
                emit("read", partition=partition, first=first, last=here)
                first = after
