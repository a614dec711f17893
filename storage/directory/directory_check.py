"""Whether a log directory can be used: a disk that failed is told from one file on it that cannot be read.

Source: Kafka's LogDirFailureChannel takes any IOException for the disk's; looking first is ours.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from storage.directory import meta_properties
from storage.errors import CorruptFile, StorageError
from storage.files import DISK, Disk, replace_file

if TYPE_CHECKING:
    from pathlib import Path

PROBE = "disk-check"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error: BaseException | None) -> bool:
    """Whether that is all that is wrong."""
    cause = error.cause if isinstance(error, StorageError) else error
    return isinstance(cause, OSError) and cause.errno in _FULL


def why_unusable(directory: Path, directory_id: bytes, disk: Disk = DISK) -> str | None:
    """Why nothing can be read or made durable there, None when it can. A full disk can be used. Blocks.

    It must still be the directory of this id: where a disk was mounted an empty folder may be left.
    """
    file = directory / meta_properties.FILE
    try:
        identity, _, _ = meta_properties.read(file, file.read_bytes())
        if identity is None or identity.directory_id != directory_id:
            return f"{file}: it is another directory's"
        replace_file(directory / PROBE, b"", disk)
        disk.unlink(directory / PROBE)
    except (OSError, StorageError, CorruptFile) as error:
        return None if is_full(error) else str(error)
    return None
