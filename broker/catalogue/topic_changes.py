"""What may happen to topics: create, grow, delete. Pure: a state and a wish give records or a refusal.

The texts of refusals say both sides; the codes are Kafka's. Source: Kafka's ReplicationControlManager, Topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from broker.catalogue.cluster_state import TOPIC_RESOURCE
from broker.config import topic_configs
from broker.config.config_def import ConfigError
from protocol.errors import ErrorCode
from protocol.records import metadata_records as records

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from broker.catalogue.cluster_state import ClusterState

MAX_NAME_LENGTH = 249
METADATA_TOPIC = "__cluster_metadata"
MAX_PARTITIONS = 100_000  # of one topic: more folders than any file system here would thank us for
MOST_RECORDS = 10_000  # of one change, as in Kafka (QuorumController.MAX_RECORDS_PER_USER_OP)
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Refused(Exception):
    """A change that is not made: the code and the sentence for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_size(record_count: int) -> None:
    """Raises: Refused with POLICY_VIOLATION for a change that is larger than one may be."""
    if record_count > MOST_RECORDS:
        raise Refused(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that somebody wants. -1 takes the broker's default; with `assignments` both counts must be -1."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Placing:
    """Where partitions go on this node, and what a topic gets that asks for nothing."""

    node_id: int
    directory_id: bytes  # of the metadata log
    default_partitions: int
    default_replication_factor: int = 1
    directories: Mapping[bytes, str] = field(default_factory=dict)  # those of partitions, id -> path; none: the above
    away: Collection[str] = ()  # the paths of those that could not be opened
    cordoned: Collection[bytes] = ()  # those of `directories` that get no new partitions
    preferred: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    """Where partitions of this topic and number shall lie when they are made: AlterReplicaLogDirs came first."""

    @property
    def directory_ids(self) -> tuple[bytes, ...]:
        """Of the directories that partitions may lie in, in the order of `log.dirs`."""
        return tuple(self.directories) or (self.directory_id,)


def spread(
    placing: Placing, counts: Mapping[bytes, int], partitions: int, topic: str = "", first: int = 0
) -> list[bytes]:
    """A directory for each of so many new partitions: the one with the fewest, the first in `log.dirs` among equals.

    `counts` are those of all partitions by directory id. Cordoned ones get none, unless there is no other, or one was
    preferred for a partition of `topic`, which are numbered from `first` on.
    Source: Kafka's LogManager.nextLogDirs, LogManager.maybeUpdatePreferredLogDir.
    """
    every = placing.directory_ids
    open_ones = [directory for directory in every if directory not in placing.cordoned] or every
    now = {directory: counts.get(directory, 0) for directory in open_ones}
    chosen = []
    for partition in range(first, first + partitions):
        preferred = placing.preferred.get((topic, partition))
        directory = preferred if preferred in every else min(now, key=now.__getitem__)
        if directory in now:
            now[directory] += 1
        chosen.append(directory)
    return chosen


def check_name(name: str) -> None:
    """Raises: Refused with INVALID_TOPIC_EXCEPTION when no topic may have this name."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"{name!r} is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of {name!r} is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.issuperset(name):
        problem = f"{name!r} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    elif name == METADATA_TOPIC:
        problem = f"{name!r} is the log of the cluster's metadata"
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def create_topic(
    state: ClusterState, placing: Placing, wish: NewTopic, *, topic_id: bytes, collisions: Mapping[str, str]
) -> list[Any]:
    """The records that create a topic: Topic, its configs, its partitions.

    `collisions` maps each existing name with `.` read as `_` to the name itself. Raises: Refused.
    """
    check_name(wish.name)
    if wish.name in state.topic_ids:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists.")
    twin = collisions.get(wish.name.replace(".", "_"))
    if twin is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{wish.name}' collides with existing topic: {twin}")
    count = _partition_count(placing, wish)
    configs = dict(wish.configs or {})
    check_size(1 + len(configs) + count)
    try:
        topic_configs.validate(configs)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    made: list[Any] = [records.TopicRecord(name=wish.name, topic_id=topic_id)]
    made.extend(
        records.ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=wish.name, name=key, value=value)
        for key, value in sorted(configs.items())
    )
    directories = spread(placing, state.directory_counts, count, wish.name)
    made.extend(_partition(placing, topic_id, partition, directories[partition]) for partition in range(count))
    return made


def _check_cordoned(placing: Placing) -> None:
    """Raises: Refused. Source: Kafka's StripedReplicaPlacer."""
    if all(one in placing.cordoned for one in placing.directory_ids):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
            "directories cordoned.",
        )


def _partition_count(placing: Placing, wish: NewTopic) -> int:
    if wish.assignments:
        if wish.partition_count != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        if wish.replication_factor != -1:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        check_size(len(wish.assignments))
        if sorted(wish.assignments) != list(range(len(wish.assignments))):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        for brokers in wish.assignments.values():
            _check_assignment(placing, brokers)
        return len(wish.assignments)
    if wish.replication_factor < -1 or wish.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    factor = placing.default_replication_factor if wish.replication_factor == -1 else wish.replication_factor
    if factor > 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    count = placing.default_partitions if wish.partition_count == -1 else wish.partition_count
    if not 1 <= count <= MAX_PARTITIONS:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must be from 1 to {MAX_PARTITIONS}, or -1 to use the default value, not {count}.",
        )
    _check_cordoned(placing)
    return count


def _check_assignment(placing: Placing, brokers: Sequence[int]) -> None:
    if list(brokers) != [placing.node_id]:
        nobody = next((one for one in sorted(brokers) if one != placing.node_id), None)
        what = (
            "an empty replica list."
            if not brokers
            else f"the broker {placing.node_id} more than once."
            if nobody is None
            else f"broker {nobody}, but no such broker is registered."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {what}")
    if all(one in placing.cordoned for one in placing.directory_ids):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes broker {placing.node_id}, but all its log directories are "
            "cordoned.",
        )


def _partition(placing: Placing, topic_id: bytes, partition: int, directory_id: bytes) -> Any:
    return records.PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=[placing.node_id],
        isr=[placing.node_id],
        removing_replicas=[],
        adding_replicas=[],
        leader=placing.node_id,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_id],
    )


def create_partitions(
    state: ClusterState, placing: Placing, name: str, count: int, assignments: Sequence[Sequence[int]] | None
) -> list[Any]:
    """The records that grow a topic to `count` partitions; `assignments` has one row per new one. Raises: Refused."""
    topic_id = state.topic_ids.get(name)
    if topic_id is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message)
    now = len(state.topics[topic_id].partitions)
    if count == now:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if count < now:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {now} partition(s); {count} would not be an increase.",
        )
    if count > MAX_PARTITIONS:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"{count} partitions are more than {MAX_PARTITIONS}.")
    check_size(count - now)
    if assignments is not None:
        if len(assignments) != count - now:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - now} additional partition(s), but only {len(assignments)} assignment(s) "
                "were specified.",
            )
        for brokers in assignments:
            _check_assignment(placing, brokers)
    else:
        _check_cordoned(placing)
    directories = spread(placing, state.directory_counts, count - now, name, now)
    return [
        _partition(placing, topic_id, partition, directory)
        for partition, directory in enumerate(directories, start=now)
    ]


def move_partition(state: ClusterState, topic_id: bytes, partition: int, directory_id: bytes) -> list[Any]:
    """The record that says which directory a partition lies in from now on. Raises: Refused."""
    topic = state.topics.get(topic_id)
    if topic is None or partition not in topic.partitions:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message)
    return [records.PartitionChangeRecord(partition_id=partition, topic_id=topic_id, directories=[directory_id])]


def delete_topic(state: ClusterState, *, name: str | None, topic_id: bytes | None) -> tuple[bytes, list[Any]]:
    """(id, records) that delete the topic of this name or id. Raises: Refused."""
    if topic_id is not None:
        if topic_id not in state.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message)
        return topic_id, [records.RemoveTopicRecord(topic_id=topic_id)]
    found = state.topic_ids.get(name or "")
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message)
    return found, [records.RemoveTopicRecord(topic_id=found)]
