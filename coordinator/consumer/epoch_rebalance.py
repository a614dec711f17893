"""A rebalance of a consumer group: a group epoch from its bump until the last member is there. Never persisted.

What bumps the epoch again before a target was computed is a further cause of the same rebalance, since one target
answers them all; what bumps it later supersedes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.values import value

if TYPE_CHECKING:
    from coordinator.cause import Cause
    from coordinator.consumer.member import ConsumerMember

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return _NOTHING


class Revocation(NamedTuple):
    """A member that was told to give partitions up, and how long it took until it said that it had."""

    member: ConsumerMember
    after_ms: int


class Unread(NamedTuple):
    """Of a partition that somebody gave up or left behind. Moments are ms since 1970."""

    since_ms: int
    sign_ms: int  # the last sign of who had it: earlier than that if it was silent


@value
class EpochRebalance:
    """See the module. Moments are ms since 1970."""

    from_epoch: int
    began_at_ms: int
    state_before: str
    first_cause: Cause
    members_before: Mapping[str, ConsumerMember]
    further_causes: tuple[Cause, ...] = ()
    further_causes_cut: int = 0  # more than `FURTHER_CAUSES_MAX` came
    # Member id -> who it was, and how it went: `left`, `expired` or `removed`.
    departed: Mapping[str, tuple[ConsumerMember, str]] = field(default_factory=_nothing)
    assigned_at_ms: int | None = None  # the target was computed
    awaited: int = 0  # members that are not stable at the target's epoch
    arrived: Mapping[str, int] = field(default_factory=_nothing)  # member id -> when it got there
    revoking: Mapping[str, int] = field(default_factory=_nothing)  # member id -> when it was told to give up
    slowest_to_revoke: Revocation | None = None
    # Partitions that somebody gave up or left behind, and nobody has taken up.
    unread: Mapping[tuple[bytes, int], Unread] = field(default_factory=_nothing)
    stopped_ms: int = 0  # the longest that a partition was in `unread`

    @property
    def rebalance_id(self) -> str:
        """Unique within the group."""
        return f"{self.from_epoch}@{self.began_at_ms}"


@value
class RebalanceTracking:
    """What a consumer group remembers for its ledger alone. It begins anew with every load."""

    rebalance: EpochRebalance | None = None
    assignor: str | None = None  # that computed the target
    regex_causes: tuple[Cause, ...] = ()  # members whose expressions nobody has looked up yet: they bump no epoch


NO_TRACKING = RebalanceTracking()
