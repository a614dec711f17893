"""What must be true of every history, looked at from the leader's side and from its clients'.

- No partition has two owners whose epochs allow it: within a generation, and between members of the new protocol.
- A member never goes backwards; nor do the epochs of a group, over crashes too.
- A commit that is accepted came from the owner of its epoch; what is committed never falls back.
- What was answered is there after a crash, and memory is what the log says.
- Every request is answered once (`world.Leader`); what the rules promise of a group holds after every input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.inputs import Join, Leave, Sync
from coordinator.consumer.epoch_rebalance import NO_TRACKING
from coordinator.consumer.group import UNREVOKED, ConsumerGroup, plain
from coordinator.consumer.inputs import ConsumerHeartbeat
from coordinator.group import Group, GroupState
from coordinator.offsets.inputs import CommitOffsets, FetchOffsets
from coordinator.outcome import AppendFailed
from coordinator.values import altered
from protocol.errors import ErrorCode
from protocol.records.group_records import GroupMetadataKey, OffsetCommitKey
from tests.coordinator.driver import check_invariants
from tests.simulation.shard.classic import REBALANCE_MS as CLASSIC_REBALANCE_MS
from tests.simulation.shard.consumer import REBALANCE_MS as CONSUMER_REBALANCE_MS
from tests.simulation.shard.consumer import ConsumerMember
from tests.simulation.shard.world import GROUP, Leader, Request, number, number_of_id, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.simulation.shard.clients import Client

_NONE = ErrorCode.NONE


class Auditor:
    """All of them. `errors` are those that members were answered since `calm` was set."""

    def __init__(self, leader: Leader, clients: list[Client]) -> None:
        self.leader = leader
        self.clients = clients
        self.calm = False
        self.errors: list[str] = []
        self.committed: dict[int, int] = {}  # as the log says
        self.acknowledged: dict[int, int] = {}  # as clients were told
        self.plans: dict[int, dict[str, frozenset[int]]] = {}  # generation -> what its leader wrote
        self.told: dict[int, dict[str, frozenset[int]]] = {}  # generation -> what members were told
        self.generation = -1  # the last that somebody was told to read in
        self.epochs: dict[str, int] = {}  # of members, as they were told
        self.group_epochs = (0, 0)
        self.recorded = True  # no record of the classic group was refused since the last one that was written
        self.rebalances = 0
        self.seen: Any = None  # the group that was looked at last: groups are values, which stay as they are
        self.loaded_at_ms = -1
        self.unsure_until_ms = 0
        self.back_at_ms = 0  # a change of protocol was refused, and everybody has all its time again
        self.forgotten: Any = None  # what was known of the group before it became another of that name
        self.revoking_since_ms: dict[str, tuple[Any, int]] = {}

    # The leader's side

    def handled(self, event: Any, outcome: Any) -> None:
        """Before the outcome takes effect."""
        before = self.leader.group
        if isinstance(event, CommitOffsets):
            event.reply_to.noted = self._owner_problem(before, event)
        elif isinstance(event, FetchOffsets):
            event.reply_to.noted = dict(self.acknowledged)
        elif isinstance(event, Sync):
            event.reply_to.noted = type(before)
            if isinstance(before, Group):
                self._plan(before, event, outcome)
        after = outcome.after
        seen, self.seen = self.seen, after
        if isinstance(after, ConsumerGroup):
            if after is not seen:
                self._check_consumer_group(after)
            self._check_revoking(after)
        elif after is not None:
            if after is not seen:
                check_invariants(after)
            self._check_waiting(after)
        if isinstance(event, AppendFailed) and isinstance(before, Group):
            self.recorded = False
        if isinstance(event, AppendFailed) and isinstance(after, ConsumerGroup):
            # Nobody was told of the epochs that are taken back, and they will be others.
            for known in (self.plans, self.told):
                for epoch in [epoch for epoch in known if epoch > after.epoch]:
                    del known[epoch]
        if isinstance(before, Group) and isinstance(after, Group) and after.generation > before.generation:
            self.rebalances += 1
        if before is not None and after is not None and type(before) is not type(after):
            if isinstance(event, AppendFailed):
                self._come_back(after)  # it had spoken the other one too early
            else:
                self._migrated(before, after)

    def _migrated(self, before: Any, after: Any) -> None:
        """The group speaks the other protocol now. An empty one keeps nothing, its epochs neither."""
        if not before.members or not after.members:
            self._forget(before)
        elif isinstance(after, Group) and isinstance(before, ConsumerGroup):
            assert after.generation >= before.epoch, "the generation is behind the epochs of the members"
            decode = self.leader.decode
            plan = {member_id: frozenset(decode(one.assignment)) for member_id, one in after.members.items()}
            for instance_id, member_id in after.static_members.items():
                plan[instance_id] = plan[member_id]
            if after.generation > before.epoch:
                return  # somebody leads it already, and plans anew
            self.plans[after.generation] = plan
            told = {
                member_id: frozenset(numbered(member.assigned) | numbered(member.pending))
                for member_id, member in before.members.items()
                if member.epoch == after.generation
            }
            if told:
                self.told[after.generation] = told
        elif isinstance(after, ConsumerGroup) and isinstance(before, Group):
            assert after.epoch >= before.generation, "the epoch is behind the generation of the members"

    def _come_back(self, group: Any) -> None:
        if self.forgotten is not None:
            known_as, *known = self.forgotten
            if group is not None and _identity(group) == known_as:
                self.generation, self.plans, self.told, self.epochs = known
            self.forgotten = None
        self.back_at_ms = self.leader.clock.now_ms
        self.revoking_since_ms = {}
        self.unsure_until_ms = self.leader.clock.now_ms + 1_000

    def _forget(self, before: Any) -> None:
        self.forgotten = _identity(before), self.generation, self.plans, self.told, self.epochs
        self.generation = -1
        self.plans, self.told, self.epochs = {}, {}, {}
        # Answers of before may still be on their way, and a crash or a refusal may bring the group of before back.
        self.unsure_until_ms = self.leader.clock.now_ms + 1_000

    @property
    def unsure(self) -> bool:
        """Whether nobody can say which of two groups of the same name an answer is of."""
        return self.leader.clock.now_ms < self.unsure_until_ms

    def _check_waiting(self, group: Group) -> None:
        """Nobody waits for longer than the members' rebalance timeout, whoever does not do as it should."""
        now_ms, slack_ms = self.leader.clock.now_ms, 500
        since_ms = group.state_timestamp_ms
        if group.state is GroupState.PREPARING_REBALANCE:
            waits = [one.joined_at_ms for one in group.members.values() if one.parked_join is not None]
            oldest_ms = max(min((at for at in waits if at is not None), default=now_ms), self.back_at_ms)
            assert now_ms - oldest_ms <= CLASSIC_REBALANCE_MS + slack_ms, "a join phase has no end"
        elif group.pending_sync_count and since_ms is not None and self.loaded_at_ms < since_ms:
            joined_ms = group.rebalance.joined_at_ms if group.rebalance is not None else None
            if joined_ms is not None:
                waits_ms = now_ms - max(joined_ms, self.back_at_ms)
                assert waits_ms <= CLASSIC_REBALANCE_MS + slack_ms, "a member that never syncs stays"

    def _check_revoking(self, group: ConsumerGroup) -> None:
        """Nobody keeps what it must give up for longer than its rebalance timeout."""
        now_ms, slack_ms = self.leader.clock.now_ms, 500
        since_ms, self.revoking_since_ms = self.revoking_since_ms, {}
        for member_id, member in group.members.items():
            if member.state == UNREVOKED and not member.is_away:
                before = since_ms.get(member_id)
                began_ms = before[1] if before is not None and before[0] is member.pending else now_ms
                self.revoking_since_ms[member_id] = member.pending, began_ms
                assert now_ms - began_ms <= CONSUMER_REBALANCE_MS + slack_ms, f"{member_id} does not give up"

    def _plan(self, group: Group, event: Sync, outcome: Any) -> None:
        if outcome.records:
            plan = {
                member_id: frozenset(self.leader.decode(partitions))
                for member_id, partitions in event.assignments.items()
            }
            assert event.member_id == group.leader_id, "a follower's plan was taken"
            # A leader's record may be refused, and its generation's plan come again; never after somebody was told.
            if event.generation not in self.told:
                self.plans[event.generation] = plan
                for instance_id, member_id in group.static_members.items():
                    plan[instance_id] = plan.get(member_id, frozenset())

    def _owner_problem(self, group: Any, event: CommitOffsets) -> str | None:
        """Why this commit must not be accepted; None when it may."""
        if self.unsure and not isinstance(group, ConsumerGroup):
            return None
        partitions = {number(t.name, partition.partition_index) for t in event.topics for partition in t.partitions}
        if isinstance(group, ConsumerGroup):
            member = group.members.get(event.member_id)
            if member is None:
                return "it is no member"
            held = numbered(member.assigned) | numbered(member.pending)
            return None if partitions <= held else f"it holds {held}"
        if event.generation < self.generation:
            return f"generation {self.generation} has been told what to read"
        own = self.told.get(event.generation, {}).get(event.member_id, frozenset())
        return None if partitions <= own else f"it was told {set(own)}"

    def _check_consumer_group(self, group: ConsumerGroup) -> None:
        owners: dict[int, str] = {}
        shall: dict[int, str] = {}
        for member in group.members.values():
            assert member.epoch <= group.target_epoch <= group.epoch, "an epoch is ahead of the one it follows"
            for partition in (*numbered(member.assigned), *numbered(member.pending)):
                assert partition not in owners, f"{partition} is {owners[partition]}'s and {member.member_id}'s"
                owners[partition] = member.member_id
        assert {number_of_id(*at): owner for at, owner in group.owners.items()} == owners
        for member_id, target in group.targets.items():
            assert member_id in group.members, f"{member_id} is gone and has a target"
            for partition in numbered(target):
                assert partition not in shall, f"{partition} is in two targets"
                shall[partition] = member_id

    def appended(self, key: Any, value: Any) -> None:
        """A record is in the log."""
        if isinstance(key, GroupMetadataKey):
            self.recorded = True
        if isinstance(key, OffsetCommitKey):
            at = number(key.topic, key.partition)
            if value is None:
                self.committed.pop(at, None)
                return
            before = self.committed.get(at, 0)
            assert value.offset >= before, f"{at} fell from {before} to {value.offset}"
            self.committed[at] = value.offset

    # What clients are told

    def answered(self, request: Request, response: Any) -> None:
        """An answer leaves."""
        event = request.input
        if isinstance(event, CommitOffsets):
            self._commit_answered(event, response)
        elif isinstance(event, FetchOffsets):
            self._fetch_answered(request, response)
        elif response.error_code is not _NONE and response.error_code != _NONE:
            self._refused(event, ErrorCode(response.error_code))
        elif isinstance(event, Sync):
            self._sync_answered(event, response)
        elif isinstance(event, Join):
            assert self.unsure or response.generation_id >= self.generation, "a generation came back"
            if isinstance(self.leader.group, ConsumerGroup):
                self._came_to(response.member_id, response.generation_id)
        elif isinstance(event, Leave):
            group = self.leader.group
            for leaver in event.members:
                assert group is None or leaver.member_id not in group.members, f"{leaver} is still there"
        elif isinstance(event, ConsumerHeartbeat):
            self._heartbeat_answered(event, response)

    def _refused(self, event: Any, error: ErrorCode) -> None:
        if self.calm:
            self.errors.append(f"{type(event).__name__} of {getattr(event, 'member_id', '')}: {error.name}")

    def _commit_answered(self, event: CommitOffsets, response: Any) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code != _NONE:
                    self._refused(event, ErrorCode(partition.error_code))
                    return
        problem = event.reply_to.noted
        assert problem is None, f"{event.member_id} at {event.generation} committed, although {problem}"
        for topic in event.topics:
            for stored in topic.partitions:
                at = number(topic.name, stored.partition_index)
                self.acknowledged[at] = max(self.acknowledged.get(at, 0), stored.committed_offset)

    def _fetch_answered(self, request: Request, response: Any) -> None:
        if response.error_code != _NONE:
            self._refused(request.input, ErrorCode(response.error_code))
            return
        for topic in response.topics:
            for partition in topic.partitions:
                at = number(topic.name, partition.partition_index)
                known, offset = request.noted.get(at, -1), partition.committed_offset
                assert offset >= known, f"{at} was committed up to {known}, told {offset}"

    def _sync_answered(self, event: Sync, response: Any) -> None:
        generation, partitions = event.generation, frozenset(self.leader.decode(response.assignment))
        if self.unsure:
            self.told.setdefault(generation, {})[event.member_id] = partitions
            return
        if isinstance(self.leader.group, ConsumerGroup):
            self._nobody_else_reads(event.member_id, generation, set(partitions), self.leader.group)
            return
        if event.reply_to.noted is ConsumerGroup:
            return  # it was asked of a group that was one still, and its members are to join again
        assert generation >= self.generation, f"{generation} was told what to read, after {self.generation}"
        self.generation = generation
        told = self.told.setdefault(generation, {})
        planned = self.plans.get(generation, {})
        own = planned.get(event.instance_id or event.member_id, frozenset())
        assert partitions == own, f"{event.member_id} was told another's"
        holder_of = {holder: mine for holder, mine in told.items() if holder != event.member_id and partitions & mine}
        for holder in holder_of:
            # The one whose instance it has taken over is out.
            group = self.leader.group
            assert isinstance(group, Group)
            assert holder not in group.members, f"{event.member_id} and {holder} read the same in {generation}"
        assert told.get(event.member_id, partitions) == partitions, "a generation was told two things"
        told[event.member_id] = partitions

    def _heartbeat_answered(self, event: ConsumerHeartbeat, response: Any) -> None:
        if event.epoch < 0:
            return
        member_id, epoch = response.member_id, response.member_epoch
        self._came_to(member_id, epoch)
        group = self.leader.group
        if response.assignment is None or not isinstance(group, ConsumerGroup):
            return
        told = numbered({topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions})
        self._nobody_else_reads(member_id, epoch, told, group)

    def _came_to(self, member_id: str, epoch: int) -> None:
        if not self.unsure:
            known = self.epochs.get(member_id, 0)
            assert epoch >= known, f"{member_id} was at {known}, is told {epoch}"
            self.epochs[member_id] = epoch

    def _nobody_else_reads(self, member_id: str, epoch: int, told: set[int], group: ConsumerGroup) -> None:
        for other in self.clients:
            if not other.alive or other.member_id == member_id:
                continue
            member = group.members.get(other.member_id)
            if member is None or other.epoch not in (member.epoch, member.previous_epoch) or other.epoch == 0:
                continue  # it may do nothing any more, which its next answer says
            both = told & (other.held if isinstance(other, ConsumerMember) else other.owned.keys())
            assert not both, f"{member_id} at {epoch} and {other.member_id} at {other.epoch} read {both}"

    # Crashes

    def loaded(self) -> None:
        """A new shard was made of the log."""
        self.loaded_at_ms = self.leader.clock.now_ms
        self.recorded = True
        self.revoking_since_ms = {}
        offsets = {number(*key): stored.offset for key, stored in self.leader.shard.offsets.get(GROUP, {}).items()}
        for partition, offset in self.acknowledged.items():
            assert offsets.get(partition, -1) >= offset, f"{partition} was committed up to {offset}, is {offsets}"
        self.committed = offsets
        group = self.leader.group
        if self.unsure:
            self._come_back(group)
        if isinstance(group, Group):
            check_invariants(group)
            assert self.unsure or group.generation >= self.generation, f"generation {self.generation} is lost"
            if group.generation == self.generation:
                self._check_loaded_members(group)
        elif isinstance(group, ConsumerGroup):
            self._check_consumer_group(group)
            for member_id, member in group.members.items():
                known = self.epochs.get(member_id, 0)
                assert self.unsure or member.epoch < 0 or member.epoch >= known, (
                    f"{member_id} was at {known}, is at {member.epoch}"
                )

    def _check_loaded_members(self, group: Group) -> None:
        for member_id, partitions in self.told.get(self.generation, {}).items():
            member = group.members.get(member_id)
            if member is not None:
                mine = frozenset(self.leader.decode(member.assignment))
                assert mine == partitions, f"{member_id} was told {set(partitions)}"

    def compare(self, live: Any, loaded: Any) -> None:
        """A group and what the log makes of it, while nothing is on its way."""
        if isinstance(live, ConsumerGroup):
            unwritten = {
                "hashed_topics": None,
                "regexes_requested_at_ms": None,
                "computing_epoch": None,
                "join_timers": {},
            }
            durable = altered(live, **unwritten, tracking=NO_TRACKING)
            assert durable == loaded, f"{durable} is {loaded} in the log"
        elif isinstance(live, Group) and live.state in (GroupState.STABLE, GroupState.EMPTY) and self.recorded:
            if live.protocol_type is None or not live.generation:
                return
            assert isinstance(loaded, Group)
            assert (live.generation, live.state) == (loaded.generation, loaded.state)
            mine = {one.member_id: (one.instance_id, one.assignment) for one in live.members.values()}
            assert mine == {one.member_id: (one.instance_id, one.assignment) for one in loaded.members.values()}


def _identity(group: Any) -> tuple[object, ...]:
    """What tells a group from another of its name."""
    return type(group), group.epoch if isinstance(group, ConsumerGroup) else group.generation, set(group.members)


def held_by(group: Any, decode: Callable[[bytes], Iterable[int]]) -> set[int]:
    """The partitions that anybody owns."""
    if isinstance(group, ConsumerGroup):
        return {p for member in group.members.values() for p in numbered(plain(member.assigned))}
    return {p for member in group.members.values() for p in decode(member.assignment)}
