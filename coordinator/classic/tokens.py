"""What the rules need to know again when their records are committed or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coordinator.group import Member
from coordinator.outcome import AppendToken, Reply, ReplyTo

if TYPE_CHECKING:
    from coordinator.classic.inputs import Leave


@dataclass(slots=True)
class NewGroupToken(AppendToken):
    """The first record of a group (3.1)."""

    group_id: str
    answered: tuple[ReplyTo, ...]  # by the same outcome, whose replies are dropped


@dataclass(slots=True)
class EmptyGroupToken(AppendToken):
    """The record of a group that lost its last member."""

    group_id: str
    replies: tuple[Reply, ...] = ()  # to others; they are true whether or not the record is written
    leave: Leave | None = None  # the request that emptied the group


@dataclass(slots=True)
class AssignmentToken(AppendToken):
    """The leader's assignment: it counts once its record is committed."""

    resumes: ClassVar[bool] = True
    group_id: str
    generation: int
    leader: Member
    assignments: Mapping[str, bytes]  # of every member


@dataclass(slots=True)
class ReplacementToken(AppendToken):
    """A static member that came back under a new id without a rebalance; refused, the old id holds again."""

    group_id: str
    old: Member  # with its old id, protocols and timeouts
    new_member_id: str
    leader_before: str | None
    reply_to: ReplyTo
