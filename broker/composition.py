"""The parts of the broker, put together; and taken apart again in the opposite order.

Start: lock the directory, learn whose it is and how it was left, read the metadata log, take over the folders, load the
groups. Only then may the listeners accept.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.authorization.authorizer import Authorizer
from broker.broker import Broker, Endpoint
from broker.catalogue.catalogue import Catalogue
from broker.catalogue.cluster_state import BROKER_RESOURCE
from broker.catalogue.config_changes import BrokerConfigs
from broker.catalogue.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.catalogue.opening import Found
from broker.catalogue.producer_ids import ProducerIds
from broker.catalogue.snapshot_writer import SnapshotPolicy
from broker.catalogue.startup import found_directory_ids, logged_epochs, oldest_kafka
from broker.catalogue.topic_changes import Placing
from broker.catalogue.topics_delta import TopicsListener
from broker.config import throttles
from broker.config.listener_settings import passed_over
from broker.config.setting_types import SettingsError
from broker.groups.groups import Groups
from broker.groups.ledger import Ledger
from broker.groups.transactions import GroupTransactions
from broker.loop.logs import get_logger
from broker.loop.uuids import random_uuid
from broker.partitions import Markers, Partitions, Verifier
from broker.partitions.folders import TopicFolders
from broker.partitions.futures import adopt_futures
from broker.partitions.log_manager import LogManager
from broker.partitions.moves import Moves
from broker.quotas.client_quotas import ClientQuotas
from broker.transactions.transactions import Transactions
from storage.directory.last_stops import LastStops
from storage.directory.log_directories import LogDirectories, offsets_of
from storage.directory.log_directory import METADATA_FOLDER
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.reading.checkpoints import LOG_START, RECOVERY_POINT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.topics_delta import TopicsDelta
    from broker.catalogue.topics_image import TopicsImage
    from broker.config.settings import Settings
    from broker.loop.runtime import Runtime
    from broker.network.securities import Securities
    from broker.partitions.table import Key

log = get_logger(__name__)


class Composition:
    """A broker and what runs in its background."""

    def __init__(self, broker: Broker, directories: LogDirectories, log_manager: LogManager) -> None:
        self.broker = broker
        self.log_manager = log_manager
        self._directories = directories

    @classmethod
    def open(
        cls,
        settings: Settings,
        runtime: Runtime,
        endpoints: Sequence[tuple[str, str, int]],
        protocols: Mapping[str, int] | None = None,
        securities: Securities | None = None,
    ) -> Composition:
        """Read the directories and make a broker of it; `endpoints` are (listener, host, port) as clients are told.

        `protocols` are the numbers of what listeners speak, by name, PLAINTEXT where nothing is said; `securities` are
        told of what was changed, and asked what may be.

        Raises: OSError, StorageError, CorruptFile, DirectoryRefused, SettingsError.
        """
        directories = LogDirectories.open(settings.log_dirs, settings.metadata_log_dir)
        try:
            return cls._open(settings, runtime, endpoints, protocols or {}, securities, directories)
        except BaseException:
            directories.close()
            raise

    @classmethod
    def _open(
        cls,
        settings: Settings,
        runtime: Runtime,
        endpoints: Sequence[tuple[str, str, int]],
        protocols: Mapping[str, int],
        securities: Securities | None,
        directories: LogDirectories,
    ) -> Composition:
        broker = Broker(settings, runtime)
        broker.endpoints = {name: Endpoint(name, host, port) for name, host, port in endpoints}
        identity = directories.identify(node_id=settings.node_id, new_uuid=random_uuid, cluster_id=settings.cluster_id)
        broker.cluster_id = identity.cluster_id
        broker.secret = identity.directory_id
        scans = directories.scans()
        recovery_points = directories.offsets_in(scans, RECOVERY_POINT)
        log_starts = directories.offsets_in(scans, LOG_START)
        # From here on a crash is a crash: what was read so far has changed nothing.
        stops = LastStops.take(directories)
        scans = [(one, scan) for one, scan in scans if one in directories.logs]
        catalogue = broker.catalogue = Catalogue(
            runtime,
            directories.metadata.path,
            placing=Placing(
                settings.node_id,
                identity.directory_id,
                settings.num_partitions,
                settings.default_replication_factor,
                {one.directory_id: str(one.path) for one in directories.logs},
                [str(path) for path in directories.away],
            ),
            broker_configs=BrokerConfigs(
                settings.node_id,
                settings.definitions,
                settings.static,
                *(() if securities is None else (securities.check,)),
            ),
            new_uuid=random_uuid,
            snapshots=SnapshotPolicy(
                settings.metadata_log_max_record_bytes_between_snapshots,
                settings.metadata_log_max_snapshot_interval_ms,
                settings.metadata_max_retention_bytes,
                settings.metadata_max_retention_ms,
            ),
        )
        try:
            epochs: dict[tuple[bytes, int], int] = {}
            for directory, scan in scans:
                epochs |= logged_epochs(directory, scan)
            found = Found(
                not stops.unclean,
                epochs,
                stops.at,
                has_folders=any(scan.logs for _, scan in scans),
                directory_ids=found_directory_ids(scans),
                acls_hold=bool(settings.authorizer_class_name),
                passed_over=partial(passed_over, [name for name, _, _ in endpoints]),
                take_over=(lambda *_: None) if securities is None else securities.take_over,
            )
            torn = catalogue.open(endpoints, found, protocols)
        except (CorruptFile, DirectoryRefused, SettingsError):
            # Refused before anything was written: the next start must not take it for a crash.
            stops.give_back()
            raise
        directories.write_identities()
        scans = [(one, scan) for one, scan in scans if one in directories.logs]
        if torn is not None:
            log.warning("metadata_log_truncated", file=torn.file, bytes=torn.cut_bytes, position=torn.kept_bytes)
        release = oldest_kafka(catalogue.features)
        if release is not None:
            # Once raised a level stays: who means to go back to an older Kafka should hear it before that.
            log.info(
                "directory_of_newer_kafka", oldest=release, metadata_version=catalogue.features["metadata.version"]
            )
        broker.features = lambda: (catalogue.features, catalogue.features_epoch)
        broker.quotas = ClientQuotas(catalogue.state.kept.quotas.values(), settings, runtime.now_ms)
        broker.authorizer = _authorizer(settings, runtime, catalogue)
        dynamic = _DynamicSettings(settings, catalogue)

        def topic_id(key: Key) -> bytes | None:
            topic = catalogue.image.topic(key[0])
            return None if topic is None else topic.topic_id

        several = len(directories.logs) + len(directories.away) > 1
        partitions = broker.partitions = Partitions(
            runtime,
            directories.logs[0].path,
            catalogue.effective_configs,
            recovery_points=offsets_of(recovery_points, topic_id),
            log_starts=offsets_of(log_starts, topic_id),
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            fetch_session_slots=settings.max_incremental_fetch_session_cache_slots,
            trusted_topics=settings.kohort_trusted_topics,
            directories={one.directory_id: one.path for one in directories.logs} if several else None,
            away=directories.away,
        )

        preferred: dict[Key, bytes] = {}

        def place() -> None:
            offline = {str(path) for path in partitions.disks.offline}
            online = {one.directory_id: str(one.path) for one in directories.logs if str(one.path) not in offline}
            cordoned = frozenset(one.directory_id for one in directories.logs if one.path in settings.cordoned)
            if online:  # else nobody gets a new partition anywhere
                catalogue.queue.placing = replace(
                    catalogue.queue.placing, directories=online, cordoned=cordoned, preferred=preferred
                )

        place()
        partitions.on_disk_changed = place
        settings.on_change(place)
        for path, why in directories.away.items():
            log.error("log_directory_offline", directory=str(path), error=why)
        partitions.unclean = frozenset(one.path for one in stops.unclean)
        broker.verifier = Verifier(runtime, partitions, settings)
        broker.markers = Markers(runtime, partitions)
        folders = TopicFolders(
            runtime,
            directories.logs,
            partitions,
            new_uuid=random_uuid,
            delete_delay_ms=settings.log_segment_delete_delay_ms,
            some_away=bool(directories.away),
            served_whole=(OFFSETS_TOPIC, TRANSACTIONS_TOPIC),
        )
        catalogue.queue.settle = folders.settle
        moves = broker.moves = Moves(
            runtime,
            partitions,
            directories.logs,
            record=catalogue.move_partition,
            preferred=preferred,
            cordoned=lambda: settings.cordoned,
            bytes_per_second=lambda: throttles.move_rate(catalogue.configs, settings.node_id),
            new_uuid=random_uuid,
            remove_later=folders.remove_later,
        )
        futures = adopt_futures(scans, catalogue.image, catalogue.state.removed_topic_ids, new_uuid=random_uuid)
        folders.remove_later(futures.useless)
        folders.adopt(scans, catalogue.state, catalogue.image)
        groups = broker.groups = Groups(
            runtime, settings, catalogue, partitions, unclean=bool(stops.unclean), peers=broker.peers
        )
        broker.group_transactions = GroupTransactions(groups, broker.verifier)
        broker.markers.routes[OFFSETS_TOPIC] = broker.group_transactions.write_marker
        broker.ledger = Ledger(runtime, settings, catalogue, partitions, groups, broker.cluster_id)
        groups.event_listeners.append(broker.group_figures.on_event)
        broker.standing_findings.ledger = broker.ledger
        broker.ledger.listeners += (broker.group_figures.on_ledger, broker.standing_findings.on_ledger)
        broker.client_metrics.configs = lambda: catalogue.configs
        broker.producer_ids = ProducerIds(catalogue.allocate_producer_ids)
        transactions = broker.transactions = Transactions(
            runtime, settings, catalogue, partitions, broker.markers, broker.producer_ids
        )
        transactions.event_listeners += (broker.transaction_figures.on_event, broker.transaction_history.on_event)
        broker.verifier.coordinator = transactions
        moves.resume(futures.moves)
        for listener in (dynamic, folders, moves, groups, transactions, broker.quotas):
            catalogue.queue.listeners.append(listener)
        if broker.authorizer is not None:
            catalogue.queue.listeners.append(broker.authorizer)
        groups.open()
        transactions.open()
        log_manager = LogManager(runtime, partitions, settings)
        moves.cleaning = log_manager.cleaning
        return cls(broker, directories, log_manager)

    @property
    def quiet(self) -> bool:
        """Whether nothing that was asked for is still on its way to the disk."""
        partitions = self.broker.partitions
        return bool(partitions.checks.idle and partitions.flusher.idle and self.broker.catalogue.queue.idle)

    def start(self) -> None:
        """Begin what runs in the background."""
        self.log_manager.start()

    def let_go(self) -> None:
        """Give up the directories' locks and nothing else, as the system does for a process that was killed."""
        self._directories.close()

    def stop(self, done: Callable[[bool], None]) -> None:
        """Close everything, then `done(whether all directories are marked clean)`."""
        broker = self.broker
        broker.transactions.close()
        broker.groups.close()
        broker.ledger.close()
        broker.catalogue.queue.close()
        broker.moves.stop()

        def stopped(clean: bool) -> None:
            self._directories.close()
            done(clean)

        by_path = {one.path: one for one in self._directories.logs}

        def mark_clean(directory: Path) -> None:
            if not broker.catalogue.queue.sound:
                raise StorageError("its last flush has failed:", self._directories.metadata.path / METADATA_FOLDER)
            by_path[directory].write_clean_marker(broker.catalogue.broker_epoch)

        self.log_manager.stop(mark_clean, stopped)


def _authorizer(settings: Settings, runtime: Runtime, catalogue: Catalogue) -> Authorizer | None:
    if not settings.authorizer_class_name:
        if settings.super_users:
            why = "authorizer.class.name is empty: everybody may everything"
            log.warning("setting_without_effect", key="super.users", why=why)
        return None
    return Authorizer(
        catalogue.state.kept.acls.values(),
        super_users=[one.strip() for one in settings.super_users.split(";")],
        allow_everyone=settings.allow_everyone_if_no_acl_found,
        now_ms=runtime.now_ms,
        at=lambda deadline_ms, callback: runtime.timers.set(("audit", "span"), deadline_ms, callback),
    )


class _DynamicSettings(TopicsListener):
    """Tells the settings what AlterConfigs has set for the broker. A listener of the catalogue."""

    def __init__(self, settings: Settings, catalogue: Catalogue) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._apply()

    def _apply(self) -> None:
        configs = self._catalogue.configs
        self._settings.apply_dynamic(
            cluster=configs.get((BROKER_RESOURCE, ""), {}),
            broker=configs.get((BROKER_RESOURCE, str(self._settings.node_id)), {}),
        )

    def publish(self, image: TopicsImage, delta: TopicsDelta, prepared: Any) -> None:
        """The broker's own configs may have changed."""
        if delta.broker_reconfigured:
            self._apply()
