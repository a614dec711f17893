"""A catalogue on a directory, in virtual time, with ids that can be foretold."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from broker.catalogue.catalogue import Catalogue
from broker.catalogue.config_changes import BrokerConfigs
from broker.catalogue.listeners import Discarding, Preparing
from broker.catalogue.opening import Found
from broker.catalogue.requests import Result
from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.catalogue.topic_changes import NewTopic, Placing
from broker.catalogue.topics_delta import TopicsDelta, TopicsListener
from storage.files import DISK, Disk
from tests.support.virtual_runtime import VirtualRuntime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.config.config_def import ConfigKey

DIRECTORY_ID = bytes.fromhex("27c6803dc7cb42dd9baacd494ffacc81")


class Folders(TopicsListener, Preparing, Discarding):
    """A listener that writes down what it was told."""

    def __init__(self) -> None:
        self.prepared: list[TopicsDelta] = []
        self.published: list[TopicsDelta] = []
        self.deleted: list[TopicsDelta] = []
        self.rounds_with_deletions = 0

    def prepare(self, delta: TopicsDelta) -> Any:
        self.prepared.append(delta)
        return len(self.prepared)

    def publish(self, image: Any, delta: TopicsDelta, prepared: Any) -> None:
        assert prepared == len(self.prepared)
        self.published.append(delta)

    def discard(self, delta: TopicsDelta) -> None:
        self.deleted.append(delta)

    def discarded(self) -> None:
        self.rounds_with_deletions += 1


class CatalogueDriver:
    """Opens a catalogue and turns its callbacks into values."""

    def __init__(
        self,
        directory: Path,
        *,
        clean: bool = True,
        disk: Disk = DISK,
        static: dict[str, str | None] | None = None,
        keys: dict[str, ConfigKey] | None = None,
        seed: int = 0,
        log_epochs: dict[tuple[bytes, int], int] | None = None,
        snapshots: SnapshotPolicy | None = None,
        now_ms: int = 1_700_000_000_000,
        acls_hold: bool = False,
    ) -> None:
        ids = itertools.count(seed * 1_000 + 1)
        self.runtime = VirtualRuntime(now_ms)
        self.folders = Folders()
        self.catalogue = Catalogue(
            self.runtime,
            directory,
            placing=Placing(1, DIRECTORY_ID, default_partitions=1),
            broker_configs=BrokerConfigs(1, keys or {}, static or {}),
            new_uuid=lambda: next(ids).to_bytes(16),
            snapshots=snapshots or SnapshotPolicy(),
            disk=disk,
        )
        self.torn = self.catalogue.open(
            [("PLAINTEXT", "localhost", 9092)], Found(clean=clean, log_epochs=log_epochs or {}, acls_hold=acls_hold)
        )
        self.catalogue.queue.listeners.append(self.folders)

    def all(self, *calls: Callable[[Callable[[Result], None]], None]) -> list[Result]:
        """What calls made in one turn are answered."""
        results: dict[int, Result] = {}
        for index, call in enumerate(calls):
            call(lambda result, index=index: results.__setitem__(index, result))  # type: ignore[misc]
        self.runtime.turn()
        assert sorted(results) == list(range(len(calls)))
        return [results[index] for index in range(len(calls))]

    def create(self, name: str, partitions: int = 1, **more: Any) -> Result:
        return self.all(lambda answer: self.catalogue.create_topic(NewTopic(name, partitions, **more), answer))[0]

    def delete(self, name: str) -> Result:
        return self.all(lambda answer: self.catalogue.delete_topic(answer, name=name))[0]
