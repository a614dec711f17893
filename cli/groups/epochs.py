"""Epochs and states of consumer groups (KIP-848), unknown to the client library: the coordinator itself is asked.

Where that one does not answer (Kafka before 4.0, GSSAPI) they stay unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.errors import Failed, UsageError
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cli.cluster import Cluster
    from cli.groups.reading import Group

_VERSION = 1
_CONSUMER_MEMBER = 1


def read_epochs(groups: Iterable[Group], cluster: Cluster) -> None:
    """Fill in what the groups' coordinators tell of epochs and states."""
    requested: dict[str, dict[str, Group]] = {}
    for group in groups:
        if group.type == "Consumer" and group.coordinator:
            requested.setdefault(group.coordinator, {})[group.group_id] = group
    for address, by_id in requested.items():
        try:
            _ask(address, by_id, cluster)
        except (Failed, UsageError):  # such as a log-in that our own connection does not know
            continue


def _ask(address: str, groups: dict[str, Group], cluster: Cluster) -> None:
    with cluster.wire(address) as wire:
        answer = wire.ask(ConsumerGroupDescribeRequest(group_ids=list(groups)), _VERSION)
    for described in answer.groups:
        group = groups.get(described.group_id)
        if group is None or described.error_code:
            continue
        group.state, group.epoch, group.target_epoch = (
            described.group_state,
            described.group_epoch,
            described.assignment_epoch,
        )
        told = {member.member_id: member for member in described.members}
        for member in group.members:
            found = told.get(member.consumer_id)
            if found is not None:
                member.epoch, member.upgraded = found.member_epoch, found.member_type == _CONSUMER_MEMBER
