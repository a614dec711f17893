"""A start in the metadata log: what it holds is read and checked, and this start is registered in it, durably.

Source: KIP-631, KIP-903; Kafka's BrokerLifecycleManager, ClusterControlManager.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.catalogue import startup
from broker.catalogue.appending import BATCH_RECORDS, METADATA_VERSION, append_change, metadata_version
from broker.catalogue.cluster_state import ClusterState, InconsistentMetadata
from broker.catalogue.metadata_log import MetadataLog
from protocol.errors import ProtocolError
from protocol.records import control_records
from protocol.records import metadata_records as records
from storage.errors import CorruptFile, DirectoryRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.snapshots import MetadataBatch
    from broker.catalogue.topic_changes import Placing
    from broker.catalogue.topics_image import TopicsImage
    from storage.files import Disk


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of the partitions' folders before the metadata log is opened."""

    clean: bool  # the last stop was
    log_epochs: Mapping[tuple[bytes, int], int] = field(default_factory=dict)  # last epoch by (topic id, partition)
    stopped_at: int | None = None  # the end of the metadata log that a clean stop wrote down
    has_folders: bool = False  # of partitions
    directory_ids: startup.DirectoryIds = field(
        default_factory=dict
    )  # the ids of the directories that each partition lies in
    acls_hold: bool = False  # there is an authorizer
    passed_over: Callable[[Mapping[str, str]], list[str]] = lambda _: []
    """Which of the broker's configs would keep somebody out and do not hold here."""
    take_over: Callable[[Mapping[str, str], Mapping[str, str]], None] = lambda *_: None
    """Told of the cluster's and the broker's configs. Raises: SettingsError, DirectoryRefused."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The metadata log with this start in it, and what all of it adds up to."""

    log: MetadataLog
    state: ClusterState
    quorum: startup.Quorum
    image: TopicsImage
    broker_epoch: int


def open_and_register(
    directory: Path,
    placing: Placing,
    endpoints: Sequence[tuple[str, str, int]],
    found: Found,
    *,
    protocols: Mapping[str, int],
    incarnation_id: bytes,
    now_ms: int,
    disk: Disk,
) -> Opened:
    """Read the log below `directory` and register this start; `endpoints` are (listener, host, port).

    After an unclean stop every partition gets a new leader epoch, so that offsets that were lost and written again
    can be told apart; one whose log has a higher epoch than the metadata gets the next one after that. After a clean
    stop nothing is cut: a log that lost its end since then, below the offset that the stop knew of or in the middle of
    a batch, is refused. So is an empty one where partitions have folders.
    Raises: CorruptFile, DirectoryRefused, StorageError.
    """
    may_cut = found.stopped_at is None
    log, batches = MetadataLog.open(directory, node_id=placing.node_id, disk=disk, may_cut=may_cut)
    _check_end(log, batches, found)
    state, quorum = ClusterState(), startup.Quorum()
    _replay(log, log.formatted_with, None, quorum)
    _replay(log, batches, state, quorum)
    if "metadata.version" not in state.features:
        opening = startup.bootstrap(directory, log.formatted_with, state, METADATA_VERSION)
    elif state.in_transaction:
        opening = [records.AbortTransactionRecord(reason="Controller failover")]
    else:
        opening = []
    for record in opening:
        state.apply(record)
    startup.check(state, placing, quorum, found.directory_ids, acls_hold=found.acls_hold)
    startup.check_configs(state, placing, found.passed_over, found.take_over)
    _whole_image(log, state)  # refuses what has holes while nothing is written yet
    if found.stopped_at is None:
        log.write_again()
        log.sync()
    log.begin_epoch(control_records.leader_change(placing.node_id), now_ms=now_ms, kraft_version=quorum.kraft_version)
    log.sync()
    broker_epoch = log.next_offset + len(opening)
    registration = _registration(state, placing, endpoints, protocols, incarnation_id, broker_epoch)
    leadership = startup.leadership(
        state, placing, clean=found.clean, log_epochs=found.log_epochs, directory_ids=found.directory_ids
    )
    # A transaction must not begin inside the one that `opening` ends, nor take the registration's offset.
    if 1 + len(opening) + len(leadership) > BATCH_RECORDS:
        append_change(log, state, [*opening, registration], now_ms)
        log.sync()
        append_change(log, state, leadership, now_ms)
    else:
        append_change(log, state, [*opening, registration, *leadership], now_ms)
    log.sync()
    for record in (registration, *leadership):
        state.apply(record)
    log.remove_leftovers()
    return Opened(log, state, quorum, _whole_image(log, state), broker_epoch)


def read_again(directory: Path, placing: Placing, before: MetadataLog, broker_epoch: int, disk: Disk) -> Opened:
    """The same log after a write was refused and taken back, or after a flush has failed: then it is mended first.

    Raises: CorruptFile, DirectoryRefused, StorageError.
    """
    if before.failed is not None:
        before.mend()
    log, batches = MetadataLog.open(directory, node_id=placing.node_id, disk=disk)
    state, quorum = ClusterState(), startup.Quorum()
    _replay(log, log.formatted_with, None, quorum)
    _replay(log, batches, state, quorum)
    log.leader_epoch = max(log.leader_epoch, before.leader_epoch)
    return Opened(log, state, quorum, _whole_image(log, state), broker_epoch)


def _check_end(log: MetadataLog, batches: Sequence[MetadataBatch], found: Found) -> None:
    if found.stopped_at is not None and log.next_offset <= found.stopped_at:
        why = f"it ends at offset {log.next_offset}, and the last clean stop knew of {found.stopped_at}"
        raise CorruptFile(log.folder, f"{why}; restore it from a copy")
    if found.has_folders and not batches and not log.formatted_with:
        why = "it holds nothing, and there are folders of partitions"
        raise CorruptFile(log.folder, f"{why}: restore it from a copy, or move the folders away")


def _replay(
    log: MetadataLog,
    batches: Iterable[MetadataBatch],
    state: ClusterState | None,
    quorum: startup.Quorum,
) -> None:
    """Fold data records into `state`, where they are wanted, and control records into `quorum`."""
    for batch in batches:
        try:
            for key, value in batch.values:
                if batch.control:
                    quorum.apply(key, value)
                elif state is not None:
                    state.apply(records.decode_frame(value))
        except (records.MetadataRecordError, InconsistentMetadata, ProtocolError) as error:
            raise DirectoryRefused(f"{log.folder}, batch at offset {batch.base_offset}: {error}") from error


def _whole_image(log: MetadataLog, state: ClusterState) -> TopicsImage:
    try:
        return state.image()
    except InconsistentMetadata as error:
        raise DirectoryRefused(f"{log.folder}: {error}") from error


def _registration(
    state: ClusterState,
    placing: Placing,
    endpoints: Sequence[tuple[str, str, int]],
    protocols: Mapping[str, int],
    incarnation_id: bytes,
    broker_epoch: int,
) -> Any:
    highest = max(METADATA_VERSION, metadata_version(state))
    return records.RegisterBrokerRecord(
        broker_id=placing.node_id,
        is_migrating_zk_broker=False,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            records.BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocols.get(name, 0))
            for name, host, port in endpoints
        ],
        features=[
            records.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=highest)
        ],
        rack=None,
        # Only Kafka's next start reads it, and a fenced registration spares that start nine seconds.
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=list(placing.directory_ids),
    )
