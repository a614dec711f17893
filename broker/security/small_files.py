"""Files that settings name, and that are read while others wait."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1 << 20


def read_small(path: Path) -> bytes:
    """What is in it. Raises: OSError, also for a pipe or a device, which might never end, and for a long one."""
    try:
        status = path.stat()
    except ValueError as error:  # a null in the name
        raise OSError(str(error)) from None
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is no plain file")
    if status.st_size > MOST_BYTES:
        raise OSError(f"it is longer than {MOST_BYTES} bytes")
    return path.read_bytes()
