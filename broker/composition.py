"""The parts of the broker, put together; and taken apart again in the opposite order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from broker.broker import Broker, Endpoint
from broker.catalogue.catalogue import Catalogue
from broker.catalogue.config_changes import BrokerConfigs
from broker.catalogue.topic_changes import Placing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.runtime import Runtime
    from broker.settings import Settings


class Composition:
    """A broker and what runs in its background."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @classmethod
    def open(cls, settings: Settings, runtime: Runtime, endpoints: Sequence[tuple[str, str, int]]) -> Composition:
        """Read the directory and make a broker of it; `endpoints` are (listener, host, port) as clients are told.

        Raises: OSError, StorageError, CorruptFile, DirectoryRefused.
        """
        broker = Broker(settings, runtime)
        broker.endpoints = {name: Endpoint(name, host, port) for name, host, port in endpoints}
        directory = Path(settings.log_dirs[0])
        directory.mkdir(parents=True, exist_ok=True)
        broker.cluster_id = "AAAAAAAAAAAAAAAAAAAAAA"
        broker.catalogue = Catalogue(
            runtime,
            directory,
            placing=Placing(settings.node_id, b"\1" * 16, settings.num_partitions),
            broker_configs=BrokerConfigs(settings.node_id, settings.definitions, settings.explicit),
            new_uuid=lambda: uuid4().bytes,
        )
        broker.catalogue.open(endpoints, clean=False)
        return cls(broker)

    @property
    def quiet(self) -> bool:
        """Whether nothing that was asked for is still on its way to the disk."""
        return True

    def start(self) -> None:
        """Begin what runs in the background."""

    def stop(self, done: Callable[[bool], None]) -> None:
        """Close everything, then `done(whether the directory is marked clean)`."""
        self.broker.catalogue.close()
        done(True)
