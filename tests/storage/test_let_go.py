"""A log that the disk has refused something is gone, and its descriptors with it, when nobody has it any more.

The collector may look at everything, at a part or at nothing: descriptors must not wait for it. Where a log keeps the
error that it met, the frames of who met it, and so the log itself, come with it.
"""

from __future__ import annotations

import errno
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from storage.clean.cleaner import clean
from storage.errors import StorageError
from tests.storage import test_errors
from tests.storage.logs import COMPACT, SMALL, batch, keyed, opened
from tests.support.garbage import collected_by_nobody

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.log.partition_log import PartitionLog


class Refusing(test_errors.Refusing):
    """Each time with an error of its own: one that all share has the frames of all."""

    @staticmethod
    def _no(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, "no")


def swapped(log: PartitionLog, disk: Refusing) -> None:
    """A cleaning whose result the disk does not take."""
    result = clean(log.plan_cleaning(log.dirty_range(None, 1 << 60, log.log_end_offset), 1 << 60))
    disk.refuse()
    log.swap_in(result)


def flushed_elsewhere(log: PartitionLog, disk: Refusing) -> None:
    """As by a thread."""
    ticket = log.begin_flush()
    disk.refuse()
    with suppress(StorageError):
        ticket.sync()
    log.finish_flush(ticket)


def refused(act: Callable[[PartitionLog], Any]) -> Callable[[PartitionLog, Refusing], None]:
    def then(log: PartitionLog, disk: Refusing) -> None:
        disk.refuse()
        act(log)

    return then


@pytest.mark.parametrize(
    "act",
    [
        refused(lambda log: log.append(batch(1), leader_epoch=0)),
        refused(lambda log: log.append(batch(30), leader_epoch=0)),  # which rolls
        refused(lambda log: log.roll()),
        refused(lambda log: log.flush()),
        refused(lambda log: log.truncate_to(1)),
        refused(lambda log: log.close()),
        refused(lambda log: log.read(0, 1_000, copied=True)),
        flushed_elsewhere,
        swapped,
    ],
    ids=["append", "append_rolling", "roll", "flush", "truncate", "close", "read", "flush_elsewhere", "swap"],
)
def test_a_log_that_met_a_refusing_disk_holds_nothing_when_it_is_gone(
    tmp_path: Path, act: Callable[[PartitionLog, Refusing], None]
) -> None:
    with collected_by_nobody():
        disk = Refusing()
        log = opened(tmp_path / "t-0", COMPACT if act is swapped else SMALL, disk=disk)
        for number in range(60):
            log.append(keyed((b"k%d" % (number % 3), b"v" * 60)), leader_epoch=0)
        log.flush()
        log.append(batch(1), leader_epoch=0)
        files = [weakref.ref(segment.file) for segment in log.segments]
        assert len(files) > 1
        with suppress(StorageError, OSError):
            act(log, disk)
        with suppress(StorageError):
            log.append(batch(1), leader_epoch=0)  # who comes later is told the same

        del log

        assert not [file for file in files if file() is not None]
