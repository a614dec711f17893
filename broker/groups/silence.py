"""How long members have been silent, read from their session timers: what only the edge knows, and rules are told.

A heartbeat writes a deadline and nothing else (D9), so the deadline less the session timeout is when a member was last
heard of, or last answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.classic.inputs import Heartbeat, InitialDelayPassed, Join, JoinTimedOut, SessionExpired, Sync
from coordinator.consumer.inputs import ClassicMemberTimedOut, ConsumerHeartbeat, RebalanceTimedOut
from coordinator.offsets.inputs import CommitOffsets
from coordinator.outcome import Appended

if TYPE_CHECKING:
    from broker.coordinators.leader import Leader
    from broker.loop.timers import Timers
    from coordinator.group import Member
    from coordinator.outcome import Input
    from coordinator.shard import Shard

# What a member sent last, told by the input in whose name its session timer was set.
_LAST_APIS: dict[type[Input], str] = {
    Heartbeat: "Heartbeat",
    CommitOffsets: "OffsetCommit",
    Join: "JoinGroup",
    InitialDelayPassed: "JoinGroup",
    JoinTimedOut: "JoinGroup",
    Sync: "SyncGroup",
    Appended: "SyncGroup",
    ConsumerHeartbeat: "ConsumerGroupHeartbeat",
}


Edge = Callable[[str, str, "int | None"], Mapping[str, Any]]
"""(group id, member id, how long it was silent) -> what else is to be seen of it."""


def fill_in(
    event: Input,
    armed_by: type[Input],
    shard: Shard,
    timers: Timers,
    now_ms: int,
    edge: Edge | None = None,
) -> None:
    """Put what is known of silence into the input of a timer that fired.

    `armed_by`: the kind of input in whose name the timer was set.
    """
    group = shard.groups.get(event.key)
    if type(event) is SessionExpired:
        member = group.members.get(event.member_id) if group is not None else None
        if member is not None and not member.is_new:
            # The timer was set when the member was last heard of, or answered.
            event.last_heard_ms = member.session_timeout_ms
            event.last_api = _LAST_APIS.get(armed_by)
        elif group is None and armed_by in _LAST_APIS:  # not since it was loaded
            event.last_heard_ms = _session_ms(shard, event.group_id, event.member_id)
            event.last_api = _LAST_APIS[armed_by]
        if edge is not None:
            event.edge = edge(event.group_id, event.member_id, event.last_heard_ms)
    elif type(event) is JoinTimedOut:
        members = group.members.values() if group is not None else ()
        heard = {m.member_id: _ago_ms(event.group_id, m, timers, now_ms) for m in members if m.parked_join is None}
        event.last_heard_ms = {member_id: ago_ms for member_id, ago_ms in heard.items() if ago_ms is not None}
        if edge is not None:
            event.edge = {member_id: edge(event.group_id, member_id, ago_ms) for member_id, ago_ms in heard.items()}
    elif type(event) is RebalanceTimedOut or type(event) is ClassicMemberTimedOut:
        event.last_heard_ms = _consumer_ago_ms(shard, event.group_id, event.member_id, timers, now_ms)
        if edge is not None:
            event.edge = edge(event.group_id, event.member_id, event.last_heard_ms)


def silent_ms(leader: Leader[Shard], group_id: str, instance_id: str) -> int | None:
    """How long ago the member that holds an instance id was heard of; None when nobody does, or it waits now."""
    shard, timers, now_ms = leader.shard, leader.timers, leader.now_ms()
    consumer_group = shard.consumer_groups.get(group_id)
    if consumer_group is not None:
        member_id = consumer_group.static_members.get(instance_id, "")
        return _consumer_ago_ms(shard, group_id, member_id, timers, now_ms)
    group = shard.groups.get(group_id)
    member = group.members.get(group.static_members.get(instance_id, "")) if group is not None else None
    if member is None or member.parked_join is not None or member.parked_sync is not None:
        return None
    return _ago_ms(group_id, member, timers, now_ms)


def _session_ms(shard: Shard, group_id: str, member_id: str) -> int | None:
    group = shard.consumer_groups.get(group_id)
    member = group.members.get(member_id) if group is not None else None
    return None if member is None else shard.session_timeout_ms(group_id, member)


def _consumer_ago_ms(shard: Shard, group_id: str, member_id: str, timers: Timers, now_ms: int) -> int | None:
    session_ms = _session_ms(shard, group_id, member_id)
    deadline_ms = timers.deadline_ms(("heartbeat", group_id, member_id))
    return None if deadline_ms is None or session_ms is None else max(now_ms - (deadline_ms - session_ms), 0)


def _ago_ms(group_id: str, member: Member, timers: Timers, now_ms: int) -> int | None:
    deadline_ms = timers.deadline_ms(("heartbeat", group_id, member.member_id))
    return None if deadline_ms is None else max(now_ms - (deadline_ms - member.session_timeout_ms), 0)
