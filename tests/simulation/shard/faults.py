"""Faults, planted one at a time: each must be found by the auditors within some histories, or the simulation sees less
than it says.

A fault changes one rule for as long as its context lasts. Many are what brokers have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from coordinator import loaded_records, loading, shard
from coordinator.classic import heartbeat as classic_heartbeat
from coordinator.classic import join as classic_join
from coordinator.classic import rebalance, replacement, sync
from coordinator.classic.draft import Draft as ClassicDraft
from coordinator.classic.inputs import GroupLoaded, Heartbeat, JoinTimedOut, Leave, SessionExpired, SyncTimedOut
from coordinator.classic.tokens import AssignmentToken
from coordinator.consumer import (
    classic_members,
    downgrade,
    epochs,
    heartbeat,
    members,
    offsets,
    reconcile,
    removal,
    target,
    upgrade,
)
from coordinator.consumer import draft as consumer_draft
from coordinator.consumer.group import NOTHING, UNREVOKED
from coordinator.consumer.inputs import RebalanceTimedOut
from coordinator.offsets import commit as commits
from coordinator.offsets.inputs import CommitOffsets
from coordinator.outcome import Outcome, Reply
from coordinator.shard import Shard
from coordinator.values import altered
from protocol.errors import ErrorCode
from tests.simulation.shard.world import GROUP, Leader

Fault = Callable[[], AbstractContextManager[Any]]

_NONE = ErrorCode.NONE


def _unless(check: Callable[..., ErrorCode], *forgiven: ErrorCode) -> Callable[..., ErrorCode]:
    """The check, without these results."""

    def looked(*arguments: Any, **named: Any) -> ErrorCode:
        error = check(*arguments, **named)
        return _NONE if error in forgiven else error

    return looked


def _nothing_happens(view: Any, event: Any, now_ms: int) -> Outcome[Any]:
    return Outcome(view.consumer_group or view.group)


def _rule(table: str, kind: type, rule: Callable[..., Any]) -> AbstractContextManager[Any]:
    return patch.dict(getattr(shard, table), {kind: rule})


def _both(table: str, other: str, kind: type, rule: Callable[..., Any]) -> AbstractContextManager[Any]:
    """For groups of either protocol."""
    both = ExitStack()
    both.enter_context(_rule(table, kind, rule))
    both.enter_context(_rule(other, kind, rule))
    return both


# Offsets


def commits_of_an_old_generation() -> AbstractContextManager[Any]:
    """A member that was away through a rebalance commits what another reads now."""
    return patch.object(commits, "check_commit", _unless(commits.check_commit, ErrorCode.ILLEGAL_GENERATION))


def commits_of_nobody() -> AbstractContextManager[Any]:
    """Who was expelled commits on."""
    return patch.object(commits, "check_commit", _unless(commits.check_commit, ErrorCode.UNKNOWN_MEMBER_ID))


def commit_believed_when_refused() -> AbstractContextManager[Any]:
    """The disk has refused the records, and the client is told that all is well."""

    def refused(view: Any, failure: Any, now_ms: int) -> Any:
        request = failure.token
        group = view.consumer_group or view.group
        return Outcome(group, (), (Reply(request.reply_to, commits.all_partitions(request, _NONE)),))

    return _both("_ON_APPEND_FAILED", "_ON_APPEND_FAILED_TO_CONSUMER_GROUPS", CommitOffsets, refused)


def older_commit_stays() -> AbstractContextManager[Any]:
    """Of two offsets for one partition the first counts."""
    real = Shard.replay

    def replay(self: Shard, key: Any, value: Any, producer_id: int = -1, offset: int = -1) -> None:
        if (key[1:3]) not in self.offsets.get(GROUP, {}):
            real(self, key, value, producer_id, offset)

    return patch.object(Shard, "replay", replay)


def committed_one_further() -> AbstractContextManager[Any]:
    """A partition's offset goes to its neighbour."""
    real = Shard.replay

    def replay(self: Shard, key: Any, value: Any, producer_id: int = -1, offset: int = -1) -> None:
        if type(key).__name__ == "OffsetCommitKey":
            key = key._replace(partition=key.partition ^ 1)
        real(self, key, value, producer_id, offset)

    return patch.object(Shard, "replay", replay)


# The leader and the log


def answers_before_records() -> AbstractContextManager[Any]:
    """Answers leave when they are decided. A crash then takes back what they said."""
    real = Leader._act

    def act(self: Leader, event: Any, outcome: Any) -> None:
        replies, outcome.replies = outcome.replies, ()
        real(self, event, outcome)
        self._finish(Outcome(None, replies=replies))

    return patch.object(Leader, "_act", act)


def last_batch_not_loaded() -> AbstractContextManager[Any]:
    """A load stops one record early."""
    real = Leader.start

    def start(self: Leader) -> None:
        self.log.keep(self.log.records[:-1])
        real(self)

    return patch.object(Leader, "start", start)


def cleaner_keeps_the_oldest() -> AbstractContextManager[Any]:
    """Of each key."""

    def compact(self: Leader) -> None:
        seen: set[Any] = set()
        kept = []
        for key, value in self.log.records:
            if (type(key), key) not in seen:
                seen.add((type(key), key))
                kept.append((key, value))
        self.log.keep(kept)

    return patch.object(Leader, "compact", compact)


def nobody_expected_after_a_load() -> AbstractContextManager[Any]:
    """Members of a loaded group have no sessions, so that the dead stay."""
    return _both("_RULES", "_RULES_OF_CONSUMER_GROUPS", GroupLoaded, _nothing_happens)


# Classic groups


def generation_stays() -> AbstractContextManager[Any]:
    """A rebalance ends at the generation at which it began."""
    real = rebalance._begin_generation

    def begin(draft: Any) -> None:
        draft.generation -= 1
        real(draft)

    return patch.object(rebalance, "_begin_generation", begin)


def generation_falls_at_a_load() -> AbstractContextManager[Any]:
    """The record's generation is read one too low."""
    real = loaded_records.group_of

    def group_of(group_id: str, value: Any) -> Any:
        return altered(real(group_id, value), generation=value.generation - 1)

    return patch.object(loaded_records, "group_of", group_of)


def rebalance_untold() -> AbstractContextManager[Any]:
    """Heartbeats do not say that the group rebalances."""
    checked = _unless(classic_heartbeat.check_heartbeat, ErrorCode.REBALANCE_IN_PROGRESS)
    return patch.object(classic_heartbeat, "check_heartbeat", checked)


def assignment_believed_when_refused() -> AbstractContextManager[Any]:
    """The leader's plan counts although its record was refused."""
    return _rule("_ON_APPEND_FAILED", AssignmentToken, sync.assignment_written)


def anybodys_plan() -> AbstractContextManager[Any]:
    """Whoever syncs first is taken for the leader, and followers plan nothing."""
    real = sync._park

    def park(draft: Any, request: Any) -> None:
        leader, draft.leader_id = draft.leader_id, request.member_id
        real(draft, request)
        draft.leader_id = leader

    return patch.object(sync, "_park", park)


def anothers_assignment() -> AbstractContextManager[Any]:
    """Members are told what their neighbour has to do."""
    real = sync._write_assignment

    def write(draft: Any, request: Any) -> None:
        plans = list(request.assignments.values())
        request = altered(request, assignments=dict(zip(request.assignments, plans[1:] + plans[:1], strict=True)))
        real(draft, request)

    return patch.object(sync, "_write_assignment", write)


def latecomers_get_nothing() -> AbstractContextManager[Any]:
    """Who had not asked when the plan was written has none."""
    real = sync.assignment_written

    def written(view: Any, success: Any, now_ms: int) -> Any:
        members = view.group.members if view.group else {}
        waiting = {name: plan for name, plan in success.token.assignments.items()
                   if name in members and members[name].parked_sync is not None}  # fmt: skip
        return real(view, altered(success, token=altered(success.token, assignments=waiting)), now_ms)

    return patch.dict(shard._ON_APPENDED, {AssignmentToken: written})


def session_never_ends() -> AbstractContextManager[Any]:
    """A silent member stays for ever, with what it had."""
    return _both("_RULES", "_RULES_OF_CONSUMER_GROUPS", SessionExpired, _nothing_happens)


def join_phase_never_ends() -> AbstractContextManager[Any]:
    """A rebalance waits for all that were there, dead or alive."""
    return _rule("_RULES", JoinTimedOut, _nothing_happens)


def sync_is_waited_for() -> AbstractContextManager[Any]:
    """A member that joins and never asks what it is to do keeps its place."""
    return _rule("_RULES", SyncTimedOut, _nothing_happens)


def leaving_does_nothing() -> AbstractContextManager[Any]:
    """Who leaves is told that all is well, and stays."""
    real = shard._RULES[Leave]

    def stays(view: Any, event: Any, now_ms: int) -> Any:
        return Outcome(view.group, replies=real(view, event, now_ms).replies)

    return _rule("_RULES", Leave, stays)


def heartbeats_do_not_count() -> AbstractContextManager[Any]:
    """A session is not restarted by the member's being alive."""

    def silent(rule: Any) -> Any:
        def ruled(view: Any, event: Any, now_ms: int) -> Any:
            outcome = rule(view, event, now_ms)
            outcome.timers = ()
            return outcome

        return ruled

    kinds = ("Heartbeat", "CommitOffsets")
    return patch.dict(shard._RULES, {k: silent(r) for k, r in shard._RULES.items() if k.__name__ in kinds})


def replaced_instance_has_nothing() -> AbstractContextManager[Any]:
    """A static member that comes back finds its assignment gone."""
    real = ClassicDraft.rename_member

    def rename(self: Any, old: Any, new: Any) -> None:
        real(self, old, altered(new, assignment=b""))

    return patch.object(replacement.Draft, "rename_member", rename)


def joined_in_silence() -> AbstractContextManager[Any]:
    """A newcomer in a Stable group is taken in without a rebalance."""
    real = classic_join.rebalance_or_complete

    def quietly(draft: Any, cause: Any, **named: Any) -> None:
        if draft.state.name != "STABLE":
            real(draft, cause, **named)

    return patch.object(classic_join, "rebalance_or_complete", quietly)


# Consumer groups


def stale_epochs_commit() -> AbstractContextManager[Any]:
    """An epoch that has passed is good for what another has now."""
    return patch.object(offsets, "check_commit", _unless(offsets.check_commit, ErrorCode.STALE_MEMBER_EPOCH,
                                                         ErrorCode.UNKNOWN_MEMBER_ID))  # fmt: skip


def freed_before_given_up() -> AbstractContextManager[Any]:
    """What a member must give up goes to the next one at once."""
    real = reconcile._compute

    def compute(member: Any, at: Any) -> Any:
        after = real(member, at)
        return altered(after, pending=NOTHING) if after.state == UNREVOKED else after

    return patch.object(reconcile, "_compute", compute)


def silence_is_consent() -> AbstractContextManager[Any]:
    """A heartbeat that does not say what its member owns is taken for owning nothing."""
    real = reconcile._still_owns

    def still_owns(owned: Any, partitions: Any) -> bool:
        return owned is not None and real(owned, partitions)

    return patch.object(reconcile, "_still_owns", still_owns)


def owned_by_others_given() -> AbstractContextManager[Any]:
    """A member gets its target whoever has it still."""
    real = heartbeat.reconcile

    def at_once(member: Any, at: Any) -> Any:
        return real(member, at._replace(owner_of=lambda _: None))

    return patch.object(heartbeat, "reconcile", at_once)


def member_goes_back() -> AbstractContextManager[Any]:
    """Who joins again under its id begins at epoch 0, which its answer says."""
    real = heartbeat.heard

    def heard(member_id: str, epoch: int, *more: Any) -> Any:
        return real(member_id, max(epoch - 1, 0) if epoch > 4 else epoch, *more)

    return patch.object(heartbeat, "heard", heard)


def rebalance_timer_ignored() -> AbstractContextManager[Any]:
    """A member that does not give up what it must holds the others up for ever."""
    return _rule("_RULES_OF_CONSUMER_GROUPS", RebalanceTimedOut, _nothing_happens)


def target_forgets_the_last() -> AbstractContextManager[Any]:
    """The assignor leaves a partition out."""
    real = target.compute

    def compute(assignor: Any, spec: Any) -> Any:
        dealt = real(assignor, spec)
        return {member_id: {t: p[:-1] if len(p) > 1 else p for t, p in owned.items()} for member_id, owned in
                dealt.items()}  # fmt: skip

    return patch.object(target, "compute", compute)


def target_gives_twice() -> AbstractContextManager[Any]:
    """The assignor gives partition 0 to everybody."""
    real = target.compute

    def compute(assignor: Any, spec: Any) -> Any:
        dealt = real(assignor, spec)
        return {member_id: {t: tuple(sorted({0, *p})) for t, p in owned.items()} for member_id, owned in dealt.items()}

    return patch.object(target, "compute", compute)


def target_ahead_of_its_group() -> AbstractContextManager[Any]:
    """A target is written down for an epoch that the group has not."""
    real = target.target_epoch_record
    return patch.object(target, "target_epoch_record", lambda group_id, epoch, ms: real(group_id, epoch + 1, ms))


def target_of_members_that_went() -> AbstractContextManager[Any]:
    """What a member shall own stays its own when it goes."""
    real = removal.member_tombstones

    def tombstones(group_id: str, member_id: str) -> Any:
        return [record for record in real(group_id, member_id) if "TargetAssignment" not in type(record[0]).__name__]

    return patch.object(removal, "member_tombstones", tombstones)


def epoch_stays_when_somebody_goes() -> AbstractContextManager[Any]:
    """The others are never given what a member leaves behind."""
    return patch.object(removal, "update_epoch", lambda *_: None)


def growth_unseen() -> AbstractContextManager[Any]:
    """New partitions raise no epoch."""
    return patch.object(epochs, "metadata_hash", lambda *_: 7)


def refused_and_kept() -> AbstractContextManager[Any]:
    """Records were refused, and memory keeps what they said."""

    def keep(view: Any, failure: Any, now_ms: int) -> Any:
        token = failure.token
        replies = () if token.refusal is None else (Reply(token.reply_to, token.refusal(failure.error)),)
        return Outcome(view.consumer_group or view.group, (), replies)

    return _rule("_ON_APPEND_FAILED_TO_CONSUMER_GROUPS", consumer_draft.ConsumerToken, keep)


def static_member_loses_its_target() -> AbstractContextManager[Any]:
    """Who comes back with an instance id has nothing to come back to."""
    return patch.object(members, "target_record", lambda group_id, member_id, _: target.target_record(
        group_id, member_id, NOTHING))  # fmt: skip


def tombstones_not_loaded() -> AbstractContextManager[Any]:
    """Members that went are there again after a load."""
    real = loading.load_record

    def load(shard: Any, folds: Any, loaded: Any, key: Any, value: Any, *more: Any) -> None:
        if value is not None:
            real(shard, folds, loaded, key, value, *more)

    @contextmanager
    def record_by_record() -> Iterator[None]:
        from tests.simulation.shard import world

        def replay(shard: Any, chunks: Any) -> Any:
            return loading.replay_log(shard, chunks())

        with patch.object(loading, "load_record", load), patch.object(world, "load", replay):
            yield

    return record_by_record()


# Groups that change their protocol


def upgrade_takes_everything() -> AbstractContextManager[Any]:
    """A group that becomes a consumer group forgets what its members read."""
    return patch.object(upgrade, "assigned_partitions", lambda _: ())


def upgrade_begins_anew() -> AbstractContextManager[Any]:
    """Its epoch is not its generation."""
    real = upgrade._member

    def member(draft: Any, one: Any, protocol: Any, epoch: int) -> Any:
        return altered(real(draft, one, protocol, epoch), epoch=1, previous_epoch=1)

    return patch.object(upgrade, "_member", member)


def upgrade_in_a_rebalance_unnoticed() -> AbstractContextManager[Any]:
    """A static member that changes its protocol then raises no epoch, as in Kafka."""
    return patch.object(heartbeat, "_unsettled_causes", lambda *_: [])


def growth_unseen_by_classic_members() -> AbstractContextManager[Any]:
    """Alone in a consumer group, as in Kafka."""
    return patch.object(classic_members, "nobody_else_finds_the_target", lambda _: False)


def classic_members_untold() -> AbstractContextManager[Any]:
    """A classic member of a consumer group is never told to join again."""
    real = classic_members.heartbeat

    def told(view: Any, event: Any, now_ms: int) -> Any:
        outcome = real(view, event, now_ms)
        for reply in outcome.replies:
            if reply.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                reply.response.error_code = _NONE
        return outcome

    return _rule("_RULES_OF_CONSUMER_GROUPS", Heartbeat, told)


def downgrade_without_a_rebalance() -> AbstractContextManager[Any]:
    """What the last member of the new protocol had is nobody's."""
    return patch.object(downgrade, "prepare", lambda *_: None)


def downgrade_keeps_nothing() -> AbstractContextManager[Any]:
    """Members of a group that becomes a classic one have no assignments."""
    return patch.object(downgrade, "_assignment", lambda *_: b"")


def downgrade_goes_back() -> AbstractContextManager[Any]:
    """Its generation is not its epoch."""
    real = downgrade.Group

    def group(*fields: Any, **named: Any) -> Any:
        return altered(real(*fields, **named), generation=1)

    return patch.object(downgrade, "Group", group)


BOTH: tuple[Fault, ...] = (
    commit_believed_when_refused,
    older_commit_stays,
    committed_one_further,
    answers_before_records,
    last_batch_not_loaded,
    cleaner_keeps_the_oldest,
    nobody_expected_after_a_load,
    session_never_ends,
)
CLASSIC: tuple[Fault, ...] = (
    commits_of_an_old_generation,
    commits_of_nobody,
    generation_stays,
    generation_falls_at_a_load,
    rebalance_untold,
    assignment_believed_when_refused,
    anybodys_plan,
    anothers_assignment,
    latecomers_get_nothing,
    join_phase_never_ends,
    sync_is_waited_for,
    leaving_does_nothing,
    heartbeats_do_not_count,
    replaced_instance_has_nothing,
    joined_in_silence,
)
CONSUMER: tuple[Fault, ...] = (
    stale_epochs_commit,
    freed_before_given_up,
    silence_is_consent,
    owned_by_others_given,
    member_goes_back,
    rebalance_timer_ignored,
    target_forgets_the_last,
    target_gives_twice,
    target_ahead_of_its_group,
    target_of_members_that_went,
    epoch_stays_when_somebody_goes,
    growth_unseen,
    refused_and_kept,
    static_member_loses_its_target,
    tombstones_not_loaded,
)
MIGRATING: tuple[Fault, ...] = (
    upgrade_takes_everything,
    upgrade_begins_anew,
    upgrade_in_a_rebalance_unnoticed,
    growth_unseen_by_classic_members,
    classic_members_untold,
    downgrade_without_a_rebalance,
    downgrade_keeps_nothing,
    downgrade_goes_back,
)
PLANTED = {
    **{f"classic/{fault.__name__}": fault for fault in (*BOTH, *CLASSIC)},
    **{f"consumer/{fault.__name__}": fault for fault in (*BOTH, *CONSUMER)},
    **{f"migrating/{fault.__name__}": fault for fault in MIGRATING},
}
