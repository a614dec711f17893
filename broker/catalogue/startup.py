"""Taking over a directory: whether it is ours to take, and which records say that it now is.

Kafka and Kohort may have had it in turns; what a single node cannot go on with is refused by name.

Source: Kafka's ActivationRecordsGenerator, PartitionChangeBuilder.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.catalogue.cluster_state import BROKER_RESOURCE, TOPIC_RESOURCE
from broker.catalogue.snapshots import BOOTSTRAP, read_snapshot
from broker.catalogue.topic_changes import spread
from protocol.records import metadata_records as records
from protocol.records.control_records import ControlType, control_type, decode_control_value
from protocol.types import uuid_text
from storage.errors import CorruptFile, DirectoryRefused, StorageError
from storage.files import DISK, Disk
from storage.state.leader_epochs import LeaderEpochs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from broker.catalogue.cluster_state import ClusterState, PartitionState
    from broker.catalogue.snapshots import MetadataBatch
    from broker.catalogue.topic_changes import Placing
    from storage.directory.log_directory import LogDirectory, Scan

# What Kafka 4.4 knows; a level above may mean records and rules that nobody here has heard of.
_HIGHEST_LEVELS = {
    "metadata.version": 33,
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
    "share.version": 2,
    "streams.version": 1,
}
# The first metadata.version of each release, the newest first: no older one starts on it.
_FIRST_LEVELS = ((31, "4.4"), (30, "4.3"), (28, "4.2"), (26, "4.1"), (22, "4.0"))
_DIRECTORIES_SINCE = 17  # the metadata.version that names log directories in partition records
_RESERVED_DIRECTORIES = 100  # ids below it are no directories: MIGRATING, UNASSIGNED, LOST

DirectoryIds: TypeAlias = "Mapping[tuple[bytes, int], tuple[bytes, ...]]"  # (topic id, partition) -> directory ids


def oldest_kafka(features: Mapping[str, int]) -> str | None:
    """The oldest release of Kafka that starts under these levels, such as 4.4; None when it is 3.9 or older."""
    level = features.get("metadata.version", 0)
    return next((release for first, release in _FIRST_LEVELS if level >= first), None)


@dataclass(slots=True)
class Quorum:
    """What control records say about who votes. Under kraft.version 0 that stands in the configuration instead."""

    kraft_version: int = 0
    voters: tuple[tuple[int, bytes], ...] | None = None  # (node id, directory id)
    voters_value: bytes | None = None  # the record that names them, with their endpoints

    def apply(self, key: bytes | None, value: bytes) -> None:
        """Fold one control record in. Raises: ProtocolError."""
        kind = control_type(key)
        if kind is ControlType.KRAFT_VERSION:
            self.kraft_version = decode_control_value(kind, value).kraft_version
        elif kind is ControlType.KRAFT_VOTERS:
            voters = decode_control_value(kind, value).voters
            self.voters_value = bytes(value)
            self.voters = tuple((voter.voter_id, voter.voter_directory_id) for voter in voters)


def bootstrap(
    directory: Path, formatted_with: list[MetadataBatch], state: ClusterState, metadata_version: int
) -> list[Any]:
    """The first records of a log that has no `metadata.version`: what Kafka's format left for it, else ours.

    Raises: CorruptFile, DirectoryRefused, StorageError. Source: Kafka's Formatter, BootstrapMetadata.
    """
    opening: list[Any] = []
    if state.in_transaction:
        opening.append(records.AbortTransactionRecord(reason="Controller failover"))
    frames = [value for batch in formatted_with if not batch.control for _, value in batch.values]
    source = directory / "__cluster_metadata-0"
    if not frames:
        source = directory / BOOTSTRAP
        try:
            batches = read_snapshot(source)
        except FileNotFoundError:
            return [*opening, records.FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)]
        except OSError as error:
            raise StorageError("cannot read", source, error) from error
        frames = [value for batch in batches if not batch.control for _, value in batch.values]
    try:
        made = [records.decode_frame(frame) for frame in frames]
    except records.MetadataRecordError as error:
        raise DirectoryRefused(f"{source}: {error}") from error
    if not any(type(one) is records.FeatureLevelRecord and one.name == "metadata.version" for one in made):
        raise DirectoryRefused(f"{source} names no metadata.version")
    begin = records.BeginTransactionRecord(name="Bootstrap records")
    return [*opening, begin, *made, records.EndTransactionRecord()]


def check(
    state: ClusterState, placing: Placing, quorum: Quorum, directory_ids: DirectoryIds, *, acls_hold: bool
) -> None:
    """Raises: DirectoryRefused for what a single node cannot take over, naming the record."""
    for name, level in state.features.items():
        known = _HIGHEST_LEVELS.get(name)
        if known is None or level > known:
            newest = "which Kohort does not know" if known is None else f"newer than {known}, the newest it knows"
            raise DirectoryRefused(f"feature {name} is at level {level}, {newest}")
    ours = (placing.node_id, placing.directory_id)
    if quorum.voters is not None and quorum.voters != (ours,):
        voters = [f"{node} ({uuid_text(directory)})" for node, directory in quorum.voters]
        raise DirectoryRefused(
            f"the voters of the metadata log are {', '.join(voters)}; Kohort opens directories whose only voter is "
            f"node {placing.node_id} ({uuid_text(placing.directory_id)})"
        )
    for topic in state.topics.values():
        for partition, one in topic.partitions.items():
            if one.replicas != (placing.node_id,) or one.adding_replicas or one.removing_replicas:
                raise DirectoryRefused(
                    f"{topic.name}-{partition} has replicas {list(one.replicas)}; "
                    f"Kohort serves directories whose every replica is node {placing.node_id}"
                )
    check_directory_ids(state, placing, directory_ids)
    for (kind, name), overrides in state.configs.items():
        if kind == TOPIC_RESOURCE and overrides.get("remote.storage.enable", "false").strip().lower() == "true":
            raise DirectoryRefused(
                f"topic {name} is tiered (remote.storage.enable=true): its older records lie where Kohort cannot read "
                "them; end that with Apache Kafka first (remote.storage.enable=false and "
                "remote.log.delete.on.disable=true)"
            )
    if state.kept.acls and not acls_hold:
        raise DirectoryRefused(
            f"the directory holds {len(state.kept.acls)} ACLs, which would not hold: authorizer.class.name is not set"
        )


def check_configs(
    state: ClusterState,
    placing: Placing,
    passed_over: Callable[[Mapping[str, str]], list[str]],
    take_over: Callable[[Mapping[str, str], Mapping[str, str]], None],
) -> None:
    """Raises: DirectoryRefused for configs of the broker that would keep somebody out, and would not hold."""
    of_cluster = state.configs.get((BROKER_RESOURCE, ""), {})
    of_broker = state.configs.get((BROKER_RESOURCE, str(placing.node_id)), {})
    lost = passed_over({**of_cluster, **of_broker})
    if lost:
        raise DirectoryRefused(
            f"the directory holds {', '.join(lost)}, which Kafka changed while it ran and which would not hold: "
            "delete them with Kafka's kafka-configs first"
        )
    take_over(of_cluster, of_broker)


def check_directory_ids(state: ClusterState, placing: Placing, directory_ids: DirectoryIds) -> None:
    """Raises: DirectoryRefused for a partition that lies in two directories, or in none of those that are here.

    Kafka would serve one without its folder as empty, or leave it without a leader.
    """
    paths = placing.directories
    unknown: set[bytes] = set()
    if (
        len(paths) + len(placing.away) > 1
        and state.features
        and state.features.get("metadata.version", 0) < _DIRECTORIES_SINCE
    ):
        raise DirectoryRefused(
            f"log.dirs names {len(paths) + len(placing.away)} directories, and the metadata.version is "
            f"{state.features.get('metadata.version', 0)}: before {_DIRECTORIES_SINCE} (Kafka 3.7) nothing says which "
            "of them a partition lies in"
        )
    for topic_id, topic in state.topics.items():
        for partition, one in topic.partitions.items():
            lies = directory_ids.get((topic_id, partition), ())
            if len(lies) > 1:
                where = " and ".join(paths.get(directory, uuid_text(directory)) for directory in lies)
                raise DirectoryRefused(
                    f"{topic.name}-{partition} lies in {where}; move the older of the two folders away (it is the one "
                    "on a disk that failed, or that a move between directories was to leave)"
                )
            if not lies and is_other(placing, one):
                unknown.add(one.directories[0])
                if len(unknown) <= len(placing.away):
                    continue  # it lies in one of those that cannot be read
                raise DirectoryRefused(
                    f"{topic.name}-{partition} lies in the directory with the id {uuid_text(one.directories[0])}, "
                    f"which is none of log.dirs ({', '.join(paths.values())}): name it there too, or mount it"
                )


def is_other(placing: Placing, one: PartitionState) -> bool:
    """Whether a partition is said to lie in a data directory that is none of ours."""
    return any(
        int.from_bytes(directory) >= _RESERVED_DIRECTORIES and directory not in placing.directory_ids
        for directory in one.directories
    )


def leadership(
    state: ClusterState,
    placing: Placing,
    *,
    clean: bool,
    log_epochs: Mapping[tuple[bytes, int], int],
    directory_ids: DirectoryIds,
) -> list[Any]:
    """One record for each partition whose leadership, or place, the log does not show as it is."""
    counts = Counter(state.directory_counts)
    names_directories = state.features.get("metadata.version", 0) >= _DIRECTORIES_SINCE
    changes: list[Any] = []
    for topic_id, topic in state.topics.items():
        for partition, one in topic.partitions.items():
            logged = log_epochs.get((topic_id, partition), -1)
            directory = _place(placing, one, directory_ids.get((topic_id, partition), ()), counts)
            if directory is None:
                continue
            if logged > one.leader_epoch:
                changes.append(_whole(topic_id, partition, one, placing, directory, leader_epoch=logged + 1))
                continue
            elr = bool(one.eligible_leader_replicas or one.last_known_elr)
            moved = names_directories and one.directories != (directory,)
            isr_lost = one.isr != (placing.node_id,)
            recovering = one.leader_recovery_state != 0
            if clean and one.leader == placing.node_id and not (elr or moved or isr_lost or recovering):
                continue
            changes.append(
                records.PartitionChangeRecord(
                    partition_id=partition,
                    topic_id=topic_id,
                    isr=[placing.node_id] if isr_lost else None,
                    leader=placing.node_id,
                    leader_recovery_state=0 if recovering else -1,
                    eligible_leader_replicas=[] if elr else None,
                    last_known_elr=[] if elr else None,
                    directories=[directory] if moved else None,
                )
            )
    return changes


def _place(placing: Placing, one: PartitionState, lies: Sequence[bytes], counts: Counter[bytes]) -> bytes | None:
    """The id of the directory where a partition's folder is, or where it is to be made; None when it is away."""
    if lies:
        return lies[0]
    for directory in one.directories:
        if directory in placing.directory_ids:
            return directory
    if placing.away:
        return None
    chosen = spread(placing, counts, 1)[0]
    counts[chosen] += 1
    return chosen


def found_directory_ids(scans: Sequence[tuple[LogDirectory, Scan]]) -> DirectoryIds:
    """(topic id, partition) -> the ids of the directories where a folder of it lies: more than one is a fault."""
    found: dict[tuple[bytes, int], tuple[bytes, ...]] = {}
    for directory, scan in scans:
        for (_, partition), topic_id in scan.logs.items():
            if topic_id is not None:
                key = topic_id, partition
                found[key] = (*found.get(key, ()), directory.directory_id)
    return found


def logged_epochs(directory: LogDirectory, scan: Scan, disk: Disk = DISK) -> dict[tuple[bytes, int], int]:
    """(topic id, partition) -> the last leader epoch that its folder has written down.

    A file that cannot be read is left out: the partition's log will not open, and say why; the others are served.
    """
    found: dict[tuple[bytes, int], int] = {}
    for (topic, partition), topic_id in scan.logs.items():
        if topic_id is not None:
            epochs = LeaderEpochs(directory.folder(topic, partition), disk)
            with suppress(CorruptFile, OSError):
                epochs.load()
                found[topic_id, partition] = epochs.latest
    return found


def _whole(
    topic_id: bytes, partition: int, one: PartitionState, placing: Placing, directory_id: bytes, *, leader_epoch: int
) -> Any:
    """The partition anew: only so can its epoch rise by more than one."""
    return records.PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(one.replicas),
        isr=[placing.node_id],
        removing_replicas=[],
        adding_replicas=[],
        leader=placing.node_id,
        leader_epoch=leader_epoch,
        partition_epoch=one.partition_epoch + 1,
        directories=[directory_id],
    )
