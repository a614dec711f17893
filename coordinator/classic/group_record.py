"""The record that says who is in a group: what of it survives a restart.

Source: Kafka's GroupCoordinatorRecordHelpers.newGroupMetadataRecord and newEmptyGroupMetadataRecord.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from protocol.records.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from coordinator.classic.draft import Draft

GroupRecord = tuple[GroupMetadataKey, GroupMetadataValue]


def group_record(group: Draft, assignments: Mapping[str, bytes] | None = None) -> GroupRecord:
    """The group as it is, with these assignments or with those that its members have.

    Of a member's protocols only the selected one's metadata is kept.
    """
    protocol = group.protocol_name
    return (
        GroupMetadataKey(group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=protocol,
            leader=group.leader_id,
            current_state_timestamp=-1 if group.state_timestamp_ms is None else group.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(protocol),
                    assignment=member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in group.members.values()
            ],
        ),
    )


def new_group_record(group_id: str, now_ms: int) -> GroupRecord:
    """A group that nobody has joined yet, though somebody may be about to."""
    return (
        GroupMetadataKey(group_id),
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=now_ms,
            members=[],
        ),
    )
