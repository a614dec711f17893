"""What the disk that remembers says a power loss leaves: the ground of every test that pulls the plug."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.recording_disk import RecordingDisk, World


def fsync(disk: RecordingDisk, path: Path) -> None:
    descriptor = disk.open(path, os.O_RDONLY)
    disk.fsync(descriptor)
    disk.close(descriptor)


def make(disk: RecordingDisk, path: Path, content: bytes) -> None:
    descriptor = disk.open(path, os.O_RDWR | os.O_CREAT)
    disk.pwrite(descriptor, content, 0)
    disk.fsync(descriptor)
    disk.close(descriptor)


def left(disk: RecordingDisk, to: Path) -> dict[str, bytes]:
    """By name, what a power loss leaves."""
    world = World()
    for op in disk.journal:
        world.apply(op)
    world.lose_power(to)
    return {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}


def test_a_folder_that_takes_the_name_of_a_renamed_one_keeps_what_was_fsynced_in_it(tmp_path: Path) -> None:
    """The new one's fsync comes before that of the folder above, which makes both the rename and the new one last."""
    root = tmp_path / "root"
    root.mkdir()
    disk = RecordingDisk(root)
    disk.mkdir(root / "t-0")
    make(disk, root / "t-0" / "id", b"old")
    fsync(disk, root / "t-0")
    fsync(disk, root)
    disk.rename(root / "t-0", root / "t-0.delete")
    disk.mkdir(root / "t-0")
    make(disk, root / "t-0" / "id", b"new")
    fsync(disk, root / "t-0")
    assert left(disk, tmp_path / "before") == {"t-0/id": b"old"}
    fsync(disk, root)
    assert left(disk, tmp_path / "after") == {"t-0/id": b"new", "t-0.delete/id": b"old"}


def test_what_was_fsynced_in_a_folder_is_gone_with_the_folder(tmp_path: Path) -> None:
    """A folder that was just made is there for good once the one above it was fsynced."""
    root = tmp_path / "root"
    root.mkdir()
    disk = RecordingDisk(root)
    disk.mkdir(root / "t-0")
    make(disk, root / "t-0" / "id", b"new")
    fsync(disk, root / "t-0")
    assert left(disk, tmp_path / "before") == {}
    fsync(disk, root)
    assert left(disk, tmp_path / "after") == {"t-0/id": b"new"}
