"""A whole broker, crashed at its file operations: topics come, are cleaned and go, records and offsets stay.

The broker of one process lives in virtual time on a disk that remembers. After a kill at any operation, or (durability
`always`) a power loss, another one is started on what is left: what was acknowledged is there, in its order; what was
not is there whole, or not at all; a topic that was deleted does not come back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from broker.loop import logs
from protocol.errors import ErrorCode
from storage.files import DISK
from tests.support.recording_disk import RecordingDisk, World
from tests.support.whole_broker import Whole

_CALLS = ("open", "close", "pwrite", "ftruncate", "fsync", "fdatasync", "rename", "unlink", "mkdir")
GROUP = "g0"


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()


@contextmanager
def remembering(root: Path) -> Iterator[RecordingDisk]:
    """Every file operation of this process below `root` goes through a disk that remembers."""
    disk = RecordingDisk(root)
    for name in _CALLS:
        setattr(DISK, name, getattr(disk, name))
    try:
        yield disk
    finally:
        for name in _CALLS:
            delattr(DISK, name)


@dataclass
class Asked:
    """Something that a client asked for, between which operations it was done, and what came of it."""

    what: str
    name: str
    value: bytes | int = b""
    begun: int = 0
    answered: int = 1 << 60


@dataclass
class Life:
    """What clients did, in order."""

    disk: RecordingDisk
    asked: list[Asked] = field(default_factory=list)

    @contextmanager
    def ask(self, what: str, name: str, value: bytes | int = b"") -> Iterator[None]:
        one = Asked(what, name, value, begun=len(self.disk.journal))
        self.asked.append(one)
        yield
        one.answered = len(self.disk.journal)

    def produce(self, broker: Whole, topic: str, value: bytes, key: bytes = b"k") -> None:
        with self.ask("produce", topic, value):
            broker.produce(topic, value, key)

    def commit(self, broker: Whole, offset: int) -> None:
        with self.ask("commit", GROUP, offset):
            assert broker.commit(GROUP, offset) == ErrorCode.NONE

    def create(self, broker: Whole, topic: str, **configs: str) -> None:
        with self.ask("create", topic):
            assert broker.create(topic, **configs) is ErrorCode.NONE

    def delete(self, broker: Whole, topic: str) -> None:
        with self.ask("delete", topic):
            assert broker.delete(topic) is ErrorCode.NONE


def live(life: Life, directory: Path, durability: str) -> None:
    """Two starts; between them topics are made, written to, cleaned, deleted, and made again."""
    broker = Whole(directory, kohort__durability=durability)
    life.create(broker, "t")
    life.create(broker, "short")
    life.create(broker, "c", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    for number in range(4):
        life.produce(broker, "t", b"t%d" % number)
        life.produce(broker, "short", b"before")
        life.produce(broker, "c", b"c%d" % number)
        life.commit(broker, number)
        compacted = broker.broker.partitions.get("c", 0)
        assert compacted is not None
        compacted.log.roll(now_ms=broker.runtime.now_ms())
    broker.runtime.advance(3_000)
    broker.produce("c", b"active", b"other")
    broker.runtime.advance(20_000)
    assert "log_cleaned" in broker.log.getvalue()
    life.delete(broker, "short")
    life.create(broker, "short")
    life.produce(broker, "short", b"after")
    life.commit(broker, 10)
    broker.runtime.advance(70_000)
    assert broker.stop()
    again = Whole(directory, now_ms=broker.runtime.now_ms(), kohort__durability=durability)
    life.produce(again, "t", b"again")
    life.commit(again, 11)
    assert again.stop()


def check(life: Life, at: int, broker: Whole) -> None:
    """What a broker that starts after a crash before operation `at` must and may hold."""
    image = broker.broker.catalogue.image
    for topic in ("t", "short", "c"):
        changes = [one for one in life.asked if one.what in ("create", "delete") and one.name == topic]
        sure = [one for one in changes if one.answered <= at]
        begun = [one for one in changes if one.begun < at]
        may = {sure[-1].what if sure else "delete", *(one.what for one in begun[len(sure) :])}
        there = image.topic(topic) is not None
        assert ("create" if there else "delete") in may, f"{topic} is {'' if there else 'not '}there"
        if there and topic != "c":
            births = [one.begun for one in changes if one.what == "create" and one.begun < at]
            lives = [_written(life, topic, birth, at) for birth in births[-2:]]
            found = broker.values(topic)
            assert any(found[: len(least)] == least and found == most[: len(found)] for least, most in lives), (
                f"{topic} holds {found}: {lives}"
            )
    commits = [one for one in life.asked if one.what == "commit" and one.begun < at]
    if commits:
        least = max((one.value for one in commits if one.answered <= at), default=-1)
        found_offset = broker.committed(GROUP)
        if found_offset is ErrorCode.NOT_COORDINATOR:
            assert least == -1, "there are no groups"
        else:
            assert found_offset in {least, *(one.value for one in commits if one.answered > at)}
    compacted = [one for one in life.asked if one.name == "c" and one.what == "produce" and one.answered <= at]
    if compacted:
        assert compacted[-1].value in broker.values("c") or any(
            one.value in broker.values("c") for one in life.asked if one.name == "c" and one.answered > at
        )


def _written(life: Life, topic: str, birth: int, at: int) -> tuple[list[bytes], list[bytes]]:
    """The values that a topic made at `birth` must hold, and those that it may."""
    end = min(
        (one.begun for one in life.asked if (one.what, one.name) == ("delete", topic) and one.begun >= birth),
        default=1 << 60,
    )
    mine = [
        one for one in life.asked if (one.what, one.name) == ("produce", topic) and birth <= one.begun < min(end, at)
    ]
    return [one.value for one in mine if one.answered <= at], [one.value for one in mine]  # type: ignore[misc]  # bytes


def crash_everywhere(tmp_path: Path, durability: str, every: int, seed: int = 0) -> int:
    root = tmp_path / "data"
    random = Random(seed)
    with remembering(root) as disk:
        life = Life(disk)
        live(life, root, durability)
    world, starts = World(), 0
    for at, op in enumerate(disk.journal):
        if at and at % every == seed % every and (tmp_path / "data").exists():
            images = [world.write_to]
            if durability == "always":
                power = random.randrange(1 << 30)
                images += [world.lose_power, lambda folder, power=power: world.lose_power(folder, Random(power))]
            for number, image in enumerate(images):
                folder = tmp_path / f"crash{at}-{number}"
                folder.mkdir()
                image(folder)
                where = f"{('killed', 'power lost', 'power lost at random')[number]} before {at}: {op[:3]} {op.target}"
                try:
                    broker = Whole(folder)
                    check(life, at, broker)
                    broker.forget()
                except BaseException as error:
                    error.add_note(where)
                    raise
                shutil.rmtree(folder)
                starts += 1
        world.apply(op)
    return starts


@pytest.mark.parametrize("durability", ["os", "always"])
def test_a_broker_that_crashes_now_and_then_keeps_its_word(tmp_path: Path, durability: str) -> None:
    assert crash_everywhere(tmp_path, durability, every=17, seed=5) > 20


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["os", "always"])
def test_a_broker_that_crashes_anywhere_keeps_its_word(tmp_path: Path, durability: str) -> None:
    assert crash_everywhere(tmp_path, durability, every=1) > 300
