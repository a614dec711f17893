"""The disk of testbeds: nothing on it has to outlive a power loss, and it is full when a test says so.

What was written is in the page cache, which a SIGKILL leaves alone. So no file is fsynced, which is most of what a
fresh broker would otherwise wait for.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from storage.files import DISK, Disk

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _at_once(descriptor: Any) -> None:
    """In the place of an fsync."""


def _full(descriptor: int, data: Buffer, position: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def spare_the_disk() -> None:
    """From here on this process fsyncs nothing."""
    nothing: Any = _at_once
    DISK.fsync = DISK.fdatasync = nothing
    DISK.syncfs = nothing  # type: ignore[method-assign]  # made to be replaced


def fill() -> None:
    """Nothing can be written any more: ENOSPC."""
    DISK.pwrite = _full


def free() -> None:
    """There is room again."""
    DISK.pwrite = Disk.pwrite
