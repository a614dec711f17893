"""What the ledger remembers of each group, so that a record can say what moved: the last generation that it told of.

It is what the topic's records say. After a start it is read from there, and trusted only if no generation is missing
between the newest record and the group that was loaded: null is better than wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.ownership import Holding, holdings
from coordinator.consumer.group import ConsumerGroup, ConsumerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator.classic.ownership import Holdings
    from coordinator.consumer.group import ConsumerMember
    from coordinator.view import AnyGroup, Topics


def owned_by(member: ConsumerMember, topics: Topics) -> frozenset[tuple[str, int]]:
    """What the member may read, by name; topics that are gone are left out."""
    named = ((topics.topic_name(topic_id), held) for topic_id, held in member.assigned.items())
    return frozenset([(name, partition) for name, held in named if name is not None for partition in held])


def holdings_of(group: ConsumerGroup, topics: Topics) -> Holdings:
    """What every member owns."""
    return {id_: Holding(one.instance_id, owned_by(one, topics)) for id_, one in group.members.items()}


class GroupHistory:
    """One group. `generation`: the newest that a record told of; `holdings`: who owned what in it, None: not known.

    `open`: the `rebalance_began` without an end. `group_type`: classic or consumer, None: not known.
    """

    __slots__ = ("generation", "group_type", "holdings", "open")

    def __init__(self, generation: int = -1, open_: Mapping[str, Any] | None = None) -> None:
        self.generation = generation
        self.group_type: str | None = None
        self.holdings: Holdings | None = None
        self.open = open_

    @property
    def is_blank(self) -> bool:
        """Whether no rebalance was told of."""
        return self.generation == -1 and self.open is None and self.holdings is None

    def loaded(self, group: AnyGroup, topics: Topics) -> None:
        """The group was read from its log; what its members own is what the record of that generation says."""
        self.group_type = "consumer" if isinstance(group, ConsumerGroup) else "classic"
        if isinstance(group, ConsumerGroup):
            settled = group.epoch == self.generation and group.state in (ConsumerState.STABLE, ConsumerState.EMPTY)
            self.holdings = holdings_of(group, topics) if settled else None
            self.generation = group.epoch
            return
        self.holdings = holdings(group) if group.generation == self.generation else None
        self.generation = group.generation


def follow(histories: dict[str, GroupHistory], record: Mapping[str, Any]) -> None:
    """Take one record of the topic over, at a start: later ones overwrite earlier ones."""
    kind, group_id = record.get("kind"), record["group_id"]
    if kind == "rebalance_began":
        history = histories.setdefault(group_id, GroupHistory())
        history.open = record
    elif kind == "rebalance_ended":
        history = histories.setdefault(group_id, GroupHistory())
        history.open = None
        if record.get("outcome") in ("stable", "empty", "interrupted"):
            history.generation = int(record.get("to_generation", -1))
    elif kind == "group_removed":
        histories.pop(group_id, None)
