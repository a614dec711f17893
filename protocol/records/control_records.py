"""Control records: what a log says about itself, to its readers. Key: int16 version 0, int16 type.

Source: KIP-98 (transaction markers), KIP-595 (leader change), KIP-630 (snapshots), KIP-853 (voters); Kafka's
ControlRecordType, ControlRecordUtils.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from protocol.errors import ProtocolError
from protocol.schema import Array, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, field, message, struct

if TYPE_CHECKING:
    from protocol.schema import Buffer


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@message(versions=(0, 0))
class ControlKey(Message):
    """The key of every control record."""

    version: int = field(Int16)
    type: int = field(Int16)


@message(versions=(0, 0))
class EndTransactionMarker(Message):
    """The value of a COMMIT or ABORT marker."""

    version: int = field(Int16)
    coordinator_epoch: int = field(Int32)


@struct
class Voter(Struct):
    """One voter of a quorum."""

    voter_id: int = field(Int32)


@message(versions=(0, 0), flexible_from=0)
class LeaderChangeMessage(Message):
    """A leader begins its epoch."""

    version: int = field(Int16)
    leader_id: int = field(Int32)
    voters: list[Voter] = field(Array(Voter))
    granting_voters: list[Voter] = field(Array(Voter))


@message(versions=(0, 0), flexible_from=0)
class SnapshotHeaderRecord(Message):
    """A snapshot begins; the time of the last record that it covers, in ms."""

    version: int = field(Int16)
    last_contained_log_timestamp: int = field(Int64)


@message(versions=(0, 0), flexible_from=0)
class SnapshotFooterRecord(Message):
    """A snapshot is complete."""

    version: int = field(Int16)


@message(versions=(0, 0), flexible_from=0)
class KRaftVersionRecord(Message):
    """Where voters are kept: 0 in the configuration, 1 in the log."""

    version: int = field(Int16)
    kraft_version: int = field(Int16)


@struct
class VoterEndpoint(Struct):
    """One listener of a voter."""

    name: str = field(String)
    host: str = field(String)
    port: int = field(UInt16)


@struct
class KRaftVersionFeature(Struct):
    """The kraft versions that a voter can do, both inclusive."""

    min_supported_version: int = field(Int16)
    max_supported_version: int = field(Int16)


@struct
class KRaftVoter(Struct):
    """One voter, as the log knows it."""

    voter_id: int = field(Int32)
    voter_directory_id: bytes = field(Uuid)
    endpoints: list[VoterEndpoint] = field(Array(VoterEndpoint))
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


@message(versions=(0, 0), flexible_from=0)
class KRaftVotersRecord(Message):
    """Who votes from here on."""

    version: int = field(Int16)
    voters: list[KRaftVoter] = field(Array(KRaftVoter))


_VALUES: dict[ControlType, type[Message]] = {
    ControlType.ABORT: EndTransactionMarker,
    ControlType.COMMIT: EndTransactionMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: KRaftVotersRecord,
}


def control_type(key: Buffer | None) -> ControlType | None:
    """What a control record with this key says; None for a type that is not known, which readers skip.

    Versions above 0 are read as 0. Raises: ProtocolError when the key is too short or its version negative.
    """
    decoded, _ = ControlKey.decoder(0)(bytes(key or b""), 0)
    if decoded.version < 0:
        raise ProtocolError(f"control record key of version {decoded.version}")
    try:
        return ControlType(decoded.type)
    except ValueError:
        return None


def leader_change(node_id: int) -> tuple[bytes, bytes]:
    """(key, value) with which the only voter of a quorum begins to lead."""
    voters = [Voter(voter_id=node_id)]
    value = LeaderChangeMessage(version=0, leader_id=node_id, voters=voters, granting_voters=voters)
    return ControlKey(version=0, type=ControlType.LEADER_CHANGE).encode(0), value.encode(0)


def snapshot_head(
    last_contained_log_timestamp: int, kraft_version: int, voters: bytes | None
) -> list[tuple[bytes, bytes]]:
    """(key, value) of what a snapshot begins with; `voters` is the value of the last KRAFT_VOTERS record."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    head = [(_key(ControlType.SNAPSHOT_HEADER), header.encode(0))]
    if kraft_version:
        version = KRaftVersionRecord(version=0, kraft_version=kraft_version)
        head.append((_key(ControlType.KRAFT_VERSION), version.encode(0)))
        if voters is not None:
            head.append((_key(ControlType.KRAFT_VOTERS), voters))
    return head


def snapshot_footer() -> tuple[bytes, bytes]:
    """(key, value) of what a snapshot ends with."""
    return _key(ControlType.SNAPSHOT_FOOTER), SnapshotFooterRecord(version=0).encode(0)


def _key(kind: ControlType) -> bytes:
    return ControlKey(version=0, type=kind).encode(0)


def end_transaction(*, commit: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """(key, value) of a transaction marker."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    value = EndTransactionMarker(version=0, coordinator_epoch=coordinator_epoch)
    return ControlKey(version=0, type=kind).encode(0), value.encode(0)


def decode_control_value(kind: ControlType, value: Buffer | None) -> Any:
    """The message that a control record of this kind carries; a later version is read as version 0.

    Raises: ProtocolError when it is not one, or its version is negative.
    """
    decoded: Any = _VALUES[kind].decoder(0)(bytes(value or b""), 0)[0]
    if decoded.version < 0:
        raise ProtocolError(f"{kind.name} of version {decoded.version}")
    return decoded
