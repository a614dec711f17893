"""Drives rules as a partition leader would, with a clock that only moves when told to.

    broker = Driver()
    a = broker.join()                       # MEMBER_ID_REQUIRED
    again = broker.join(a.response.member_id)
    broker.advance(3_000)                   # timers fire, in order
    assert again.response.generation_id == 1

Records are committed at once; `hold_appends()` leaves them on their way until `release_appends()`, and `fail_appends()`
has the next ones refused. Replies wait for the records before them. Whatever happens, the driver checks that no request
is answered twice and that the group keeps its invariants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from coordinator.cause import TRIGGERS
from coordinator.classic import inputs, rules
from coordinator.events import GroupEvent
from coordinator.group import Group, GroupState
from coordinator.outcome import Appended, AppendFailed, CancelTimer, Input, Outcome, SetTimer
from coordinator.view import GroupSettings, View
from protocol.errors import ErrorCode
from tests.support.topics import Topics

D = 3_000  # the initial delay
SESSION = 10_000
REBALANCE = 30_000
RANGE = (("range", b"m"),)


@dataclass(eq=False)
class Request:
    """A request on its way: `response` is None while it is parked, or while a record before it is not committed."""

    what: str
    responses: list[Any] = field(default_factory=list)

    @property
    def response(self) -> Any:
        return self.responses[0] if self.responses else None

    @property
    def error(self) -> ErrorCode | None:
        return None if self.response is None else ErrorCode(self.response.error_code)

    def answer(self, response: Any) -> None:
        self.responses.append(response)
        assert len(self.responses) == 1, f"{self.what} was answered twice"


class Core(Protocol):
    """What a `Shard` is to the driver."""

    groups: dict[str, Group]

    def handle(self, event: Input, now_ms: int, /) -> Outcome: ...

    def install(self, group_id: str, outcome: Outcome, /) -> None: ...

    def replay(self, key: Any, value: Any, producer_id: int, offset: int, /) -> None: ...


class ClassicCore:
    """The classic rules alone, without offsets."""

    def __init__(self, settings: GroupSettings, topics: Topics) -> None:
        self.settings = settings
        self.topics = topics
        self.groups: dict[str, Group] = {}

    def handle(self, event: Input, now_ms: int) -> Outcome:
        nothing: Mapping[Any, Any] = MappingProxyType({})
        view = View(event.key, self.groups.get(event.key), nothing, nothing, self.topics, self.settings)
        return rules.handle(view, event, now_ms)

    def install(self, group_id: str, outcome: Outcome) -> None:
        if outcome.after is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = outcome.after

    def replay(self, key: Any, value: Any, producer_id: int, offset: int) -> None:
        """The live group is not rebuilt from its records."""


class Driver:
    """One partition leader in virtual time. `core`: a `Shard`; by default the classic rules alone."""

    def __init__(
        self,
        settings: GroupSettings | None = None,
        topics: Topics | None = None,
        core: Core | None = None,
        group_id: str = "g",
    ) -> None:
        self.now_ms = 1_000_000
        self.settings = settings or GroupSettings()
        self.core = core or ClassicCore(self.settings, topics or Topics())
        self.group_id = group_id
        self.log: list[tuple[Any, Any]] = []
        self.timers: dict[tuple[str, ...], SetTimer] = {}
        self.events: list[GroupEvent] = []
        self.requests: list[Request] = []
        self._held: list[Outcome] | None = None
        self._refusals: list[ErrorCode] = []
        self._ids = 0

    # What there is

    @property
    def group(self) -> Group | None:
        return self.core.groups.get(self.group_id)

    @property
    def live(self) -> Group:
        """The group, which must exist."""
        group = self.group
        assert group is not None, "there is no group"
        return group

    @property
    def state(self) -> GroupState:
        return self.live.state

    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [event.kind for event in self.events]

    def last(self, kind: str) -> GroupEvent:
        """The newest event of a kind."""
        return next(event for event in reversed(self.events) if event.kind == kind)

    def timer_in(self, *key: str) -> int | None:
        """Milliseconds until `key` fires, for `("heartbeat", member)`, `("join",)` or `("sync",)`."""
        timer = self.timers.get((key[0], self.group_id, *key[1:]))
        return None if timer is None else timer.deadline_ms - self.now_ms

    # Requests

    def request(self, what: str) -> Request:
        """A fresh handle for an answer."""
        request = Request(what)
        self.requests.append(request)
        return request

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION,
        rebalance_timeout_ms: int = REBALANCE,
        version: int = 5,
        client_id: str = "c",
        client_host: str = "/127.0.0.1",
        reason: str | None = None,
    ) -> Request:
        self._ids += 1
        request = self.request(f"join {member_id or client_id}")
        self.feed(
            inputs.Join(
                self.group_id,
                member_id,
                instance_id,
                protocol_type,
                protocols,
                session_timeout_ms,
                rebalance_timeout_ms,
                version,
                inputs.fresh_member_id(instance_id, client_id, f"{self._ids:036d}") if not member_id else "",
                client_id,
                client_host,
                request,
                reason,
            )
        )
        return request

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 4,
    ) -> Request:
        request = self.request(f"sync {member_id}")
        self.feed(
            inputs.Sync(
                self.group_id,
                member_id,
                instance_id,
                generation,
                protocol_type,
                protocol_name,
                assignments or {},
                version,
                request,
            )
        )
        return request

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode | None:
        """The answer, or None when it waits for records that are on their way."""
        request = self.request(f"heartbeat {member_id}")
        self.feed(inputs.Heartbeat(self.group_id, member_id, instance_id, generation, request))
        return request.error

    def leave(self, *members: str | inputs.Leaver, version: int = 4) -> Request:
        request = self.request(f"leave {members}")
        leavers = [inputs.Leaver(member) if isinstance(member, str) else member for member in members]
        self.feed(inputs.Leave(self.group_id, leavers, version, request, "admin", "/127.0.0.9"))
        return request

    # Effects

    def feed(self, event: Input) -> Outcome:
        """What a leader does with one input, up to and including its replies if they need not wait."""
        before = self.core.groups.get(event.key)
        looked = repr(before)
        outcome = self.core.handle(event, self.now_ms)
        assert repr(before) == looked, "a rule changed the group that it was given"
        self.core.install(event.key, outcome)
        check_invariants(self.core.groups.get(event.key))
        assert bool(outcome.records) <= (outcome.token is not None), "records without a token"
        for timer in outcome.timers:
            if isinstance(timer, CancelTimer):
                self.timers.pop(timer.key, None)
            else:
                self.timers.pop(timer.key, None)  # set again, it goes to the back of its deadline
                self.timers[timer.key] = timer
        self.events.extend(outcome.events)
        self._check_causes(before, outcome)
        if self._held is not None:
            self._held.append(outcome)
        else:
            self._finish(outcome)
        return outcome

    def _check_causes(self, before: Group | None, outcome: Outcome) -> None:
        """Whoever begins a rebalance names one known cause, and none begins untold."""
        began = [event for event in outcome.events if event.kind == "rebalance_began"]
        for event in began:
            assert event.facts["trigger"] in TRIGGERS, event.facts
        was = before.rebalance.rebalance_id if before is not None and before.rebalance is not None else None
        now = outcome.after.rebalance if outcome.after is not None else None
        if now is not None and now.rebalance_id != was:
            assert began, "a rebalance that nobody told of"
        if outcome.after is not None and outcome.after.state is GroupState.PREPARING_REBALANCE:
            assert now is not None, "PreparingRebalance without a cause"

    def _finish(self, outcome: Outcome) -> None:
        if outcome.records and self._refusals:
            assert outcome.token is not None
            self.feed(AppendFailed(self._token_group(outcome), outcome.token, self._refusals.pop(0)))
            return
        producer_id = -1 if outcome.producer is None else outcome.producer[0]
        for key, value in outcome.records:
            self.core.replay(key, value, producer_id, len(self.log))
            self.log.append((key, value))
        for reply in outcome.replies:
            reply.to.answer(reply.response)
        if outcome.token is not None and outcome.token.resumes:
            self.feed(Appended(self._token_group(outcome), outcome.token))

    @staticmethod
    def _token_group(outcome: Outcome) -> str:
        group_id: str = getattr(outcome.token, "group_id", "") or getattr(outcome.after, "group_id", "")
        return group_id

    def hold_appends(self) -> None:
        """From now on nothing is committed, so that no reply leaves."""
        self._held = []

    def release_appends(self, *, refused: int = 0, error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """All that was held is committed; but the first `refused` of the outcomes with records make a batch that fails.

        Of such a batch the outcomes are taken back, the last first; then the answers that waited for it leave.
        """
        held, self._held = self._held or [], None
        batch: list[Outcome] = []
        while held and (refused or (batch and not held[0].records)):
            refused -= bool(held[0].records)
            batch.append(held.pop(0))
        for outcome in reversed(batch):
            if outcome.records:
                assert outcome.token is not None
                self.feed(AppendFailed(self._token_group(outcome), outcome.token, error))
        for outcome in batch:
            if not outcome.records:
                self._finish(outcome)
        for outcome in held:
            self._finish(outcome)

    def fail_appends(self, *errors: ErrorCode) -> None:
        """The next outcomes that have records are refused, one for each error."""
        self._refusals = list(errors)

    # Time

    def advance(self, ms: int) -> None:
        """Let time pass; what is due on the way happens at its moment."""
        end_ms = self.now_ms + ms
        while True:
            due = min(self.timers.values(), key=lambda timer: timer.deadline_ms, default=None)
            if due is None or due.deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due.deadline_ms)
            del self.timers[due.key]
            self.feed(due.then)
        self.now_ms = end_ms

    # Groups that are already somewhere

    def stable_group(self, *clients: str, static: tuple[str, ...] = (), **join: Any) -> list[str]:
        """Members with these client ids (`static`: with this instance id too), Stable at generation 1.

        The first is the leader. Each one's assignment is its client's name. Returns their ids.
        """
        ids = self.completing_group(*clients, static=static, **join)
        plan = {member_id: client.encode() for member_id, client in zip(ids, clients, strict=True)}
        for member_id in ids:
            self.sync(member_id, 1, plan if member_id == ids[0] else None)
        assert self.state is GroupState.STABLE and not self.live.pending_sync()
        self.events.clear()
        return ids

    def completing_group(self, *clients: str, static: tuple[str, ...] = (), **join: Any) -> list[str]:
        """As `stable_group`, but nobody has synced yet."""
        joins = [
            self.join(
                version=5 if client in static else 3,
                client_id=client,
                instance_id=client if client in static else None,
                **join,
            )
            for client in clients
        ]
        self.advance(2 * self.settings.initial_rebalance_delay_ms)
        assert self.state is GroupState.COMPLETING_REBALANCE
        self.events.clear()
        return [joined.response.member_id for joined in joins]


def check_invariants(group: Group | None) -> None:
    """What `coordinator.group` promises is always true."""
    if group is None:
        return
    members = group.members
    assert (group.leader_id is None) == (not members), "a group with members has a leader"
    assert not members or group.leader_id in members, "the leader is a member"
    assert group.state not in (GroupState.EMPTY, GroupState.DEAD) or not members
    parked_joins, votes, static = 0, dict[str, int](), dict[str, str]()
    for member_id, member in members.items():
        assert member.member_id == member_id
        parked_joins += member.parked_join is not None
        assert member.parked_sync is None or group.state is GroupState.COMPLETING_REBALANCE
        if member.instance_id:
            static[member.instance_id] = member_id
        for name in {name for name, _ in member.protocols}:
            votes[name] = votes.get(name, 0) + 1
    assert group.parked_join_count == parked_joins
    assert dict(group.protocol_votes) == votes
    assert dict(group.static_members) == static
    assert not group.pending_members.keys() & members.keys()
    preparing, completing = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
    assert group.state is preparing or not parked_joins
    syncs = group.state in (completing, GroupState.STABLE) and group.rebalance is not None
    late = [member for member in members.values() if syncs and member.synced_at_ms is None]
    assert group.pending_sync() == late
    assert group.pending_sync_count == len(late)
    assert group.state is completing or not group.assignment_in_flight
