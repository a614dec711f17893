"""The metadata log on a disk whose fsync fails, and which calls the pages clean all the same.

What a change was answered holds whatever happens afterwards: a success through every power loss, a refusal as soon as a
later change was answered. Changes are possible again as soon as the disk is well, without a new start.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from broker.catalogue.config_changes import ConfigChange, ConfigOperation
from broker.catalogue.queue import MEND_AFTER_MS
from broker.loop import logs
from protocol.errors import ErrorCode
from storage.files import DISK
from tests.support.catalogue_fixture import CatalogueDriver
from tests.support.recording_disk import RecordingDisk, World
from tests.support.whole_broker import Whole

FOLDER = "__cluster_metadata-0"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(DISK, name, lambda _: None)  # of the starts after a crash, which nothing crashes
    yield
    logs.configure()


@dataclass
class Life:
    """Changes on a disk that remembers: what was answered, and after how many operations."""

    disk: RecordingDisk
    made: list[tuple[int, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failing: range = range(0)  # which fsyncs fail
    syncs: int = 0

    def __post_init__(self) -> None:
        self.disk.refuse_sync = self._refuses  # type: ignore[method-assign]

    def _refuses(self, name: str) -> bool:
        self.syncs += 1
        return self.syncs - 1 in self.failing

    def create(self, driver: CatalogueDriver, name: str) -> None:
        result = driver.create(name)
        if result.error is ErrorCode.NONE:
            self.made.append((len(self.disk.journal), name))
        else:
            assert result.error is ErrorCode.KAFKA_STORAGE_ERROR
            assert driver.catalogue.image.topic(name) is None
            self.refused.append(name)

    def check(self, at: int, found: tuple[str, ...]) -> None:
        """What a start after a crash before operation `at` may find."""
        sure = [name for when, name in self.made if when <= at]
        assert set(sure) <= set(found), f"{set(sure) - set(found)} had been answered"
        last = max(sure, default="")
        back = [name for name in self.refused if name < last and name in found]
        assert not back, f"{back} had been refused, and {last} was made after that"


def crash_everywhere(life: Life, tmp_path: Path, since: int = 0) -> int:
    """Start on what crashes leave, after operation `since` of the life."""
    world, starts = World(), 0
    for at in range(len(life.disk.journal) + 1):
        random = Random(at)
        images: list[Callable[[Path], None]] = [world.write_to, world.lose_power]
        images += [lambda to, random=random: world.lose_power(to, random)] * 2  # type: ignore[misc]
        for image in images if at > since else ():
            folder = tmp_path / "crashed"
            (folder / FOLDER).mkdir(parents=True)
            image(folder)
            life.check(at, CatalogueDriver(folder, clean=False, seed=50).catalogue.image.names())
            shutil.rmtree(folder)
            starts += 1
        if at < len(life.disk.journal):
            world.apply(life.disk.journal[at])
    return starts


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_failed_flush_is_mended_and_nothing_answered_is_lost_or_comes_back(tmp_path: Path, count: int) -> None:
    """Each fsync of the life in turn, and so many after it, fails; then power is lost anywhere."""
    root = tmp_path / "data"
    starts = 0
    for first in range(count % 2, 4, 2):
        root.mkdir()
        life = Life(RecordingDisk(root))
        driver = CatalogueDriver(root, disk=life.disk)
        assert life.syncs >= 5, "the start's own"
        begun = len(life.disk.journal)
        life.failing, life.syncs = range(first, first + count), 0
        for number in range(5):
            life.create(driver, f"t{number}")
            if number % 2:
                driver.runtime.advance(MEND_AFTER_MS)
        driver.runtime.advance(8 * MEND_AFTER_MS)
        assert driver.catalogue.queue.failed is None, "the disk is well again"
        assert life.refused
        life.create(driver, "t9")
        assert life.made[-1][1] == "t9"
        starts += crash_everywhere(life, tmp_path, begun)
        shutil.rmtree(root)
    assert starts > 60


def test_what_a_failed_flush_left_in_the_page_cache_is_not_believed_by_the_next_start(tmp_path: Path) -> None:
    """The process dies of it, or is stopped; the one after it reads the pages, and writes them again."""
    root = tmp_path / "data"
    root.mkdir()
    life = Life(RecordingDisk(root))
    driver = CatalogueDriver(root, disk=life.disk)
    life.create(driver, "t0")
    begun = len(life.disk.journal)
    life.failing, life.syncs = range(100), 0
    life.create(driver, "t1")
    assert life.refused == ["t1"] and not driver.catalogue.queue.sound
    life.failing, life.refused = range(0), []
    again = CatalogueDriver(root, disk=life.disk, clean=False, seed=1)
    for name in again.catalogue.image.names():
        life.made.append((len(life.disk.journal), name))
    life.create(again, "t2")
    assert [name for _, name in life.made[1:]] == ["t0", "t1", "t2"]
    assert crash_everywhere(life, tmp_path, begun) > 50


def test_while_the_log_is_not_mended_changes_are_refused_and_what_is_shown_stays(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    life = Life(RecordingDisk(root))
    driver = CatalogueDriver(root, disk=life.disk)
    catalogue = driver.catalogue
    life.create(driver, "t0")
    life.failing, life.syncs = range(1_000), 0

    retention = ConfigChange("retention.ms", ConfigOperation.SET, "5")
    (refused,) = driver.all(lambda answer: catalogue.alter_configs((2, "t0"), [retention], answer))
    life.create(driver, "t1")
    driver.runtime.advance(20 * MEND_AFTER_MS)

    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert life.refused == ["t1"]
    assert catalogue.queue.failed is not None
    assert catalogue.configs == {} and catalogue.image.names() == ("t0",)
    life.failing = range(0)
    driver.runtime.advance(MEND_AFTER_MS)
    assert catalogue.queue.failed is None and catalogue.state.configs == {}
    life.create(driver, "t2")
    assert catalogue.image.names() == ("t0", "t2")


def test_a_stop_with_a_log_that_is_not_mended_is_no_clean_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Whole(tmp_path / "data")
    assert whole.create("t") is ErrorCode.NONE

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patches:
        patches.setattr(DISK, "fdatasync", refuse)
        patches.setattr(DISK, "fsync", refuse)
        assert whole.create("u") is ErrorCode.KAFKA_STORAGE_ERROR
        whole.runtime.advance(5 * MEND_AFTER_MS)
        assert whole.log.getvalue().count("metadata_log_failed") == 1
    assert not whole.stop()
    assert Whole(tmp_path / "data").stop()


def test_another_process_is_noticed_while_the_log_is_mended(tmp_path: Path) -> None:
    """DD15: what somebody else has appended is not thrown away with what was refused."""
    root = tmp_path / "data"
    root.mkdir()
    life = Life(RecordingDisk(root))
    driver = CatalogueDriver(root, disk=life.disk)
    told: list[str] = []
    driver.catalogue.queue.on_intruder = told.append
    life.failing, life.syncs = range(2), 0
    life.create(driver, "t0")
    path = root / FOLDER / f"{0:020d}.log"
    with path.open("ab") as other:
        other.write(b"somebody else's bytes")
    before = path.read_bytes()

    driver.runtime.advance(3 * MEND_AFTER_MS)

    assert len(told) == 1 and path.read_bytes() == before
