"""Which rule follows from which input of a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.classic import inputs as classic
from coordinator.consumer import (
    classic_members,
    describe,
    draft,
    expiry,
    heartbeat,
    inputs,
    leadership,
    offsets,
    regexes,
    target,
)
from coordinator.offsets import inputs as offset_inputs
from coordinator.offsets.delete import forget_topics
from coordinator.outcome import AppendToken, Input

if TYPE_CHECKING:
    from typing import TypeAlias

    from coordinator.view import AnyGroupOutcome, View

    Rule: TypeAlias = Callable[[View, Any, int], AnyGroupOutcome]
"""(what there is, what happens, now in milliseconds) -> what follows."""

RULES: Mapping[type[Input], Rule] = {
    inputs.ConsumerHeartbeat: heartbeat.consumer_heartbeat,
    inputs.DescribeConsumerGroup: describe.describe_consumer_group,
    inputs.RebalanceTimedOut: expiry.rebalance_timed_out,
    inputs.ClassicMemberTimedOut: classic_members.classic_member_timed_out,
    inputs.RegexesResolved: regexes.regexes_resolved,
    inputs.TargetComputed: target.target_computed,
}
"""Inputs that are of this protocol alone. They meet groups of either kind, and none."""

RULES_OF_CONSUMER_GROUPS: Mapping[type[Input], Rule] = {
    classic.Join: classic_members.join,
    classic.Sync: classic_members.sync,
    classic.Heartbeat: classic_members.heartbeat,
    classic.Leave: classic_members.leave,
    classic.SessionExpired: expiry.session_expired,
    classic.InitialDelayPassed: classic_members.late_tick,
    classic.JoinTimedOut: classic_members.late_tick,
    classic.SyncTimedOut: classic_members.late_tick,
    classic.GroupLoaded: leadership.loaded,
    classic.Unload: leadership.unload,
    offset_inputs.CommitOffsets: offsets.commit,
    offset_inputs.CommitTransactionalOffsets: offsets.commit_transactional,
    offset_inputs.FetchOffsets: offsets.fetch,
    offset_inputs.DeleteOffsets: offsets.delete_offsets,
    offset_inputs.DeleteGroup: offsets.delete_group,
    offset_inputs.ExpireOffsets: offsets.expire_offsets,
    offset_inputs.ForgetTopics: offsets.keeping(forget_topics),
    offset_inputs.DescribeGroup: offsets.describe_as_classic,
}
"""What other inputs do to a consumer group."""

ON_APPEND_FAILED: Mapping[type[AppendToken], Rule] = {
    draft.ConsumerToken: draft.refused,
    offsets.ConsumerGroupExpired: draft.refused,
    classic_members.ClassicAgain: classic_members.classic_again_refused,
}
