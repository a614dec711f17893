"""A checkpoint that no directory takes: what was to be written is gone when the caller has been told."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.partitions.checkpoints import Checkpoints, Key
from storage.errors import StorageError
from tests.support.garbage import collected_by_nobody

if TYPE_CHECKING:
    from pathlib import Path


class Offsets(dict[Key, int]):
    """Can be looked after when it is gone."""


def test_offsets_that_no_directory_takes_wait_for_no_collector(tmp_path: Path) -> None:
    """They are those of all partitions, every few seconds while a disk is full."""
    gone = [tmp_path / name for name in "ab"]
    checkpoints = Checkpoints(gone, lambda key: gone[key[1] % 2])
    offsets = Offsets({("t", 0): 1, ("t", 1): 2})
    left = weakref.ref(offsets)
    refused = 0
    with collected_by_nobody():
        try:
            checkpoints.write("replication-offset-checkpoint", offsets, checkpoints.moment())
        except (StorageError, OSError):
            refused += 1
        with suppress(StorageError, OSError):
            checkpoints.forget(list(offsets))
        del offsets
        assert refused
        assert left() is None
