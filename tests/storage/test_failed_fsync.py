"""A log whose fsync has failed, opened by the next process: its pages are clean and nowhere but in the page cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import StorageError
from tests.recording_disk import RecordingDisk, World
from tests.storage.logs import keyed, opened, pairs


@pytest.mark.parametrize("recovery_point", [0, 1])
def test_what_a_failed_flush_left_in_the_page_cache_makes_no_hole_under_what_comes_after_it(
    tmp_path: Path, recovery_point: int
) -> None:
    """Flushed, refused, a restart, flushed again, power lost: the first and the last are there."""
    root = tmp_path / "log"
    root.mkdir()
    disk = RecordingDisk(root)
    log = opened(root, disk=disk)
    log.append(keyed((b"a", b"first")), leader_epoch=0)
    log.flush()
    log.append(keyed((b"b", b"refused")), leader_epoch=0)
    disk.refuse_sync = lambda _: True  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        log.flush()
    del log
    disk.refuse_sync = lambda _: False  # type: ignore[method-assign]

    again = opened(root, disk=disk, recovery_point=recovery_point)
    again.append(keyed((b"c", b"last")), leader_epoch=0)
    again.flush()

    world = World()
    for op in disk.journal:
        world.apply(op)
    after = tmp_path / "after"
    after.mkdir()
    world.lose_power(after)
    values = [value for _, _, value in pairs(opened(after, recovery_point=recovery_point))]
    assert values == [b"first", b"refused", b"last"]
