"""How long do others wait for a hostile client? Twenty of each API's worst, and one that only sends heartbeats.

The worst client of an API sends a megabyte of what it may ask for, again as soon as it has its answer: names without
end, partitions without end, times that lie inside compressed batches. They are clients of one process with a low
priority, so that on two cores they do not take from the broker what is measured. The heartbeat is one of a group,
sent every few milliseconds on a connection of its own.
Then what a storm of commits loses beside a client of garbage and one that never reads: 20,000 commits for 200 groups by
20 clients, alone and beside the two.
And how long the heartbeat waits beside producers that write faster than the disk, twenty batches of 100 KB at a time,
for twenty seconds, in which the system begins to make who writes wait.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import selectors
import socket
import struct
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event

from benchmarks.common import Row, arguments, brokers, create_topic, load, machine, median, show
from benchmarks.worst import frames_of, furnish, worst
from protocol.messages import heartbeat
from tests.crash.test_storm import Storm, deaf, garbage, prepare
from tests.support.broker_process import BrokerProcess, Kohort
from tests.support.wire import Wire

HOSTILE = 20
LIMIT_MS = 50
FILLING_S = 20


def attack(address: str, data: bytes, begun: Event, end: Event) -> None:
    """Twenty connections that send `data`, wait for all the answers to it, and send it again."""
    os.nice(10)
    host, _, port = address.rpartition(":")
    count, position = 0, 0
    while position < len(data):
        position += 4 + struct.unpack_from(">i", data, position)[0]
        count += 1
    selector = selectors.DefaultSelector()
    for _ in range(HOSTILE):
        connection = socket.create_connection((host, int(port)))
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE, [memoryview(data), b"", 0, count])
    room = bytearray(1 << 20)
    while not end.is_set():
        for key, _ in selector.select(0.1):
            _serve(selector, key, data, room, count)
        begun.set()


def _serve(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, data: bytes, room: bytearray, count: int
) -> None:
    state, connection = key.data, key.fileobj
    assert isinstance(connection, socket.socket)
    if state[0]:
        state[0] = state[0][connection.send(state[0]) :]
        selector.modify(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if state[0] else 0), state)
    with contextlib.suppress(BlockingIOError):
        size = connection.recv_into(room)
        if not size:
            sys.exit("a hostile client was thrown out: it must be answered to be a nuisance")
        # Frames are only counted: a head that came in pieces, how much of a frame is still to come, how many frames.
        position = 0
        while position < size:
            if state[2]:
                step = min(state[2], size - position)
                state[2] -= step
                position += step
                state[3] -= state[2] == 0
            else:
                head = bytes(room[position : min(position + 4 - len(state[1]), size)])
                position += len(head)
                state[1] += head
                if len(state[1]) == 4:
                    state[2] = struct.unpack(">i", state[1])[0]
                    state[1] = b""
    if not state[3]:
        state[0], state[3] = memoryview(data), count
        selector.modify(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, state)


def heartbeats(address: str, seconds: float) -> list[float]:
    """How long each heartbeat of one quiet client took, in ms, sorted."""
    request = heartbeat.HeartbeatRequest(group_id="quiet", generation_id=1, member_id="nobody")
    times_ms = []
    with Wire(address) as wire:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(times_ms) < 3:
            began = time.perf_counter()
            wire.call(request, 3)
            times_ms.append((time.perf_counter() - began) * 1_000)
            time.sleep(0.002)
    return sorted(times_ms)


@contextlib.contextmanager
def beside(address: str, data: bytes) -> Iterator[None]:
    """Hostile clients are at work."""
    context = multiprocessing.get_context("spawn")
    begun, end = context.Event(), context.Event()
    process = context.Process(target=attack, args=(address, data, begun, end), daemon=True)
    process.start()
    begun.wait(60)
    time.sleep(0.5)
    try:
        yield
        if process.exitcode:
            sys.exit("a hostile client was thrown out")
    finally:
        end.set()
        process.join(10)
        process.kill()


def stalls(broker: BrokerProcess) -> list[str]:
    """What the broker itself says of turns of its loop that took too long, by API."""
    if not isinstance(broker, Kohort):
        return []
    text = urllib.request.urlopen(f"{broker.http}/metrics").read().decode()
    found = re.findall(r'^kohort_loop_longest_stall_seconds\{api="(.*?)"\} (\S+)', text, re.MULTILINE)
    return [
        f"{name} {float(seconds) * 1_000:.0f} ms" for name, seconds in sorted(found, key=lambda one: -float(one[1]))
    ]


def waiting(options: argparse.Namespace) -> list[Row]:
    """The longest heartbeat beside the worst of each API, the median of the rounds."""
    rows = []
    with brokers(options, **{"num.partitions": 1}) as running:
        for broker in running:
            furnish(broker)
            heartbeats(broker.address, 1)
        apis = [None, *(api for api in worst() if not options.api or api in options.api)]
        for api in apis:
            row = Row(api or "nobody", "ms", "" if api is None else f"<= {LIMIT_MS}")
            rows.append(row)
            for broker in running:
                longest, middle = [], []
                for _ in range(options.rounds):
                    with beside(broker.address, frames_of(api)) if api else contextlib.nullcontext():
                        times_ms = heartbeats(broker.address, options.seconds)
                    longest.append(times_ms[-1])
                    middle.append(median(times_ms))
                row.take(broker.name, longest)
                row.notes[broker.name] = f"p50 {median(middle):.1f}"
            print(f"{row.question}: {row.figures} {row.notes}", file=sys.stderr)
        for broker in running:
            print(f"{broker.name} says that its loop was held: {', '.join(stalls(broker)) or '-'}", file=sys.stderr)
    return rows


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="how long heartbeats are sent beside each (3)")
    parser.add_argument("--api", action="append", help="only this API's worst client; may be repeated")
    parser.add_argument("--producers", action="store_true", help="only beside producers of large batches")
    options = parser.parse_args()
    if options.producers:
        producers(options)
        return
    rows = waiting(options)
    print(f"\n{machine()}; the longest heartbeat of {options.seconds:g} s, median of {options.rounds}\n")
    show(rows, options)
    if not options.api:
        storms(options)
        producers(options)


def producers(options: argparse.Namespace) -> None:
    """The heartbeat beside producers of large batches. Each round has a broker of its own, and an empty disk."""
    rows = [
        Row("longest heartbeat beside producers of 100 KB", "ms", f"<= {LIMIT_MS}"),
        Row("99.9 % of the heartbeats took", "ms"),
        Row("produced", "/s", more_is_better=True),
        Row("broker CPU a request", "us"),
    ]
    found: dict[str, list[list[float]]] = {}
    for _ in range(options.rounds):
        with brokers(options) as running, ThreadPoolExecutor(1) as thread:
            for broker in running:
                create_topic(broker, "large", 4)
                heartbeats(broker.address, 1)
                load(broker, "produce", conns=4, depth=5, bytes=100_000, topic="large", seconds=1)
                used_s = broker.cpu_s()
                beats = thread.submit(heartbeats, broker.address, FILLING_S)
                answer = load(broker, "produce", conns=4, depth=5, bytes=100_000, topic="large", seconds=FILLING_S)
                times_ms = beats.result()
                cost_us = (broker.cpu_s() - used_s) / answer["requests"] * 1e6
                measured = times_ms[-1], times_ms[len(times_ms) * 999 // 1000], answer["requests_per_s"], cost_us
                for figures, figure in zip(found.setdefault(broker.name, [[] for _ in rows]), measured, strict=True):
                    figures.append(figure)
                print(f"{broker.name}: {measured}; held: {', '.join(stalls(broker)[:3]) or '-'}", file=sys.stderr)
                broker.kill()
    for name, columns in found.items():
        for row, figures in zip(rows, columns, strict=True):
            row.take(name, figures)
    print(f"\n{machine()}; median of {options.rounds}\n")
    show(rows, options)


def storms(options: argparse.Namespace) -> None:
    """Commits alone and beside hostile connections: each round alone first."""
    rows = [Row("commits alone", "/s"), Row("commits beside hostile connections", "/s")]
    cpu = [Row("broker CPU a commit, alone", "us"), Row("broker CPU a commit, beside", "us")]
    with brokers(options) as running:
        for broker in running:
            prepare(broker)
            Storm(broker.address, "topic-0", 1)  # warms up
            alone, hostile = [], []
            for number in range(options.rounds):
                alone.append(_storm(broker, (2 * number + 1) * 1_000_000))
                with garbage(broker.address, seed=number), deaf(broker):
                    hostile.append(_storm(broker, (2 * number + 2) * 1_000_000))
            for which, measured in enumerate((alone, hostile)):
                rows[which].take(broker.name, [rate for rate, _ in measured])
                cpu[which].take(broker.name, [cost for _, cost in measured])
    print(f"\n{machine()}; median of {options.rounds}\n")
    show([*rows, *cpu], options)


def _storm(broker: BrokerProcess, first_offset: int) -> tuple[float, float]:
    """(commits a second, microseconds of the broker's CPU time for each)."""
    began, used_s = time.monotonic(), broker.cpu_s()
    storm = Storm(broker.address, "topic-0", first_offset)
    took_s = time.monotonic() - began
    assert not storm.failures, storm.failures[:3]
    return storm.commits / took_s, (broker.cpu_s() - used_s) / storm.commits * 1e6


if __name__ == "__main__":
    main()
