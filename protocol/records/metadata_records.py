"""The records of `__cluster_metadata`, declared as messages are. Each travels in a frame that names kind and version.

Kohort writes a small part of them and reads all of them, so that it can serve a directory that Kafka wrote.

Frame: uvarint frame version (1), uvarint kind, uvarint record version, body. Everything is flexible.
Source: KIP-631; Kafka's metadata/src/main/resources/common/metadata.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import ProtocolError
from protocol.records.errors import CorruptBatch
from protocol.records.varint import decode_uvarint, encode_uvarint
from protocol.schema import (
    Array,
    Bool,
    Buffer,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nullable,
    String,
    Struct,
    UInt16,
    Uuid,
    field,
    message,
    struct,
)

_FRAME_VERSION = 1


class MetadataRecordError(Exception):
    """A frame that is no metadata record this reader knows; the message says what is wrong with it."""


class UnknownFrameVersion(MetadataRecordError):
    """The frame is of another layout than 1."""


class UnknownMetadataRecord(MetadataRecordError):
    """A kind of record that Kafka 4.3 does not have."""


class UnknownRecordVersion(MetadataRecordError):
    """A known kind in a version that is not known."""


class BadMetadataRecord(MetadataRecordError):
    """A known kind and version whose bytes do not fill it exactly."""


@struct
class BrokerEndpoint(Struct):
    """One listener of a broker or controller."""

    name: str = field(String)
    host: str = field(String)
    port: int = field(UInt16)
    security_protocol: int = field(Int16)  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


@struct
class BrokerFeature(Struct):
    """The levels of a feature that a broker or controller can do, both inclusive."""

    name: str = field(String)
    min_supported_version: int = field(Int16)
    max_supported_version: int = field(Int16)


@message(versions=(0, 4), flexible_from=0)
class RegisterBrokerRecord(Message):
    """A broker has registered; its epoch is valid until the next registration."""

    broker_id: int = field(Int32)
    is_migrating_zk_broker: bool = field(Bool, since=2)
    incarnation_id: bytes = field(Uuid)
    broker_epoch: int = field(Int64)
    end_points: list[BrokerEndpoint] = field(Array(BrokerEndpoint))
    features: list[BrokerFeature] = field(Array(BrokerFeature))
    rack: str | None = field(Nullable(String), default=None)
    fenced: bool = field(Bool, default=True)
    in_controlled_shutdown: bool = field(Bool, since=1)
    log_dirs: list[bytes] = field(Array(Uuid), since=3, tag=0)
    cordoned_log_dirs: list[bytes] | None = field(Nullable(Array(Uuid)), since=4, tag=1, default=None)


@message(versions=(0, 0), flexible_from=0)
class UnregisterBrokerRecord(Message):
    """A broker is gone for good."""

    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64)


@message(versions=(0, 0), flexible_from=0)
class TopicRecord(Message):
    """A topic exists from here on."""

    name: str = field(String)
    topic_id: bytes = field(Uuid)


@message(versions=(0, 2), flexible_from=0)
class PartitionRecord(Message):
    """The whole state of a partition. Source: KIP-858 (directories), KIP-966 (eligible leader replicas)."""

    partition_id: int = field(Int32)
    topic_id: bytes = field(Uuid)
    replicas: list[int] = field(Array(Int32))
    isr: list[int] = field(Array(Int32))
    removing_replicas: list[int] = field(Array(Int32))
    adding_replicas: list[int] = field(Array(Int32))
    leader: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)
    partition_epoch: int = field(Int32)
    directories: list[bytes] = field(Array(Uuid), since=1)
    leader_recovery_state: int = field(Int8, tag=0)  # 1: recovering from an unclean election
    eligible_leader_replicas: list[int] | None = field(Nullable(Array(Int32)), since=2, tag=1, default=None)
    last_known_elr: list[int] | None = field(Nullable(Array(Int32)), since=2, tag=2, default=None)


@message(versions=(0, 0), flexible_from=0)
class ConfigRecord(Message):
    """One config of a topic (2), broker (4), client metrics (16) or group (32); a null value removes it."""

    resource_type: int = field(Int8)
    resource_name: str = field(String)
    name: str = field(String)
    value: str | None = field(Nullable(String))


@message(versions=(0, 2), flexible_from=0)
class PartitionChangeRecord(Message):
    """What changes in a partition; every field left at its default stays as it is."""

    partition_id: int = field(Int32, default=-1)
    topic_id: bytes = field(Uuid)
    isr: list[int] | None = field(Nullable(Array(Int32)), tag=0, default=None)
    leader: int = field(Int32, tag=1, default=-2)
    replicas: list[int] | None = field(Nullable(Array(Int32)), tag=2, default=None)
    removing_replicas: list[int] | None = field(Nullable(Array(Int32)), tag=3, default=None)
    adding_replicas: list[int] | None = field(Nullable(Array(Int32)), tag=4, default=None)
    leader_recovery_state: int = field(Int8, tag=5, default=-1)
    eligible_leader_replicas: list[int] | None = field(Nullable(Array(Int32)), since=2, tag=6, default=None)
    last_known_elr: list[int] | None = field(Nullable(Array(Int32)), since=2, tag=7, default=None)
    directories: list[bytes] | None = field(Nullable(Array(Uuid)), since=1, tag=8, default=None)


@message(versions=(0, 0), flexible_from=0)
class FenceBrokerRecord(Message):
    """A broker is fenced (before metadata.version 6)."""

    id: int = field(Int32)
    epoch: int = field(Int64)


@message(versions=(0, 0), flexible_from=0)
class UnfenceBrokerRecord(Message):
    """A broker is no longer fenced (before metadata.version 6)."""

    id: int = field(Int32)
    epoch: int = field(Int64)


@message(versions=(0, 0), flexible_from=0)
class RemoveTopicRecord(Message):
    """A topic is gone, with its partitions and configs."""

    topic_id: bytes = field(Uuid)


@message(versions=(0, 0), flexible_from=0)
class DelegationTokenRecord(Message):
    """A delegation token. Source: KIP-900."""

    owner: str = field(String)
    requester: str = field(String)
    renewers: list[str] = field(Array(String))
    issue_timestamp: int = field(Int64)
    max_timestamp: int = field(Int64)
    expiration_timestamp: int = field(Int64)
    token_id: str = field(String)


@message(versions=(0, 0), flexible_from=0)
class UserScramCredentialRecord(Message):
    """A user's salted password."""

    name: str = field(String)
    mechanism: int = field(Int8)
    salt: bytes = field(Bytes)
    stored_key: bytes = field(Bytes)
    server_key: bytes = field(Bytes)
    iterations: int = field(Int32)


@message(versions=(0, 0), flexible_from=0)
class FeatureLevelRecord(Message):
    """The level at which a feature is finalized; 0 removes it."""

    name: str = field(String)
    feature_level: int = field(Int16)


@struct
class QuotaEntity(Struct):
    """Whom a quota holds; a null name is the default of its type."""

    entity_type: str = field(String)
    entity_name: str | None = field(Nullable(String))


@message(versions=(0, 0), flexible_from=0)
class ClientQuotaRecord(Message):
    """One quota, set or removed."""

    entity: list[QuotaEntity] = field(Array(QuotaEntity))
    key: str = field(String)
    value: float = field(Float64)
    remove: bool = field(Bool)


@message(versions=(0, 0), flexible_from=0)
class ProducerIdsRecord(Message):
    """A block of producer ids is given out; the next one begins at `next_producer_id`."""

    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64)
    next_producer_id: int = field(Int64)


@message(versions=(0, 3), flexible_from=0)
class BrokerRegistrationChangeRecord(Message):
    """What changes in a registration."""

    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64)
    fenced: int = field(Int8, tag=0)  # -1 unfences, 1 fences
    in_controlled_shutdown: int = field(Int8, since=1, tag=1)
    log_dirs: list[bytes] = field(Array(Uuid), since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = field(Nullable(Array(Uuid)), since=3, tag=3, default=None)


@message(versions=(0, 0), flexible_from=0)
class AccessControlEntryRecord(Message):
    """One ACL."""

    id: bytes = field(Uuid)
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8)
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


@message(versions=(0, 0), flexible_from=0)
class RemoveAccessControlEntryRecord(Message):
    """An ACL is gone."""

    id: bytes = field(Uuid)


@message(versions=(0, 0), flexible_from=0)
class NoOpRecord(Message):
    """Nothing; Kafka appends one every 500 ms when idle."""


@message(versions=(0, 0), flexible_from=0)
class ZkMigrationStateRecord(Message):
    """How far a migration from ZooKeeper is: 0 never begun, 3 done."""

    zk_migration_state: int = field(Int8)


@message(versions=(0, 0), flexible_from=0)
class RemoveUserScramCredentialRecord(Message):
    """A user's salted password is gone."""

    name: str = field(String)
    mechanism: int = field(Int8)


@message(versions=(0, 0), flexible_from=0)
class BeginTransactionRecord(Message):
    """What follows counts only when it is ended. Source: KIP-868."""

    name: str | None = field(Nullable(String), tag=0, default=None)


@message(versions=(0, 0), flexible_from=0)
class EndTransactionRecord(Message):
    """What came since the beginning counts from here on."""


@message(versions=(0, 0), flexible_from=0)
class AbortTransactionRecord(Message):
    """What came since the beginning never counts."""

    reason: str | None = field(Nullable(String), tag=0, default=None)


@message(versions=(0, 0), flexible_from=0)
class RemoveDelegationTokenRecord(Message):
    """A delegation token is gone."""

    token_id: str = field(String)


@message(versions=(0, 0), flexible_from=0)
class RegisterControllerRecord(Message):
    """A controller has registered."""

    controller_id: int = field(Int32)
    incarnation_id: bytes = field(Uuid)
    zk_migration_ready: bool = field(Bool)
    end_points: list[BrokerEndpoint] = field(Array(BrokerEndpoint))
    features: list[BrokerFeature] = field(Array(BrokerFeature))


@message(versions=(0, 0), flexible_from=0)
class ClearElrRecord(Message):
    """The eligible leader replicas of a topic, or of all (`""`), are void."""

    topic_name: str = field(String)


@message(versions=(0, 0), flexible_from=0)
class UnregisterControllerRecord(Message):
    """A controller is gone for good. Since metadata.version 33, of Kafka 4.4."""

    controller_id: int = field(Int32)


RECORDS: dict[int, type[Message]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
    29: UnregisterControllerRecord,
}
"""Every kind of record that Kafka 4.4 knows, by its number."""

_KINDS: dict[type, int] = {record: kind for kind, record in RECORDS.items()}

# (kind, first metadata.version, record version), the newest first. All other kinds have version 0 only.
_VERSIONS_BY_LEVEL: dict[type, tuple[tuple[int, int], ...]] = {
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    PartitionRecord: ((23, 2), (17, 1)),
    PartitionChangeRecord: ((23, 2), (17, 1)),
    BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (7, 1)),
}


def record_version(record: type, metadata_version: int) -> int:
    """The version in which a kind of record is written under a `metadata.version`."""
    for level, version in _VERSIONS_BY_LEVEL.get(record, ()):
        if metadata_version >= level:
            return version
    return 0


def encode_frame(record: Message, *, metadata_version: int = 21) -> bytes:
    """The value of a metadata record, in the version that goes with a `metadata.version`."""
    version = record_version(type(record), metadata_version)
    head = encode_uvarint(_FRAME_VERSION) + encode_uvarint(_KINDS[type(record)]) + encode_uvarint(version)
    return head + record.encode(version)


def decode_frame(value: Buffer) -> Any:
    """The record in a frame.

    Raises: MetadataRecordError; its subclass says whether the frame, the kind, the version or the body is at fault.
    """
    data = bytes(value)
    try:
        frame, at = decode_uvarint(data, 0)
        if frame != _FRAME_VERSION:
            raise UnknownFrameVersion(f"frame version {frame}, only {_FRAME_VERSION} is known")
        kind, at = decode_uvarint(data, at)
        version, at = decode_uvarint(data, at)
    except (IndexError, CorruptBatch) as error:
        raise BadMetadataRecord(f"a frame of {len(data)} bytes has no readable head") from error
    record = RECORDS.get(kind)
    if record is None:
        raise UnknownMetadataRecord(f"metadata record of kind {kind} is not known")
    if not record.VERSIONS[0] <= version <= record.VERSIONS[1]:
        raise UnknownRecordVersion(f"{record.__name__} has versions {record.VERSIONS}, not {version}")
    try:
        return record.decode(version, data, at)
    except ProtocolError as error:
        raise BadMetadataRecord(f"{record.__name__} v{version}: {error}") from error
