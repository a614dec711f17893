"""The answers of the classic group APIs, complete but for their version.

Whatever the version, "no protocol" is None here: a parked request's version is known to the edge alone, which takes
answers of versions below 7 through `without_null_protocol`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from coordinator.group import Member
from coordinator.outcome import Reply
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse


class Selected(Protocol):
    """What a JoinGroup's answer says of the group: a `Group`, or the draft of one."""

    @property
    def generation(self) -> int:
        """The current one."""

    @property
    def protocol_type(self) -> str | None:
        """What kind of group it is; None without members."""

    @property
    def protocol_name(self) -> str | None:
        """The assignor that was voted for."""


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """A refused JoinGroup."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


def refused_instead(reply: Reply, error: ErrorCode) -> Reply:
    """The answer to somebody who waited in a JoinGroup or a SyncGroup, and for nothing; any other as it is."""
    if isinstance(reply.response, JoinGroupResponse):
        return Reply(reply.to, join_error(error, reply.response.member_id))
    if isinstance(reply.response, SyncGroupResponse):
        return Reply(reply.to, sync_error(error))
    return reply


def joined(
    group: Selected,
    member_id: str,
    leader_id: str | None,
    members: list[JoinGroupResponseMember],
    *,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The member is in the current generation. `members`: everybody, for who plans the assignment."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or None,  # one whose name is empty is none to Kafka, too
        leader=leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def without_null_protocol(response: JoinGroupResponse) -> JoinGroupResponse:
    """As versions below 7 say it: the name of no protocol is "". The answer itself is changed."""
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


def member_list(members: Iterable[Member], protocol_name: str | None) -> list[JoinGroupResponseMember]:
    """Everybody with what they said for the selected protocol, the oldest first."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    ]


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup."""
    return SyncGroupResponse(error_code=error, protocol_type=None, protocol_name=None, assignment=b"")


def synced(group: Selected, assignment: bytes) -> SyncGroupResponse:
    """What a member is to do in the current generation."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
