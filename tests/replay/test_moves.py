"""A broker with two log directories, crashed at its file operations while partitions move from one to the other.

After a kill at any operation, or (durability `always`) a power loss of both disks, another one is started on what is
left: every partition is in one place, with what was acknowledged; what was begun to be moved is moved to its end.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from protocol.errors import ErrorCode
from tests.replay.test_whole_broker import GROUP, Life, remembering
from tests.support.recording_disk import World
from tests.support.whole_broker import Whole


def started(directory: Path, durability: str, now_ms: int = 1_700_000_000_000) -> Whole:
    log_dirs = f"{directory / 'a'},{directory / 'b'}"
    return Whole(directory, now_ms=now_ms, log__dirs=log_dirs, kohort__durability=durability)


def move(life: Life, whole: Whole, topic: str, index: int, to: Path) -> None:
    answers: list[ErrorCode] = []
    with life.ask("move", f"{topic}-{index}", str(to.name).encode()):
        whole.broker.moves.ask((topic, index), to, answers.append)
        while not answers:
            whole.runtime.run_work()
    assert answers == [ErrorCode.NONE]


def live(life: Life, root: Path, durability: str) -> None:
    """A plain topic and the offsets' one move there and back; records and commits come in the middle of it."""
    whole = started(root, durability)
    life.create(whole, "t")
    for number in range(3):
        life.produce(whole, "t", b"v%d" % number)
        life.commit(whole, number)
    partition = whole.broker.partitions.get("t", 0)
    assert partition is not None
    for to, number in (("b", 3), ("a", 4)):
        move(life, whole, "t", 0, root / to)
        while partition.held is None and whole.runtime.works:
            whole.runtime.run_work()
        life.produce(whole, "t", b"v%d" % number)  # answered when it has moved
        whole.runtime.advance(500)
        assert partition.log.directory == root / to / "t-0"
    for to, number in (("b", 13), ("a", 14)):
        move(life, whole, "__consumer_offsets", 0, root / to)
        life.commit(whole, number)
        whole.runtime.advance(500)
        life.commit(whole, number + 100)
    assert whole.stop()


def check(life: Life, at: int, whole: Whole, root: Path) -> None:
    """What a broker that starts after a crash before operation `at` must and may hold."""
    produced = [one for one in life.asked if one.what == "produce" and one.begun < at]
    if produced and whole.broker.catalogue.image.topic("t") is not None:
        sure = [one.value for one in produced if one.answered <= at]
        found = whole.values("t")
        assert found[: len(sure)] == sure
        assert found == [one.value for one in produced][: len(found)]
    commits = [one for one in life.asked if one.what == "commit" and one.begun < at]
    if commits:
        sure_offset = next((one.value for one in reversed(commits) if one.answered <= at), -1)
        told = whole.committed(GROUP)
        if told is ErrorCode.NOT_COORDINATOR:
            assert sure_offset == -1
        else:
            assert told in {sure_offset, *(one.value for one in commits if one.answered > at)}
    whole.runtime.advance(3_000)
    for key in ("t-0", "__consumer_offsets-0"):
        lies = [name for name in "ab" if (root / name / key).exists()]
        moves = [one for one in life.asked if one.what == "move" and one.name == key and one.answered <= at]
        begun = [one for one in life.asked if one.what == "move" and one.name == key and one.begun < at]
        if moves:
            may = {one.value.decode() for one in (moves[-1], *begun[len(moves) :])}  # type: ignore[union-attr]
            assert len(lies) == 1, lies
            assert set(lies) <= may
    left = [one.name for name in "ab" for one in (root / name).glob("*-future")]
    assert not left, left


def crash_everywhere(tmp_path: Path, durability: str, every: int, seed: int = 0) -> int:
    root = tmp_path / "data"
    random = Random(seed)
    with remembering(root) as disk:
        life = Life(disk)
        live(life, root, durability)
    world, starts = World(), 0
    first = next(one.begun for one in life.asked if one.what == "move")
    for at, op in enumerate(disk.journal):
        if at > first - 5 and at % every == seed % every:
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
                    whole = started(folder, durability)
                    check(life, at, whole, folder)
                    assert whole.stop()
                except BaseException as error:
                    error.add_note(where)
                    raise
                shutil.rmtree(folder)
                starts += 1
        world.apply(op)
    return starts


@pytest.mark.parametrize("durability", ["os", "always"])
def test_a_move_that_is_cut_off_now_and_then_loses_nothing(tmp_path: Path, durability: str) -> None:
    assert crash_everywhere(tmp_path, durability, every=13, seed=3) > 8


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["os", "always"])
def test_a_move_that_is_cut_off_anywhere_loses_nothing(tmp_path: Path, durability: str) -> None:
    assert crash_everywhere(tmp_path, durability, every=3) > 40
