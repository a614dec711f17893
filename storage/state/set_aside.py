"""Taking files of a segment out of the way, to be removed when nobody can be reading them any more.

Source: Kafka's LocalLog.deleteSegmentFiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import StorageError
from storage.reading.folder import DELETED

if TYPE_CHECKING:
    from storage.state.log_state import LogState
    from storage.state.segment import Segment


def set_aside(log: LogState, segment: Segment, suffixes: tuple[str, ...]) -> None:
    """Rename files of a segment to `.deleted`. Descriptors and mappings that are in use stay good.

    The `.log` goes first: indexes without a log are removed at a start. Its bytes need no fsync any more, and the next
    flush would only write them for nobody; its name does. Raises: StorageError.
    """
    for suffix in suffixes:
        path = segment.path(suffix)
        gone = path.with_name(path.name + DELETED)
        try:
            log.disk.rename(path, gone)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError("cannot set aside", path, error) from error
        log.deleted_files.append(gone)
    log.let_go_unsynced(segment.path(".log"))
    log.add_unsynced([])
