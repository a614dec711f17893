"""Which rule answers which input, and which one hears that records were refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.offsets.commit import commit_offsets, commit_refused
from coordinator.offsets.delete import (
    delete_group,
    delete_offsets,
    forget_topics,
    group_removal_refused,
    offset_delete_refused,
    tombstones_refused,
)
from coordinator.offsets.describe import describe_group
from coordinator.offsets.expiry import expire_offsets
from coordinator.offsets.fetch import fetch_offsets
from coordinator.offsets.inputs import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    ExpireOffsets,
    FetchOffsets,
    ForgetTopics,
    GroupExpired,
    GroupRemoved,
    Tombstones,
)
from coordinator.offsets.transactional import commit_transactional_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinator.outcome import AppendFailed, AppendToken, Input
    from coordinator.view import GroupOutcome, View

RULES: Mapping[type[Input], Callable[[View, Any, int], GroupOutcome]] = {
    CommitOffsets: commit_offsets,
    CommitTransactionalOffsets: commit_transactional_offsets,
    FetchOffsets: fetch_offsets,
    DeleteOffsets: delete_offsets,
    DeleteGroup: delete_group,
    DescribeGroup: describe_group,
    ExpireOffsets: expire_offsets,
    ForgetTopics: forget_topics,
}

ON_APPEND_FAILED: Mapping[type[AppendToken], Callable[[View, AppendFailed, int], GroupOutcome]] = {
    CommitOffsets: commit_refused,
    CommitTransactionalOffsets: commit_refused,
    DeleteOffsets: offset_delete_refused,
    GroupRemoved: group_removal_refused,
    GroupExpired: group_removal_refused,
    Tombstones: tombstones_refused,
}
