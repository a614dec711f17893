"""How the log directories were left: the marker of a clean shutdown in each of them.

Source: Kafka's CleanShutdownFileHandler, LogManager.readBrokerEpochFromCleanShutdownFiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.directory.log_directory import METADATA_FOLDER
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.directory.log_directories import LogDirectories
    from storage.directory.log_directory import LogDirectory


class LastStops:
    """The broker epochs of the clean stops, by directory. A directory that nobody has used yet was not left at all."""

    def __init__(self, epochs: Mapping[LogDirectory, int], unclean: frozenset[LogDirectory], at: int | None) -> None:
        self.unclean = unclean
        self.at = at
        """The epoch of the stop when the metadata log was left with the rest; None after a crash."""
        self._epochs = epochs

    @classmethod
    def take(cls, directories: LogDirectories) -> LastStops:
        """Read the markers and remove them, durably: whatever happens next is no clean stop.

        A directory whose disk refuses is given up. Raises: StorageError, for the metadata log's or the last one.
        """
        fresh = not (directories.metadata.path / METADATA_FOLDER).exists()
        found: dict[LogDirectory, int | None] = {}
        for one in directories.logs:
            try:
                found[one] = one.take_clean_marker()
            except StorageError as error:
                directories.give_up(one, error)
        epochs = {one: epoch for one, epoch in found.items() if epoch is not None}
        left = frozenset(found) - directories.new
        unclean = frozenset() if fresh else left - epochs.keys()
        # A directory that was away for a while has an older stop than the rest.
        at = None if unclean or not epochs else max(epochs.values())
        return cls(epochs, unclean, at)

    def give_back(self) -> None:
        """Write the markers again. Raises: StorageError."""
        for directory, epoch in self._epochs.items():
            directory.write_clean_marker(epoch)
