"""What a power cut leaves on a testbed's disk is what the simulation's model of a disk says."""

import os
import random
from pathlib import Path

from broker.testbed import disk as disks
from tests.support.recording_disk import Op, World

NAMES = [f"{folder}{name}" for folder in ("", "t-0/", "t-1/") for name in ("a", "b", "c")]


class Life:
    """The same random operations on a real directory, and in the model."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random, self.root = random.Random(seed), root
        self.disk, self.model = disks.TestbedDisk(root.parent / f"{root.name}-unsynced"), World()
        self.files: dict[str, int] = {}  # names -> files of the model
        self.made = 0
        for folder in ("t-0", "t-1"):
            (root / folder).mkdir(parents=True)
        for name in NAMES[::2]:
            self.made += 1
            self.files[name] = self.made
            (root / name).write_bytes(b"old " + name.encode())
            self.model.found(name, self.made, b"old " + name.encode())

    def open(self, name: str, flags: int) -> int:
        if name not in self.files:
            self.made += 1
            self.files[name] = self.made
            self.model.apply(Op("make", self.made, name))
        elif flags & os.O_TRUNC:
            self.model.apply(Op("cut", self.files[name], name))
        return self.disk.open(self.root / name, flags | os.O_CREAT | os.O_RDWR, 0o644)

    def step(self) -> None:
        name = self.random.choice(NAMES)
        what = self.random.choice(["write", "write", "write", "cut", "sync", "sync_folder", "rename", "unlink"])
        if what == "sync_folder":
            folder = name.rpartition("/")[0] or "."
            descriptor = self.disk.open(self.root / folder if folder != "." else self.root, os.O_RDONLY)
            self.disk.fsync(descriptor)
            self.disk.close(descriptor)
            self.model.apply(Op(what, name=folder))
        elif what in ("rename", "unlink"):
            if name not in self.files:
                return
            target = self.random.choice([one for one in NAMES if one.rpartition("/")[0] == name.rpartition("/")[0]])
            if what == "unlink":
                self.disk.unlink(self.root / name)
                del self.files[name]
            elif target == name:
                return
            else:
                self.disk.rename(self.root / name, self.root / target)
                self.files[target] = self.files.pop(name)
            self.model.apply(Op(what, name=name, target=target))
        else:
            descriptor = self.open(name, os.O_TRUNC if self.random.random() < 0.1 else 0)
            size = os.fstat(descriptor).st_size
            if what == "write":
                position, data = self.random.randrange(size + 1), self.random.randbytes(self.random.randrange(1, 9))
                self.disk.pwrite(descriptor, data, position)
                self.model.apply(Op("write", self.files[name], name, position, data))
            elif what == "cut":
                self.disk.ftruncate(descriptor, size // 2)
                self.model.apply(Op("cut", self.files[name], name, size // 2))
            else:
                self.disk.fsync(descriptor)
                self.model.apply(Op("sync", self.files[name], name))
            self.disk.close(descriptor)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_left_is_what_fsyncs_have_covered(tmp_path: Path):
    for seed in range(40):
        life = Life(seed, tmp_path / f"real-{seed}")
        for _ in range(seed % 40):
            life.step()
        life.disk.cut_power(life.root)
        life.model.lose_power(tmp_path / f"model-{seed}")
        assert tree(life.root) == tree(tmp_path / f"model-{seed}"), f"seed {seed}"
