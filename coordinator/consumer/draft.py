"""A consumer group while one rule changes it: records, and the group that they make.

A rule begins with a `Draft` of the view's group, writes records, reads the group as it has become by them, and ends
with `outcome()`. What is refused later is taken back whole: the token remembers the group as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator.append_errors import error_for_client
from coordinator.classic.answers import join_error, sync_error
from coordinator.classic.inputs import InitialDelayPassed, JoinTimedOut, SessionExpired, SyncTimedOut
from coordinator.consumer.epoch_rebalance import NO_TRACKING, RebalanceTracking
from coordinator.consumer.fold import GroupFold
from coordinator.consumer.group import UNREVOKED, ConsumerGroup
from coordinator.consumer.inputs import ClassicMemberTimedOut, RebalanceTimedOut
from coordinator.consumer.rebalance_tracking import follow
from coordinator.consumer.records import current_record
from coordinator.events import GroupEvent
from coordinator.group import Group, GroupState, longest_rebalance_timeout_ms
from coordinator.outcome import AppendFailed, AppendToken, CancelTimer, Outcome, Reply, ReplyTo, SetTimer
from coordinator.values import altered
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from coordinator.cause import Cause
    from coordinator.consumer.assignor import Partitions
    from coordinator.consumer.group import ConsumerMember
    from coordinator.consumer.records import Record
    from coordinator.events import Happening
    from coordinator.outcome import Input, Work
    from coordinator.view import AnyGroupOutcome, View


def group_event(what: Happening, group: ConsumerGroup, now_ms: int) -> GroupEvent:
    """Something that happened to the group, which is at this epoch since."""
    return GroupEvent(what, group.group_id, group.epoch, now_ms, group_type="consumer")


TIMERS_OF_A_MEMBER = ("heartbeat", "rebalance", "join", "sync")


@dataclass(slots=True)
class ConsumerToken(AppendToken):
    """The records of an outcome on a consumer group. Refused, everything is as it was before."""

    undoes: ClassVar[bool] = True
    group_id: str
    before: ConsumerGroup | Group | None
    reply_to: ReplyTo | None = None
    refusal: Callable[[ErrorCode], Any] | None = None  # the answer that says so
    touched: tuple[str, ...] = ()  # members whose timers may have changed


class Draft:
    """See the module. `view` and `now_ms` are the rule's own arguments.

    `created`: there was no consumer group of this name, and what is refused leaves none.
    """

    __slots__ = (
        "_fold",
        "before",
        "causes",
        "created",
        "departed",
        "events",
        "group_id",
        "migrated_from",
        "now_ms",
        "origin",
        "records",
        "replies",
        "side_causes",
        "soft",
        "successor_of",
        "timers",
        "touched",
        "tracking",
        "view",
        "work",
    )

    def __init__(self, view: View, now_ms: int) -> None:
        self.view = view
        self.now_ms = now_ms
        self.group_id = view.group_id
        group = view.consumer_group
        self.created = group is None
        self.before: ConsumerGroup | Group | None = view.group if group is None else group
        self.origin = ConsumerGroup(view.group_id) if group is None else group  # what the ledger compares with
        self._fold = GroupFold(self.origin)
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.timers: list[SetTimer | CancelTimer] = []
        self.events: list[GroupEvent] = []
        self.work: list[Work] = []
        self.touched: list[str] = []
        self.soft: dict[str, Any] = {}  # changes of what is not in the log
        self.tracking: RebalanceTracking = NO_TRACKING if group is None else group.tracking
        self.causes: list[Cause] = []  # of the epoch's rise
        self.side_causes: list[Cause] = []  # that go with it, and would not have raised it
        self.departed: list[tuple[ConsumerMember, str]] = []  # (member, `left`, `expired` or `removed`)
        self.migrated_from: str | None = None  # `classic`: the group spoke that protocol until now
        self.successor_of: ConsumerMember | None = None  # whose place the member of this request took

    # The group

    @property
    def group(self) -> ConsumerGroup:
        """The group as the records so far have made it. To be read at once: the next record changes it."""
        return self._fold.now

    def write(self, record: Record) -> None:
        """Decide something."""
        self.records.append(record)
        self._fold.apply(*record)

    def write_all(self, records: Iterable[Record]) -> None:
        """Decide several things, in order."""
        for record in records:
            self.write(record)

    def write_targets(self, records: Sequence[Record], targets: Mapping[str, Partitions]) -> None:
        """As `write_all` of the targets' records, which say `targets`: of a large group there are thousands."""
        self.records += records
        self._fold.apply_targets(targets)

    def write_foreign(self, record: Record) -> None:
        """A record that is not of this group's kind: the tombstone of the classic group of the same name."""
        self.records.append(record)

    def write_current(self, member: ConsumerMember) -> None:
        """Say how far the member is; its rebalance timer runs while it has partitions to give up.

        A member of the classic protocol has its timers of JoinGroup and SyncGroup for that.
        """
        self.write(current_record(self.group_id, member))
        self.touched.append(member.member_id)
        if member.state == UNREVOKED and member.classic is None:
            then = RebalanceTimedOut(self.group_id, member.member_id, member.epoch)
            self.set_timer("rebalance", member.member_id, member.rebalance_timeout_ms, then)
        else:
            self.cancel_timer("rebalance", member.member_id)

    # Timers

    def set_timer(self, name: str, member_id: str, after_ms: int, then: Input) -> None:
        """`name`: one of `TIMERS_OF_A_MEMBER`."""
        self.timers.append(SetTimer((name, self.group_id, member_id), self.now_ms + max(after_ms, 0), then))

    def cancel_timer(self, name: str, member_id: str) -> None:
        """`name`: one of `TIMERS_OF_A_MEMBER`."""
        self.timers.append(CancelTimer((name, self.group_id, member_id)))

    def restart_session(self, member: ConsumerMember) -> None:
        """The member was heard of."""
        expired = SessionExpired(self.group_id, member.member_id)
        self.set_timer("heartbeat", member.member_id, session_timeout_ms(self.view, member), expired)

    def expect_join(self, member: ConsumerMember) -> None:
        """A member of the classic protocol was told to join again: it has its rebalance timeout for that."""
        join_timers = self.soft.get("join_timers", self.group.join_timers)
        if member.member_id not in join_timers:
            self.soft["join_timers"] = {**join_timers, member.member_id: None}
            then = ClassicMemberTimedOut(self.group_id, member.member_id, "join")
            self.set_timer("join", member.member_id, member.rebalance_timeout_ms, then)

    def forget_join_deadline(self, member_id: str) -> None:
        """It has joined."""
        join_timers = self.soft.get("join_timers", self.group.join_timers)
        if member_id in join_timers:
            self.soft["join_timers"] = {other: None for other in join_timers if other != member_id}
        self.cancel_timer("join", member_id)

    def forget_member(self, member_id: str) -> None:
        """Expect nothing of it any more."""
        self.touched.append(member_id)
        self.forget_join_deadline(member_id)
        for name in TIMERS_OF_A_MEMBER:
            self.cancel_timer(name, member_id)

    # What the rule returns

    def reply(self, to: ReplyTo, response: Any) -> None:
        """Answer one request."""
        self.replies.append(Reply(to, response))

    def event(self, what: Happening) -> None:
        """Say what happened."""
        self.events.append(group_event(what, self.group, self.now_ms))

    def outcome(
        self, reply_to: ReplyTo | None = None, refusal: Callable[[ErrorCode], Any] | None = None
    ) -> AnyGroupOutcome:
        """The group as it is now, and all that was collected on the way.

        `refusal`: what `reply_to` is told when the records are refused.
        """
        group: ConsumerGroup | Group | None
        if self.created and not self.records:
            group = self.before  # nothing was decided, and nobody remembers
        else:
            group = self._fold.group()
            if group is not None:
                if self.records:
                    self.tracking = follow(self, group)
                if self.tracking is not group.tracking:
                    self.soft["tracking"] = self.tracking
                if self.soft:
                    group = self._fold.group_with(self.soft)
        token = None
        if self.records:
            token = ConsumerToken(self.group_id, self.before, reply_to, refusal, tuple(self.touched))
        return Outcome(
            group,
            tuple(self.records),
            tuple(self.replies),
            tuple(self.timers),
            tuple(self.events),
            token,
            tuple(self.work),
        )


def refused(view: View, failure: AppendFailed, now_ms: int) -> AnyGroupOutcome:
    """The records are not in the log: the group is as it was before them, and whoever asked is told."""
    token = failure.token
    assert isinstance(token, ConsumerToken)
    replies: tuple[Reply, ...] = ()
    if token.refusal is not None and token.reply_to is not None:
        replies = (Reply(token.reply_to, token.refusal(error_for_client(failure.error))),)
    current: ConsumerGroup | Group | None = view.consumer_group or view.group
    before = token.before
    if failure.error is ErrorCode.REQUEST_TIMED_OUT:
        # They are in the log, only late. Whoever waited in a classic group that is none any more has no answer yet.
        return Outcome(current, (), (*replies, *_parked(before, ErrorCode.REBALANCE_IN_PROGRESS)))
    if not isinstance(before, ConsumerGroup):
        return Outcome(before, (), replies, tuple(_timers_of_classic(view, before, now_ms)))
    # What it had asked for will never come.
    before = altered(before, regexes_requested_at_ms=None, computing_epoch=None, join_timers={})
    if view.group is not None:
        # It had become a classic one meanwhile, in which some may wait.
        replies = (*replies, *_parked(view.group, error_for_client(failure.error)))
    # Members that were to go are here again: they have a whole session to show up, and to give up what they must.
    timers = [
        timer
        for id_ in token.touched
        if id_ in before.members
        for timer in timers_of(view, before.members[id_], now_ms)
    ]
    return Outcome(before, (), replies, tuple(timers))


def _parked(group: ConsumerGroup | Group | None, error: ErrorCode) -> list[Reply]:
    """The answers to those who wait in a classic group."""
    if not isinstance(group, Group):
        return []
    waiting = group.members.values()
    joins = [Reply(m.parked_join, join_error(error, m.member_id)) for m in waiting if m.parked_join is not None]
    return joins + [Reply(m.parked_sync, sync_error(error)) for m in waiting if m.parked_sync is not None]


def _timers_of_classic(view: View, group: Group | None, now_ms: int) -> list[SetTimer | CancelTimer]:
    """A classic group that was to change its protocol goes on, and its members have all their time again."""
    if group is None:
        return []
    group_id = group.group_id
    timers: list[SetTimer | CancelTimer] = [
        SetTimer(
            ("heartbeat", group_id, member_id),
            now_ms + (view.settings.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms),
            SessionExpired(group_id, member_id),
        )
        for member_id, member in group.members.items()
    ]
    until_ms = now_ms + longest_rebalance_timeout_ms(group.members)
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        delay_ms = view.settings.initial_rebalance_delay_ms
        timers.append(SetTimer(("join", group_id), now_ms + delay_ms, InitialDelayPassed(group_id, delay_ms, 0)))
    elif group.state is GroupState.PREPARING_REBALANCE:
        timers.append(SetTimer(("join", group_id), until_ms, JoinTimedOut(group_id)))
    elif group.pending_sync_count:
        timers.append(SetTimer(("sync", group_id), until_ms, SyncTimedOut(group_id, group.generation)))
    return timers


def timers_of(view: View, member: ConsumerMember, now_ms: int) -> list[SetTimer | CancelTimer]:
    """The timers of a member of which nothing is known but its records: it has a whole session to show up."""
    group_id, member_id = view.group_id, member.member_id
    session_ms, expired = session_timeout_ms(view, member), SessionExpired(group_id, member_id)
    timers: list[SetTimer | CancelTimer] = [SetTimer(("heartbeat", group_id, member_id), now_ms + session_ms, expired)]
    if member.state == UNREVOKED:
        late = RebalanceTimedOut(group_id, member_id, member.epoch)
        deadline_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        timers.append(SetTimer(("rebalance", group_id, member_id), deadline_ms, late))
    else:
        timers.append(CancelTimer(("rebalance", group_id, member_id)))
    return timers


def session_timeout_ms(view: View, member: ConsumerMember) -> int:
    """How long the member may be silent. Who speaks the classic protocol says so itself."""
    return view.consumer_settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
