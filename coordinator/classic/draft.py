"""A group while one rule changes it: a working copy, and all that must happen because of the change.

A rule begins with a `Draft` of the view's group, calls the steps of its chapter on it, and ends with `outcome()`. The
draft never leaves the rule, the value it began with is never touched, and the members are copied once per input,
however many of them change.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from coordinator.cause import FURTHER_CAUSES_MAX, Cause
from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.inputs import SessionExpired
from coordinator.classic.protocols import add_votes
from coordinator.classic.tokens import EmptyGroupToken
from coordinator.events import GroupEvent
from coordinator.group import Group, GroupState, Member, Rebalance
from coordinator.layered import changeable, including, plain, without
from coordinator.outcome import AppendToken, CancelTimer, Outcome, Reply, ReplyTo, SetTimer
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.events import Happening
    from coordinator.outcome import Input
    from coordinator.view import GroupOutcome, View


class Draft:
    """See the module. `view` and `now_ms` are the rule's own arguments."""

    __slots__ = (
        "_events",
        "_owns_members",
        "assigned_partition_counts",
        "assigned_topic_ids",
        "assignment_in_flight",
        "before",
        "generation",
        "group_id",
        "last_rebalance_id",
        "leader_id",
        "loaded_at_ms",
        "members",
        "members_at_last_generation",
        "new_member_added",
        "now_ms",
        "parked_join_count",
        "pending_members",
        "pending_sync_count",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "protocol_votes",
        "rebalance",
        "records",
        "replies",
        "settings",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "timers",
        "token",
        "view",
    )

    def __init__(self, view: View, group: Group, now_ms: int) -> None:
        self.view = view
        self.settings = view.settings
        self.now_ms = now_ms
        self.before = group
        self.group_id = group.group_id
        self.state = group.state
        self.previous_state = group.previous_state
        self.state_timestamp_ms = group.state_timestamp_ms
        self.protocol_type = group.protocol_type
        self.protocol_name = group.protocol_name
        self.generation = group.generation
        self.leader_id = group.leader_id
        self.members: Mapping[str, Member] = group.members
        self.static_members: Mapping[str, str] = group.static_members
        self.pending_members: Mapping[str, None] = group.pending_members
        self.pending_sync_count = group.pending_sync_count
        self.protocol_votes: Mapping[str, int] = group.protocol_votes
        self.parked_join_count = group.parked_join_count
        self.subscribed_topics = group.subscribed_topics
        self.new_member_added = group.new_member_added
        self.assignment_in_flight = group.assignment_in_flight
        self.rebalance: Rebalance | None = group.rebalance
        self.last_rebalance_id = group.last_rebalance_id
        self.assigned_partition_counts = group.assigned_partition_counts
        self.assigned_topic_ids = group.assigned_topic_ids
        self.members_at_last_generation = group.members_at_last_generation
        self.loaded_at_ms = group.loaded_at_ms
        self.records: list[tuple[Any, Any | None]] = []
        self.replies: list[Reply] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.token: AppendToken | None = None
        self._events: list[tuple[Happening, int, Rebalance | None]] = []
        self._owns_members = False

    # What the rule returns

    def group(self) -> Group:
        """The value that this draft has become."""
        return Group(
            self.group_id,
            self.state,
            self.previous_state,
            self.state_timestamp_ms,
            self.protocol_type,
            self.protocol_name,
            self.generation,
            self.leader_id,
            self.members,
            self.static_members,
            self.pending_members,
            self.pending_sync_count,
            self.protocol_votes,
            self.parked_join_count,
            self.subscribed_topics,
            self.new_member_added,
            self.assignment_in_flight,
            self.rebalance,
            self.last_rebalance_id,
            self.assigned_partition_counts,
            self.members_at_last_generation,
            self.loaded_at_ms,
            self.assigned_topic_ids,
        )

    def outcome(self) -> GroupOutcome:
        """The group as it is now, and all that was collected on the way."""
        group = self.group()
        if isinstance(self.token, EmptyGroupToken):
            self.token.replies = tuple(self.replies)
        group_id, now_ms = self.group_id, self.now_ms
        return Outcome(
            group,
            tuple(self.records),
            tuple(self.replies),
            tuple(self.timers),
            tuple(
                [
                    GroupEvent(what, group_id, generation, now_ms, group, rebalance)
                    for what, generation, rebalance in self._events
                ]
            ),
            self.token,
        )

    # Collecting

    def reply(self, to: ReplyTo, response: Any) -> None:
        """Answer one request."""
        self.replies.append(Reply(to, response))

    def event(self, what: Happening, rebalance: Rebalance | None = None) -> None:
        """Say what happened."""
        self._events.append((what, self.generation, rebalance))

    def set_timer(self, name: str, after_ms: int, then: Input) -> None:
        """`name`: `join` or `sync`."""
        self.timers.append(SetTimer((name, self.group_id), self.now_ms + after_ms, then))

    def cancel_timer(self, name: str) -> None:
        """`name`: `join` or `sync`."""
        self.timers.append(CancelTimer((name, self.group_id)))

    def restart_session(self, member_id: str, after_ms: int) -> None:
        """Expect the member, or the pending id, to show up within this time."""
        group_id = self.group_id
        self.timers.append(
            SetTimer(("heartbeat", group_id, member_id), self.now_ms + after_ms, SessionExpired(group_id, member_id))
        )

    def forget_session(self, member_id: str) -> None:
        """Expect nothing of it any more."""
        self.timers.append(CancelTimer(("heartbeat", self.group_id, member_id)))

    # Members

    def own_members(self) -> MutableMapping[str, Member]:
        """The members, to be changed in place: a copy that belongs to this draft."""
        if not self._owns_members:
            self.members = changeable(self.members)
            self._owns_members = True
        return self.members  # type: ignore[return-value]  # to be changed since the line above

    def _members_that_go(self) -> dict[str, Member]:
        """As `own_members`, a dict: of ten thousand that go in a row each may have led."""
        members = self.members
        if not self._owns_members or type(members) is not dict:
            members = self.members = plain(members)
            self._owns_members = True
        return members

    def replace_members(self, members: dict[str, Member]) -> None:
        """Take these members, same ids or not; who calls this keeps votes, statics and counts right."""
        self.members = members
        self._owns_members = True

    def rest_members(self) -> None:
        """All have what they need: until the next rebalance members are only looked up, in a dict that is quickest."""
        if type(self.members) is not dict:
            self.replace_members(plain(self.members))

    def add_member(self, member: Member) -> None:
        """A new member, with its JoinGroup parked. The first of a member-less group sets the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.instance_id is not None:
            self.static_members = including(self.static_members, member.instance_id, member.member_id)
        if member.member_id in self.pending_members:
            self.drop_pending(member.member_id)
        self.own_members()[member.member_id] = member
        self._vote(member, 1)
        if member.parked_join is not None:
            self.parked_join_count += 1

    def drop_pending(self, member_id: str) -> None:
        """An id that was given out is not expected any more."""
        self.pending_members = without(self.pending_members, member_id)

    def remove_member(self, member_id: str) -> Member:
        """Take a member out, answer what it had parked, and pass leadership on to the oldest that is left.

        Whoever goes while others sync begins a join phase (`prepare`): nobody is waited for to sync then.
        """
        members = self._members_that_go()
        member = members.pop(member_id)
        self._vote(member, -1)
        if member.instance_id is not None:
            self.static_members = without(self.static_members, member.instance_id)
        if member.parked_join is not None:
            self.parked_join_count -= 1
            # The id is gone, so the client must begin without one.
            self.reply(member.parked_join, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        if member.parked_sync is not None:
            self.reply(member.parked_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        if self.leader_id == member_id:
            self.leader_id = next(iter(members), None)
        return member

    def update_member(self, old: Member, new: Member) -> None:
        """Put `new` in the place of `old`, under the same id."""
        if old.protocols != new.protocols:
            self._vote(old, -1)
            self._vote(new, 1)
        if (old.parked_join is None) != (new.parked_join is None):
            self.parked_join_count += 1 if old.parked_join is None else -1
        if old.synced_at_ms is None and new.synced_at_ms is not None:
            self.pending_sync_count -= 1
        self.own_members()[new.member_id] = new

    def rename_member(self, old: Member, new: Member) -> None:
        """Put `new` in the place of `old`, under another id: same instance, age and leadership, synced if it was."""
        old_id, new_id = old.member_id, new.member_id
        self.replace_members(
            {(new_id if key == old_id else key): (new if key == old_id else m) for key, m in self.members.items()}
        )
        if old.protocols != new.protocols:
            self._vote(old, -1)
            self._vote(new, 1)
        if (old.parked_join is None) != (new.parked_join is None):
            self.parked_join_count += 1 if old.parked_join is None else -1
        if new.instance_id is not None:
            self.static_members = including(self.static_members, new.instance_id, new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id

    def _vote(self, member: Member, by: int) -> None:
        votes = dict(self.protocol_votes)
        add_votes(votes, member, by)
        self.protocol_votes = votes

    # States and the course of the rebalance

    def enter(self, state: GroupState) -> None:
        """Every transition stamps the time."""
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = self.now_ms

    def further_cause(self, cause: Cause) -> None:
        """Something more that the rebalance in progress has to deal with."""
        rebalance = self.rebalance
        if rebalance is None:
            return
        if len(rebalance.further_causes) < FURTHER_CAUSES_MAX:
            self.rebalance = altered(rebalance, further_causes=(*rebalance.further_causes, cause))
        else:
            self.rebalance = altered(rebalance, further_causes_cut=rebalance.further_causes_cut + 1)

    def departed(self, member: Member, change: str) -> None:
        """`change`: `left`, `expired` or `removed`."""
        if self.rebalance is not None:
            self.rebalance = altered(self.rebalance, departed=(*self.rebalance.departed, (member, change)))
