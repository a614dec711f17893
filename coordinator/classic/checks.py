"""The checks that inputs share: small pure functions that return an `ErrorCode`.

They allocate nothing, so that a fused path for a hot request can call them without an `Outcome`.

Source: Kafka's ClassicGroup.validateMember and supportsProtocols, GroupMetadataManager.validateClassicGroupHeartbeat,
validateSyncGroup and acceptJoiningMember; KIP-345.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator.group import Group, GroupState
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.classic.draft import Draft

_NONE = ErrorCode.NONE
_UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
_FENCED_INSTANCE_ID = ErrorCode.FENCED_INSTANCE_ID
_ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
_REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
_COORDINATOR_NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
_DEAD = GroupState.DEAD
_EMPTY = GroupState.EMPTY


def check_group_id(group_id: str) -> ErrorCode:
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, TxnOffsetCommit and OffsetDelete refuse the empty name."""
    return _NONE if group_id else ErrorCode.INVALID_GROUP_ID


def check_session_timeout(session_timeout_ms: int, settings: GroupSettings) -> ErrorCode:
    """Both limits are allowed values."""
    if settings.min_session_timeout_ms <= session_timeout_ms <= settings.max_session_timeout_ms:
        return _NONE
    return ErrorCode.INVALID_SESSION_TIMEOUT


def check_member(group: Group | Draft, member_id: str, instance_id: str | None) -> ErrorCode:
    """UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID; a pending member id is no member."""
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return _UNKNOWN_MEMBER_ID
        if holder != member_id:
            return _FENCED_INSTANCE_ID
    return _NONE if member_id in group.members else _UNKNOWN_MEMBER_ID


def check_heartbeat(group: Group | None, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """The whole answer to a Heartbeat. NONE and REBALANCE_IN_PROGRESS restart the member's session timer."""
    if group is None:
        return _UNKNOWN_MEMBER_ID
    state = group.state
    if state is _DEAD:
        return _COORDINATOR_NOT_AVAILABLE
    if instance_id is not None:
        error = check_member(group, member_id, instance_id)
        if error is not _NONE:
            return error
    elif member_id not in group.members:
        return _UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return _ILLEGAL_GENERATION
    return _REBALANCE_IN_PROGRESS if state is _PREPARING_REBALANCE else _NONE


def check_sync_shape(version: int, protocol_type: str | None, protocol_name: str | None) -> ErrorCode:
    """From version 5 both fields are mandatory. Kafka looks at this before authorization."""
    if version >= 5 and (protocol_type is None or protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _NONE


def check_sync(
    group: Group | None,
    member_id: str,
    instance_id: str | None,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
) -> ErrorCode:
    """NONE: the member takes part in the current generation, and may park or be answered."""
    if group is None or group.state is _EMPTY:
        return _UNKNOWN_MEMBER_ID
    if group.state is _DEAD:
        return _COORDINATOR_NOT_AVAILABLE
    error = check_member(group, member_id, instance_id)
    if error is not _NONE:
        return error
    if generation != group.generation:
        return _ILLEGAL_GENERATION
    if _differ(protocol_type, group.protocol_type) or _differ(protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _REBALANCE_IN_PROGRESS if group.state is _PREPARING_REBALANCE else _NONE


def _differ(given: str | None, current: str | None) -> bool:
    return given is not None and current is not None and given != current


def check_supports(group: Group, protocol_type: str, names: Iterable[str]) -> ErrorCode:
    """A newcomer must offer the group's type and one protocol that everybody in it supports.

    So a sole member that comes back with nothing but a brand-new name is refused: its old names still count.
    """
    if group.state is _EMPTY:
        # Any protocol will do, but there must be one.
        supported = bool(protocol_type) and any(True for _ in names)
    else:
        votes, members = group.protocol_votes, len(group.members)
        supported = protocol_type == group.protocol_type and any(votes.get(name, 0) == members for name in names)
    return _NONE if supported else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def check_capacity(group: Group, member_id: str, max_size: int) -> ErrorCode:
    """While a group rebalances its parked joins are counted, so the slowest of too many are turned away."""
    if group.state is _EMPTY or group.state is _DEAD:
        return _NONE
    member = group.members.get(member_id)
    if group.state is _PREPARING_REBALANCE:
        accepted = (member is not None and member.parked_join is not None) or group.parked_join_count < max_size
    else:
        accepted = member is not None or len(group.members) < max_size
    return _NONE if accepted else ErrorCode.GROUP_MAX_SIZE_REACHED


def extends_session(error: ErrorCode) -> bool:
    """Whether a heartbeat with this answer restarts the member's session timer."""
    return error is _NONE or error is _REBALANCE_IN_PROGRESS
