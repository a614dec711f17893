"""Everything that can happen to a group's offsets, one value per cause; and the questions about groups as a whole.

Requests arrive here with their topics already sorted out by `topic_filter`: `topics` are those that the coordinator
is to look at, `refused` the answers for the others.

An input that writes is its own token: when its records are refused, all of the request is needed again to answer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coordinator.outcome import AppendToken, GroupInput, ReplyTo

if TYPE_CHECKING:
    from coordinator.group import Group
    from protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
    from protocol.messages.offset_delete import OffsetDeleteRequestTopic, OffsetDeleteResponseTopic
    from protocol.messages.offset_fetch import OffsetFetchRequestTopics, OffsetFetchResponseTopics


@dataclass(slots=True)
class CommitOffsets(GroupInput, AppendToken):
    """OffsetCommit. Answered with an `OffsetCommitResponse`."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    topics: Sequence[OffsetCommitRequestTopic]  # named, also in version 10
    version: int
    retention_ms: int  # versions 2-4; -1: the broker's retention
    reply_to: ReplyTo
    refused: Sequence[OffsetCommitResponseTopic] = ()
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class CommitTransactionalOffsets(CommitOffsets):
    """TxnOffsetCommit. Answered with an `OffsetCommitResponse`, which the edge makes a TxnOffsetCommitResponse of.

    The producer was verified: its transaction is open, and the partition of the group belongs to it.
    """

    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class FetchOffsets(GroupInput):
    """OffsetFetch of one group. Answered with an `OffsetFetchResponseGroup`, whatever the version."""

    reads_appended: ClassVar[bool] = True
    group_id: str
    topics: Sequence[OffsetFetchRequestTopics] | None  # None: all that have offsets
    require_stable: bool
    by_id: bool  # version 10: topics are named by id, and a stored value must have that id
    reply_to: ReplyTo
    refused: Sequence[OffsetFetchResponseTopics] = ()
    member_id: str | None = None  # None and -1: nobody's, as before version 9
    member_epoch: int = -1


@dataclass(slots=True)
class DeleteOffsets(GroupInput, AppendToken):
    """OffsetDelete. Answered with an `OffsetDeleteResponse`."""

    reads_appended: ClassVar[bool] = True
    group_id: str
    topics: Sequence[OffsetDeleteRequestTopic]
    reply_to: ReplyTo
    refused: Sequence[OffsetDeleteResponseTopic] = ()
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class DeleteGroup(GroupInput):
    """One group of a DeleteGroups. Answered with a `DeletableGroupResult`."""

    reads_appended: ClassVar[bool] = True
    group_id: str
    reply_to: ReplyTo
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True)
class DescribeGroup(GroupInput):
    """One group of a DescribeGroups. Answered with a `DescribedGroup`."""

    group_id: str
    version: int
    reply_to: ReplyTo


@dataclass(slots=True)
class ExpireOffsets(GroupInput):
    """The retention check comes to this group."""

    reads_appended: ClassVar[bool] = True
    group_id: str


@dataclass(slots=True)
class ForgetTopics(GroupInput):
    """Topics were deleted: the group's offsets for them go too."""

    reads_appended: ClassVar[bool] = True
    group_id: str
    topic_ids: dict[str, bytes]  # name -> the id that the deleted topic had


@dataclass(slots=True)
class GroupRemoved(AppendToken):
    """A group was removed; refused, it is there again unless another has taken its name."""

    group_id: str
    group: Group | None  # as it was
    reply_to: ReplyTo | None = None  # of the DeleteGroups; None: nobody asked


@dataclass(slots=True)
class GroupExpired(GroupRemoved):
    """As `GroupRemoved`, by the retention check: nobody waits, and half of it is as good as none."""

    divisible: ClassVar[bool] = True


@dataclass(slots=True)
class Tombstones(AppendToken):
    """Offsets were expired or their topic deleted. Refused, the next check finds them again."""

    divisible: ClassVar[bool] = True
