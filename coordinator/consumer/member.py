"""A member of a KIP-848 group as a value.

Source: KIP-848, KIP-1251; Kafka's ConsumerGroupMember, MemberState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, NamedTuple

from coordinator.values import value

LEAVE_EPOCH = -1  # a member that goes for good
LEAVE_STATIC_EPOCH = -2  # a static member that comes back

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""What a member does: nothing, give partitions up, wait for partitions of others. Records may hold other numbers."""

NO_REGEX = ""

EpochPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch at which the member got it. A topic without partitions is not in it."""

NOTHING: Mapping[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return NOTHING


class ClassicProtocol(NamedTuple):
    """What is known only of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in the member's order of preference


@value
class ConsumerMember:
    """One member. The defaults are those of a member that has only just come."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # as Java prints it: /127.0.0.1
    rebalance_timeout_ms: int = -1
    names: tuple[str, ...] = ()  # subscribed topics, sorted
    regex: str = NO_REGEX
    assignor: str | None = None
    assigned: EpochPartitions = field(default_factory=_nothing)
    pending: EpochPartitions = field(default_factory=_nothing)  # revoked, and not yet given up
    classic: ClassicProtocol | None = None  # None: it speaks the new protocol

    @property
    def acting(self) -> tuple[str, str]:
        """(client id, host) of the process that acts for this member."""
        return self.client_id, self.client_host

    @property
    def is_away(self) -> bool:
        """A static member that said it comes back."""
        return self.epoch == LEAVE_STATIC_EPOCH
