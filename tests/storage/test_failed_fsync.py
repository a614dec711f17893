"""What a process has written and not fsynced, or not with success, and the next one finds in the page cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.state.log_config import INT64_MAX, LogConfig
from tests.storage.logs import keyed, opened, pairs
from tests.support.recording_disk import RecordingDisk, World


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


@pytest.mark.parametrize(("flush_messages", "kept"), [(1, 3), (2, 3), (3, 1), (INT64_MAX, 1)])
def test_an_open_log_holds_no_more_without_an_fsync_than_its_settings_allow(
    tmp_path: Path, flush_messages: int, kept: int
) -> None:
    """Killed before its fsync, opened by the next process, which tells whoever asks what is there; then power lost."""
    root = tmp_path / "log"
    root.mkdir()
    disk = RecordingDisk(root)
    log = opened(root, disk=disk)
    log.append(keyed((b"a", b"flushed")), leader_epoch=0)
    log.flush()
    for value in (b"written", b"written too"):
        log.append(keyed((b"b", value)), leader_epoch=0)
    del log

    again = opened(root, LogConfig(flush_messages=flush_messages), disk=disk, recovery_point=1)
    assert again.log_end_offset == 3

    world = World()
    for op in disk.journal:
        world.apply(op)
    after = tmp_path / "after"
    after.mkdir()
    world.lose_power(after)
    assert opened(after, recovery_point=again.recovery_point).log_end_offset == kept
