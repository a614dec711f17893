"""Random histories of a group: whatever happens in whatever order, what is always true stays true.

- The driver checks the invariants of `coordinator.group` after every input, and that no request is answered twice.
- Every request is answered once or still parked, and after the group was given up all are answered.
- The generation never falls.
- In Stable and Empty what is durable of the group is what its last record says; otherwise that record is older.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.classic.inputs import Leaver, Unload
from coordinator.group import Group, GroupState
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from tests.coordinator.driver import Driver, Request

STORAGE_ERRORS = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]
OFFERS = [
    (("range", b"m"),),
    (("range", b"other"),),
    (("range", b"m"), ("rr", b"m")),
    (("rr", b"m"), ("range", b"m")),
    (("rr", b"m"),),
]
INSTANCES = [None, "i", "j"]
MS = st.sampled_from([0, 1, 500, 3_000, 6_000, 10_000, 30_000, 300_000])


class Histories(RuleBasedStateMachine):
    """Clients that know the ids they were given, and some that make ids up."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Driver()
        self.highest = 0
        self.failed = False  # an append was refused: from then on the log may be older than the group

    @initialize(size=st.sampled_from([1, 2, 3, 2**31 - 1]), delay=st.sampled_from([0, 3_000]))
    def begin(self, size: int, delay: int) -> None:
        self.broker = Driver(GroupSettings(max_size=size, initial_rebalance_delay_ms=delay))

    def member(self, pick: int) -> str:
        """An id that somebody was given, or one of nobody."""
        group = self.broker.group
        known = [*group.members, *sorted(group.pending_members)] if group else []
        given = [r.response.member_id for r in self.broker.requests if r.response and r.what.startswith("join")]
        ids = [*known, *known, *given[-5:], "nobody"]
        return ids[pick % len(ids)]

    def generation(self, off: int) -> int:
        return (self.broker.group.generation if self.broker.group else 0) + off

    @rule(
        instance=st.sampled_from(INSTANCES),
        offer=st.sampled_from(OFFERS),
        version=st.sampled_from([0, 3, 5, 9]),
        rebalance_ms=st.sampled_from([1_000, 10_000, 30_000]),
    )
    def come(self, instance, offer, version, rebalance_ms) -> None:
        self.broker.join(instance_id=instance, protocols=offer, version=version, rebalance_timeout_ms=rebalance_ms)

    @rule(
        pick=st.integers(0, 20), own=st.booleans(), instance=st.sampled_from(INSTANCES), offer=st.sampled_from(OFFERS)
    )
    def come_back(self, pick, own, instance, offer) -> None:
        member_id = self.member(pick)
        group = self.broker.group
        member = group.members.get(member_id) if group else None
        if own and member is not None:
            instance, offer = member.instance_id, member.protocols
        if member_id:
            self.broker.join(member_id, instance_id=instance, protocols=offer)

    @rule(pick=st.integers(0, 20), off=st.sampled_from([0, 0, 0, 1]), plan=st.booleans())
    def sync(self, pick, off, plan) -> None:
        group = self.broker.group
        members = list(group.members) if group else []
        leader = group.leader_id if group and plan else None
        number = len(self.broker.requests)
        self.broker.sync(
            leader or self.member(pick),
            self.generation(off),
            dict.fromkeys(members, b"%d" % number),
        )

    @rule(pick=st.integers(0, 20), off=st.sampled_from([0, 0, -1]))
    def heartbeat(self, pick, off) -> None:
        self.broker.heartbeat(self.member(pick), self.generation(off))

    @rule(picks=st.lists(st.integers(0, 20), min_size=1, max_size=3), instance=st.sampled_from(INSTANCES))
    def leave(self, picks, instance) -> None:
        leavers: list[str | Leaver] = [self.member(pick) for pick in picks]
        self.broker.leave(*leavers, *([Leaver("", instance)] if instance else []))

    @rule(ms=MS)
    def wait(self, ms) -> None:
        self.broker.advance(ms)

    @rule()
    def everybody_joins(self) -> None:
        for member_id, member in dict(self.broker.group.members if self.broker.group else {}).items():
            self.broker.join(member_id, instance_id=member.instance_id, protocols=member.protocols)

    @rule()
    def everybody_syncs(self) -> None:
        for member_id in list(self.broker.group.members if self.broker.group else {}):
            self.sync_as(member_id)

    def sync_as(self, member_id: str) -> None:
        plan = {member: member.encode() for member in self.broker.live.members}
        self.broker.sync(member_id, self.generation(0), plan)

    @precondition(lambda self: self.broker._held is None)
    @rule()
    def appends_take_long(self) -> None:
        self.broker.hold_appends()

    @precondition(lambda self: self.broker._held is not None)
    @rule(refused=st.integers(0, 3), error=st.sampled_from(STORAGE_ERRORS))
    def appends_are_done(self, refused, error) -> None:
        self.failed = self.failed or bool(refused)
        self.broker.release_appends(refused=refused, error=error)

    @invariant()
    def the_generation_never_falls(self) -> None:
        group = self.broker.group
        if group is None:
            self.highest = 0  # forgotten: its first record was refused, or nobody made it yet
        else:
            assert group.generation >= self.highest
            self.highest = group.generation

    @invariant()
    def each_request_is_answered_once_or_waits(self) -> None:
        if self.broker._held is not None:
            return
        group = self.broker.group
        parked: list[Request] = []
        for member in group.members.values() if group else ():
            parked += [request for request in (member.parked_join, member.parked_sync) if request is not None]
        waiting = [request for request in self.broker.requests if not request.responses]
        assert {id(request) for request in waiting} == {id(request) for request in parked}
        assert len(waiting) == len(parked)

    @invariant()
    def somebody_will_always_wake_up(self) -> None:
        """Whoever is not waiting for an answer has a session, no stranger has one, and every phase has its end."""
        group, timers = self.broker.group, self.broker.timers
        members = group.members if group else {}
        sessions = {key[2] for key in timers if key[0] == "heartbeat"}
        silent = {m.member_id for m in members.values() if m.is_new or not (m.parked_join or m.parked_sync)}
        expected = silent | (group.pending_members.keys() if group else set())
        assert expected <= sessions
        assert sessions <= expected | members.keys()
        assert (("join", "g") in timers) == (group is not None and group.state is GroupState.PREPARING_REBALANCE)
        assert (("sync", "g") in timers) == bool(group and group.pending_sync())

    @invariant()
    def what_is_durable_is_in_the_log(self) -> None:
        group = self.broker.group
        if group is None or self.broker._held is not None or self.failed:
            return
        _, record = self.broker.log[-1]
        assert record.generation <= group.generation
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            assert durable_part(group) == (
                record.protocol_type,
                record.generation,
                record.protocol,
                record.leader,
                [
                    (
                        m.member_id,
                        m.group_instance_id,
                        m.client_id,
                        m.rebalance_timeout,
                        m.session_timeout,
                        m.subscription,
                        m.assignment,
                    )
                    for m in record.members
                ],
            )

    def teardown(self) -> None:
        self.broker.release_appends()
        self.broker.feed(Unload("g"))
        assert all(len(request.responses) == 1 for request in self.broker.requests)
        assert not self.broker.timers
        began = self.broker.kinds().count("rebalance_began")
        ended = self.broker.kinds().count("rebalance_ended")
        assert began - 1 <= ended <= began


def durable_part(group: Group) -> tuple[object, ...]:
    # A group that was made but never had a generation is on record without its protocol type.
    named = group.generation > 0
    return (
        (group.protocol_type or "") if named else "",
        group.generation,
        group.protocol_name,
        group.leader_id,
        [
            (
                m.member_id,
                m.instance_id,
                m.client_id,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.metadata(group.protocol_name),
                m.assignment,
            )
            for m in group.members.values()
        ],
    )


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
