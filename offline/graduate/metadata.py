"""The metadata log as Kafka will read it: every batch checked, nothing cut, nothing written.

One flipped bit here makes Kafka drop the rest of the log and set aside every partition that it then knows nothing of.

Source: Kafka's QuorumController, MetadataBatchLoader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.catalogue import startup
from broker.catalogue.cluster_state import TOPIC_RESOURCE, ClusterState, InconsistentMetadata
from broker.catalogue.metadata_log import FOLDER, MetadataLog
from broker.catalogue.snapshots import BOOTSTRAP, read_snapshot
from broker.config import topic_configs
from broker.config.config_def import ConfigError
from offline.graduate.findings import Findings, counted
from protocol.errors import ProtocolError
from protocol.records import metadata_records as records
from storage.errors import CorruptFile, DirectoryRefused, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from broker.catalogue.startup import DirectoryIds
    from broker.catalogue.topic_changes import Placing
    from storage.directory.meta_properties import MetaProperties


@dataclass(slots=True)
class Metadata:
    """What the metadata log adds up to."""

    state: ClusterState = field(default_factory=ClusterState)
    quorum: startup.Quorum = field(default_factory=startup.Quorum)


def read_metadata(
    directory: Path, placing: Placing, directory_ids: DirectoryIds, findings: Findings
) -> Metadata | None:
    """The metadata; None, and a problem said, when it cannot be read."""
    metadata = Metadata()
    folder = directory / FOLDER
    if not folder.is_dir():
        findings.problem(f"{folder}: it is not there; Kafka would begin an empty cluster and set every partition aside")
        return None
    try:
        log, batches = MetadataLog.inspect(directory, node_id=placing.node_id)
        for batch in [*log.formatted_with, *batches]:
            try:
                for key, value in batch.values:
                    if batch.control:
                        metadata.quorum.apply(key, value)
                    else:
                        metadata.state.apply(records.decode_frame(value))
            except (records.MetadataRecordError, InconsistentMetadata, ProtocolError) as error:
                raise DirectoryRefused(f"{folder}, batch at offset {batch.base_offset}: {error}") from error
        metadata.state.image()
    except InconsistentMetadata as error:
        findings.problem(f"{folder}: {error}")
        return None
    except (CorruptFile, DirectoryRefused, StorageError) as error:
        findings.problem(str(error))
        return None
    _check_state(metadata, directory, placing, directory_ids, findings)
    levels = ", ".join(f"{name} {level}" for name, level in metadata.state.features.items())
    findings.fact("metadata", f"{counted(log.next_offset, 'record')} sound; {levels or 'no feature level'}")
    return metadata


def _check_state(
    metadata: Metadata, directory: Path, placing: Placing, directory_ids: DirectoryIds, findings: Findings
) -> None:
    state = metadata.state
    if "metadata.version" not in state.features:
        findings.problem(
            f"{directory / FOLDER}: no record says which metadata.version it has, so Kafka would not start"
        )
    if state.in_transaction:
        findings.problem(
            f"{directory / FOLDER}: it ends inside a metadata transaction; start Kohort and stop it, which ends it"
        )
    try:
        startup.check(state, placing, metadata.quorum, directory_ids, acls_hold=True)
    except DirectoryRefused as error:
        findings.problem(f"{directory / FOLDER}: {error}")
    for (kind, name), overrides in state.configs.items():
        if kind == TOPIC_RESOURCE:
            try:
                known = {key: overrides[key] for key in overrides if key in topic_configs.TOPIC_CONFIGS}
                topic_configs.validate(known, changed=())
            except ConfigError as error:
                findings.problem(f"{directory / FOLDER}: topic {name}: {error}; Kafka would not start")
    for topic in state.topics.values():
        for partition, one in topic.partitions.items():
            if one.leader != placing.node_id and one.isr != (placing.node_id,) and not one.eligible_leader_replicas:
                findings.problem(
                    f"{directory / FOLDER}: {topic.name}-{partition} has no leader, and nobody who may become it"
                )
    if any(startup.is_other(placing, one) for topic in state.topics.values() for one in topic.partitions.values()):
        findings.problem(
            f"{directory / 'meta.properties'}: its directory.id is not the one that the partitions are said to lie in, "
            "and Kafka may leave them without a leader; start Kohort and stop it, which mends that"
        )
    if (directory / BOOTSTRAP).exists():
        try:
            read_snapshot(directory / BOOTSTRAP)
        except (CorruptFile, OSError) as error:
            findings.problem(str(error))


def append_features(
    directory: Path, identity: MetaProperties, made: list[records.FeatureLevelRecord], now_ms: int
) -> None:
    """Append feature levels as the last batch, durably. Raises: CorruptFile, DirectoryRefused, StorageError."""
    log, _ = MetadataLog.open(directory, node_id=identity.node_id)
    log.append([(None, records.encode_frame(record)) for record in made], now_ms=now_ms)
    log.sync()
