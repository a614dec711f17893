"""The parts of the broker, put together; and taken apart again in the opposite order.

On the way up the directory's clean marker is taken away before anything else is read, and on the way down it is written
after everything else: it stands for a directory that nobody has to look through.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from broker.broker import Broker, Endpoint
from broker.catalogue.catalogue import Catalogue
from broker.catalogue.config_changes import BrokerConfigs
from broker.catalogue.topic_changes import Placing
from broker.groups import Groups
from broker.log_keeper import LogKeeper
from broker.logs import get_logger
from broker.partitions import Partitions
from broker.producer_ids import ProducerIds
from broker.topic_folders import TopicFolders
from storage.checkpoints import LOG_START, RECOVERY_POINT, read_offsets
from storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.runtime import Runtime
    from broker.settings import Settings

log = get_logger()


class Composition:
    """A broker and what runs in its background."""

    def __init__(self, broker: Broker, directory: LogDirectory, keeper: LogKeeper) -> None:
        self.broker = broker
        self._directory = directory
        self._keeper = keeper

    @classmethod
    def open(cls, settings: Settings, runtime: Runtime, endpoints: Sequence[tuple[str, str, int]]) -> Composition:
        """Read the directory and make a broker of it; `endpoints` are (listener, host, port) as clients are told.

        Groups are loaded when this returns. Raises: OSError, StorageError, CorruptFile, DirectoryRefused.
        """
        directory = LogDirectory.open(Path(settings.log_dirs[0]).absolute())
        try:
            return cls._open(settings, runtime, endpoints, directory)
        except BaseException:
            directory.close()
            raise

    @classmethod
    def _open(
        cls,
        settings: Settings,
        runtime: Runtime,
        endpoints: Sequence[tuple[str, str, int]],
        directory: LogDirectory,
    ) -> Composition:
        broker = Broker(settings, runtime)
        broker.endpoints = {name: Endpoint(name, host, port) for name, host, port in endpoints}
        identity = directory.identity(node_id=settings.node_id, new_uuid=new_uuid, cluster_id=settings.cluster_id)
        broker.cluster_id = identity.cluster_id
        scan = directory.scan()
        clean = directory.take_clean_marker() is not None
        if not clean and scan.logs:
            log.warning("unclean_shutdown", partitions=len(scan.logs))
        catalogue = Catalogue(
            runtime,
            directory.path,
            placing=Placing(settings.node_id, identity.directory_id, settings.num_partitions),
            broker_configs=BrokerConfigs(settings.node_id, settings.definitions, settings.explicit),
            new_uuid=new_uuid,
        )
        torn = catalogue.open(endpoints, clean=clean)
        if torn is not None:
            log.warning("metadata_log_truncated", file=torn.file, kept_bytes=torn.kept_bytes, cut_bytes=torn.cut_bytes)
        partitions = Partitions(
            runtime,
            directory.path,
            catalogue.effective_configs,
            clean=clean,
            recovery_points=read_offsets(directory.path / RECOVERY_POINT),
            log_starts=read_offsets(directory.path / LOG_START),
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            fetch_session_slots=settings.max_incremental_fetch_session_cache_slots,
        )
        folders = TopicFolders(
            runtime,
            directory,
            partitions,
            new_uuid=new_uuid,
            delete_delay_ms=settings.log_segment_delete_delay_ms,
        )
        folders.adopt(scan, catalogue.state, catalogue.image)
        groups = Groups(runtime, settings, catalogue, partitions)
        # Partitions come first: who listens after them may use what is new.
        catalogue.listen(folders)
        catalogue.listen(groups)
        groups.open()
        broker.catalogue = catalogue
        broker.partitions = partitions
        broker.groups = groups
        broker.producer_ids = ProducerIds(catalogue.allocate_producer_ids)
        return cls(broker, directory, LogKeeper(runtime, partitions, directory.path, settings))

    @property
    def quiet(self) -> bool:
        """Whether nothing that was asked for is still on its way to the disk."""
        return bool(self.broker.partitions.flusher.idle)

    def start(self) -> None:
        """Begin what runs in the background."""
        self._keeper.start()

    def stop(self, done: Callable[[bool], None]) -> None:
        """Close everything, then `done(whether the directory is marked clean)`."""
        catalogue = self.broker.catalogue
        self.broker.groups.close()

        def mark_clean() -> None:
            self._directory.write_clean_marker(catalogue.broker_epoch)

        def closed(clean: bool) -> None:
            self._directory.close()
            done(clean)

        catalogue.close()
        self._keeper.stop(mark_clean, closed)


def new_uuid() -> bytes:
    """A version 4 UUID whose text does not begin with a dash, as Kafka's are. Not of `uuid`: importing it costs."""
    while True:
        random = bytearray(os.urandom(16))
        random[6] = random[6] & 0x0F | 0x40
        random[8] = random[8] & 0x3F | 0x80
        if random[0] >> 2 != 62:  # the base64 digit that is `-` in the URL-safe alphabet
            return bytes(random)
