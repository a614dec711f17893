"""The answers when no shard can take a request: the partition is not here, or it is being loaded.

Source: Kafka's GroupCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.checks import check_group_id
from coordinator.offsets.commit import all_partitions
from coordinator.offsets.inputs import (
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
)
from coordinator.outcome import Input, Reply
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeletableGroupResult
from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.offset_delete import OffsetDeleteResponse
from protocol.messages.offset_fetch import OffsetFetchResponseGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def unserved(request: Input, error: ErrorCode) -> Reply | None:
    """The answer to one of this package's requests; None when nobody waits for one."""
    answer = _ANSWERS.get(type(request))
    return None if answer is None else Reply(request.reply_to, answer(request, error))  # type: ignore[attr-defined]  # all in the table have one


_ANSWERS: Mapping[type[Input], Callable[[Any, ErrorCode], Any]] = {
    CommitOffsets: all_partitions,
    CommitTransactionalOffsets: lambda request, error: all_partitions(
        request, check_group_id(request.group_id) or error
    ),
    FetchOffsets: lambda request, error: OffsetFetchResponseGroup(group_id=request.group_id, error_code=error),
    DeleteOffsets: lambda request, error: OffsetDeleteResponse(error_code=check_group_id(request.group_id) or error),
    DeleteGroup: lambda request, error: DeletableGroupResult(group_id=request.group_id, error_code=error),
    DescribeGroup: lambda request, error: DescribedGroup(group_id=request.group_id, error_code=error),
}
