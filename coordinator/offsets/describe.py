"""DescribeGroups and ListGroups.

Source: Kafka's GroupMetadataManager.describeGroups, listGroups, ClassicGroup.describe; KIP-518, KIP-848, KIP-1043.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.consumer.group import ConsumerGroup
from coordinator.group import Group, GroupState
from coordinator.outcome import Outcome, Reply
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coordinator.offsets.inputs import DescribeGroup
    from coordinator.view import AnyGroup, GroupOutcome, View

GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = "consumer"  # the type of groups of KIP-848, and their protocol type
ERROR_SINCE = 6
"""Before this version an unknown group is described as Dead, without an error."""


def describe_group(view: View, request: DescribeGroup, now_ms: int) -> GroupOutcome:
    """Answer with the group as it is. What members said of themselves is shown once the group is Stable."""
    group = view.group
    if group is None:
        described = _unknown(request)
    elif group.state is GroupState.DEAD:
        described = DescribedGroup(group_id=request.group_id, group_state=GroupState.DEAD.value)
    else:
        described = _described(group)
    return Outcome(group, (), (Reply(request.reply_to, described),))


def _unknown(request: DescribeGroup) -> DescribedGroup:
    described = DescribedGroup(group_id=request.group_id, group_state=GroupState.DEAD.value)
    if request.version >= ERROR_SINCE:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {request.group_id} not found."
    return described


def _described(group: Group) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def list_groups(groups: Iterable[AnyGroup], states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """The groups in one of `states` and of one of `types`; an empty filter filters nothing."""
    wanted = {state.strip().lower() for state in states}
    wanted_types = {name.lower() for name in types}
    return [
        listed
        for listed in map(_listed, groups)
        if (not wanted or listed.group_state.lower() in wanted) and (not types or listed.group_type in wanted_types)
    ]


def _listed(group: AnyGroup) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        protocol_type = group_type = CONSUMER_GROUP_TYPE
    else:
        protocol_type, group_type = group.protocol_type or "", GROUP_TYPE
    return ListedGroup(
        group_id=group.group_id, protocol_type=protocol_type, group_state=group.state.value, group_type=group_type
    )
