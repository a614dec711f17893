"""A flush is fsynced in another thread while the log goes on: what it then calls durable must have been fsynced.

Appends, rolls, truncations and flushes in any order, two flushes under way at once; after each one that is finished,
every byte below the recovery point is compared with what the disk was told to keep.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.records.batch import iterate_headers
from storage.files import Disk
from storage.log.partition_log import PartitionLog
from storage.state.flush import FlushTicket
from storage.state.log_config import LogConfig
from tests.storage.logs import batch

STEPS = ("append", "append", "roll", "begin", "sync", "finish", "truncate")


class Keeping(Disk):
    """Knows of each file what it held when it was last fsynced."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self._held: list[int] = []  # so that no inode number is given twice

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]  # a static method elsewhere
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return
        if status.st_ino not in self.kept:
            self._held.append(os.dup(descriptor))
        self.kept[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    fsync = fdatasync  # type: ignore[assignment]  # as above

    def close_all(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)


def check(log: PartitionLog, disk: Keeping) -> None:
    for segment in log.segments:
        path = segment.path(".log")
        data = path.read_bytes()
        kept = disk.kept.get(path.stat().st_ino, b"")
        for position, header in iterate_headers(data):
            if header.last_offset < log.recovery_point:
                end = position + header.size_bytes
                assert kept[position:end] == data[position:end], f"offset {header.base_offset} was never fsynced"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=25))
@example(["append", "begin", "sync", "append", "roll", "finish", "begin", "sync", "finish"])
@example(
    ["append", "roll", "append", "begin", "sync", "truncate", "append", "roll", "finish", "begin", "sync", "finish"]
)
def test_below_the_recovery_point_everything_was_fsynced(steps: list[str]) -> None:
    """An append that a roll took out of the active segment is part of the next flush."""
    with tempfile.TemporaryDirectory() as folder:
        disk = Keeping()
        log = PartitionLog.open(Path(folder), LogConfig(), disk=disk)
        tickets: list[FlushTicket] = []
        for step in steps:
            if step == "append":
                log.append(batch(1), leader_epoch=0)
            elif step == "roll":
                log.roll()
            elif step == "begin":
                tickets.append(log.begin_flush())
            elif step == "sync" and tickets:
                tickets[-1].sync()
            elif step == "truncate" and log.log_end_offset:
                log.truncate_to(log.log_end_offset - 1)
            elif step == "finish" and tickets and tickets[0].synced:
                log.finish_flush(tickets.pop(0))
                check(log, disk)
        disk.close_all()
