"""Any file operation of a broker may be refused, once or for a while: a full disk, a lost permission, a failing device.

Clients get an error or what they asked for; the broker lives on; when the disk is well again everything works, and what
was acknowledged is there, then and after the next start. BI08.
"""

from __future__ import annotations

import errno
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.loop import logs
from protocol.errors import ErrorCode, KafkaError
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.files import DISK, LogFile
from tests.support.garbage import collected_by_nobody, waiting_for_the_collector
from tests.support.whole_broker import Whole

SYNCS = ("fsync", "fdatasync", "syncfs")
CALLS = ("open", "pwrite", "pread", "ftruncate", "rename", "unlink", *SYNCS)
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
GROUP = "g0"


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Fsyncs take their time and prove nothing here: no test of these cuts the power.
    for name in SYNCS:
        monkeypatch.setattr(DISK, name, lambda _: None)
    yield
    logs.configure()


class Trouble:
    """Refuses file operations number `first` to `first` + `count`."""

    def __init__(self, first: int, count: int) -> None:
        self.first, self.count, self.seen = first, count, 0
        self.refused: list[str] = []

    def guarded(self, name: str) -> Callable[..., Any]:
        real = getattr(DISK, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.seen += 1
            if self.first <= self.seen < self.first + self.count:
                self.refused.append(name)
                code = ERRORS[self.first % len(ERRORS)]
                raise OSError(code, os.strerror(code))
            return real(*arguments, **options)

        return call


@contextmanager
def trouble(first: int, count: int) -> Iterator[Trouble]:
    made = Trouble(first, count)
    with pytest.MonkeyPatch.context() as patches:
        for name in CALLS:
            patches.setattr(DISK, name, made.guarded(name))
        yield made


class Clients:
    """What was acknowledged to them."""

    def __init__(self, broker: Whole) -> None:
        self.broker = broker
        self.values: dict[str, list[bytes]] = {}
        self.gone: set[bytes] = set()
        self.offsets: list[int] = [-1]
        self.tried_offset = -1
        self.topics: set[str] = set()

    def produce(self, value: bytes, topic: str = "t") -> None:
        if topic in self.topics:
            with suppress(KafkaError):
                self.broker.produce(topic, value)
                self.values.setdefault(topic, []).append(value)

    def commit(self, offset: int) -> None:
        self.tried_offset = offset
        if self.broker.commit(GROUP, offset) == ErrorCode.NONE:
            self.offsets.append(offset)

    def create(self, name: str, **configs: str) -> None:
        if self.broker.create(name, **configs) is ErrorCode.NONE:
            self.topics.add(name)

    def delete(self, name: str) -> None:
        self.topics.discard(name)  # refused or not, it may be gone: only what is sure is asked for later
        values = self.values.pop(name, [])
        if self.broker.delete(name) is ErrorCode.NONE:
            self.gone.update(values)


def live(broker: Whole) -> Clients:
    """Some seconds with everything in them."""
    clients = Clients(broker)
    clients.create("t")
    clients.create("short")
    clients.create("c", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for number in range(4):
        clients.produce(b"%d" % number)
        clients.produce(b"short %d" % number, "short")
        clients.commit(number)
        if "c" in clients.topics:
            with suppress(KafkaError):
                broker.produce("c", b"c%d" % number)
        compacted = None
        with suppress(KafkaError):
            compacted = broker.broker.partitions.get("c", 0)
        if compacted is not None:
            with suppress(KafkaError):
                compacted.log.roll(now_ms=broker.runtime.now_ms())
        broker.runtime.advance(2_000)
    clients.delete("short")
    clients.create("short")
    clients.produce(b"another short", "short")
    broker.runtime.advance(70_000)
    clients.produce(b"late")
    clients.commit(9)
    return clients


def survive(directory: Path, first: int, count: int, durability: str) -> bool:
    """Live through the trouble, then well again, then a new start. Whether there was any trouble."""
    broker = Whole(directory, kohort__durability=durability)
    with trouble(first, count) as met:
        clients = live(broker)
    # What failed is loaded anew, and what was put off is done.
    broker.runtime.advance(120_000)
    # A collector that has no time for what is there keeps it for good, and each of these is a descriptor.
    assert [str(one.path) for one in waiting_for_the_collector() if type(one) is LogFile] == []
    said = broker.log.getvalue()
    assert "Traceback" not in said, said
    assert broker.broker.catalogue.queue.failed is None, said
    clients.create("after")
    assert "after" in clients.topics, said
    for topic in sorted(clients.topics - {"c"}):
        clients.produce(b"well again " + topic.encode(), topic)
        assert clients.values[topic][-1] == b"well again " + topic.encode(), said
    clients.commit(10)
    assert clients.offsets[-1] == 10, said
    check(clients, broker)
    assert not met.refused or "error" in said.lower() or "ERROR" in said or count < 3
    broker.stop()
    assert "Traceback" not in broker.log.getvalue(), broker.log.getvalue()
    again = Whole(directory, now_ms=broker.runtime.now_ms(), kohort__durability=durability)
    again.runtime.advance(5_000)
    check(clients, again)
    assert again.stop()
    return bool(met.refused)


def check(clients: Clients, broker: Whole) -> None:
    """What was acknowledged is there, in its order, and nothing twice."""
    image = broker.broker.catalogue.image
    for name in clients.topics:
        assert image.topic(name) is not None, f"{name} was made"
    for topic, values in clients.values.items():
        found = broker.values(topic)
        rest = iter(found)
        assert all(value in rest for value in values), f"{values} of {topic} are not all in {found}"
        assert len(found) == len(set(found))
        assert not clients.gone.intersection(found), f"{topic} was deleted and made anew: {found}"
    offset = broker.committed(GROUP)
    if clients.offsets != [-1]:
        assert offset == clients.offsets[-1] or offset == clients.tried_offset


def sweep(tmp_path: Path, every: int, count: int, durability: str) -> int:
    first, rounds = 1, 0
    while True:
        try:
            with collected_by_nobody():
                met = survive(tmp_path / f"{first}", first, count, durability)
        except BaseException as error:
            error.add_note(f"operations {first} to {first + count - 1} refused")
            raise
        shutil.rmtree(tmp_path / f"{first}")
        gc.collect()  # a life's files are closed with it
        if not met:
            return rounds
        rounds += 1
        first += every


@pytest.mark.parametrize("durability", ["os", "always"])
@pytest.mark.parametrize("count", [1, 12])
def test_refused_operations_lose_nothing(tmp_path: Path, count: int, durability: str) -> None:
    assert sweep(tmp_path, 19, count, durability) > 8


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["os", "always"])
@pytest.mark.parametrize(
    ("count", "every"),
    [pytest.param(1, 1, marks=pytest.mark.long), pytest.param(2, 3, marks=pytest.mark.long), (2, 5), (40, 7)],
)
def test_any_refused_operation_loses_nothing(tmp_path: Path, count: int, every: int, durability: str) -> None:
    assert sweep(tmp_path, every, count, durability) > 200 // every


def test_a_start_that_the_disk_refuses_is_an_error_with_a_name(tmp_path: Path) -> None:
    """Each operation of a start in turn: it is refused by name, or the start goes well; and the next one does."""
    broker = Whole(tmp_path / "data")
    clients = live(broker)
    assert broker.stop()
    now_ms = broker.runtime.now_ms()
    for first in range(1, 1_000):
        with trouble(first, 1) as met:
            try:
                started = Whole(tmp_path / "data", now_ms=now_ms)
            except (StorageError, CorruptFile, DirectoryRefused, OSError) as error:
                assert str(tmp_path) in str(error) or isinstance(error, OSError), error
                started = None
        if started is None:
            started = Whole(tmp_path / "data", now_ms=now_ms)
        started.runtime.advance(10_000)
        assert "Traceback" not in started.log.getvalue(), started.log.getvalue()
        check(clients, started)
        assert started.stop()
        if not met.refused:
            break
    assert first > 10
