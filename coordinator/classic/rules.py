"""Which rule follows from which input. The shard looks here; so does whoever wants to know where to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic import expiry, heartbeat, inputs, join, leadership, leave, rebalance, replacement, sync, tokens
from coordinator.outcome import Appended, AppendFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from coordinator.outcome import AppendToken, Input
    from coordinator.view import GroupOutcome, View

    # (what there is, what happens, now in milliseconds) -> what follows.
    Rule: TypeAlias = Callable[[View, Any, int], GroupOutcome]


def handle(view: View, happening: Input, now_ms: int) -> GroupOutcome:
    """What follows for the group from one input of this package."""
    return RULES[type(happening)](view, happening, now_ms)


def appended(view: View, success: Appended, now_ms: int) -> GroupOutcome:
    """The records of one of this package's outcomes are committed."""
    return ON_APPENDED[type(success.token)](view, success, now_ms)


def append_failed(view: View, failure: AppendFailed, now_ms: int) -> GroupOutcome:
    """The records of one of this package's outcomes were refused."""
    return ON_APPEND_FAILED[type(failure.token)](view, failure, now_ms)


ON_APPENDED: dict[type[AppendToken], Rule] = {
    tokens.AssignmentToken: sync.assignment_written,
}

ON_APPEND_FAILED: dict[type[AppendToken], Rule] = {
    tokens.NewGroupToken: join.new_group_refused,
    tokens.EmptyGroupToken: leave.empty_group_refused,
    tokens.AssignmentToken: sync.assignment_refused,
    tokens.ReplacementToken: replacement.replacement_refused,
}

RULES: dict[type[Input], Rule] = {
    inputs.Join: join.join,
    inputs.Sync: sync.sync,
    inputs.Heartbeat: heartbeat.heartbeat,
    inputs.Leave: leave.leave,
    inputs.SessionExpired: expiry.session_expired,
    inputs.InitialDelayPassed: rebalance.initial_delay_passed,
    inputs.JoinTimedOut: rebalance.join_timed_out,
    inputs.SyncTimedOut: sync.sync_timed_out,
    inputs.GroupLoaded: leadership.loaded,
    inputs.Unload: leadership.unload,
    Appended: appended,
    AppendFailed: append_failed,
}
