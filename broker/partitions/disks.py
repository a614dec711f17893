"""Which log directories are offline: a disk that fails takes its own partitions with it, and no others.

Whoever meets an error there has the directory looked at in a worker. One that cannot be used is offline until a look
finds it well again; those that could not be opened at the start are until the next one.

Source: Kafka's LogDirFailureChannel, ReplicaManager.handleLogDirFailure; coming back without a restart is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.loop.logs import get_logger
from protocol.errors import ErrorCode, KafkaError
from storage.directory.directory_check import why_unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from broker.loop.runtime import Runtime

LOOK_AGAIN_MS = 1_000

log = get_logger(__name__)


class DirectoryOffline(KafkaError):
    """The partition lies in a log directory that is offline."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class Disks:
    """The directories by id, and those that are away since the start: path -> why.

    With one directory nothing is ever offline: its partitions fail one by one (docs/decisions/failed-fsync.md).
    """

    def __init__(self, runtime: Runtime, directories: Mapping[bytes, Path], away: Mapping[Path, str]) -> None:
        self.offline: dict[Path, str] = dict(away)
        self.on_change: Callable[[Path], None] = lambda _: None
        """Called with a directory that has gone offline or come back."""
        self.returned: set[Path] = set()
        """Those that have come back since the start: perhaps as another file system."""
        self._runtime = runtime
        self._ids = {path: directory_id for directory_id, path in directories.items()}
        self._looking: set[Path] = set()
        self._stopped = False

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def check(self, directory: Path | None) -> None:
        """Raises: DirectoryOffline. None is a directory that is not there."""
        if directory is None:
            raise DirectoryOffline(f"its log directory is offline: {'; '.join(map(str, self.offline))}")
        if directory in self.offline:
            raise DirectoryOffline(f"log directory {directory} is offline: {self.offline[directory]}")

    def suspect(self, directory: Path) -> None:
        """Something was refused there: look whether it is the disk."""
        if self._stopped or directory in self._looking or directory not in self._ids:
            return
        self._looking.add(directory)
        self._runtime.in_thread(
            lambda: why_unusable(directory, self._ids[directory]),
            lambda why: self._looked(directory, why),
            lambda error: self._looked(directory, str(error)),
        )

    def _looked(self, directory: Path, why: str | None) -> None:
        self._looking.discard(directory)
        if self._stopped:
            return
        was_offline = directory in self.offline
        if why is not None:
            self.offline[directory] = why
            deadline_ms = self._runtime.now_ms() + LOOK_AGAIN_MS
            self._runtime.timers.set(("disk", str(directory)), deadline_ms, lambda: self.suspect(directory))
            if not was_offline:
                log.error("log_directory_offline", directory=str(directory), error=why)
                self.on_change(directory)
        elif was_offline:
            del self.offline[directory]
            self.returned.add(directory)
            log.warning("log_directory_online", directory=str(directory))
            self.on_change(directory)
