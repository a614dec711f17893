"""The topics of one moment, as an immutable value. The catalogue publishes a new one after each change.

Copying is cheap (a dict of some thousand entries); readers keep an image as long as they like and need no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Partition `p` has leader epoch `leader_epochs[p]`; this node leads them all."""

    name: str
    topic_id: bytes  # 16 bytes
    leader_epochs: tuple[int, ...]
    configs: Mapping[str, str] = field(default_factory=dict)  # overrides only
    directories: tuple[bytes, ...] = ()  # the id of the log directory of each partition

    @property
    def partition_count(self) -> int:
        """How many partitions it has; their numbers are 0 to this, exclusive."""
        return len(self.leader_epochs)

    @property
    def is_internal(self) -> bool:
        """Whether Kafka keeps it for itself. The rebalance ledger is an ordinary topic."""
        return self.name in INTERNAL_TOPICS


class TopicsImage:
    """All topics of one moment. A `coordinator.view.Topics`."""

    __slots__ = ("_by_id", "_by_name", "_sorted", "created_version", "version")

    def __init__(self, topics: Mapping[str, Topic] | None = None) -> None:
        self._by_name: Mapping[str, Topic] = topics or {}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}
        self._sorted: tuple[str, ...] | None = None
        self.version = -1
        self.created_version = -1

    def as_of(self, version: int, *, created: bool) -> None:
        """Say of a new image which it is, before anybody sees it: an offset of the metadata log.

        `created`: a topic came with it.
        """
        self.version = version
        if created:
            self.created_version = version

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        """Topics by name."""
        for name in self.names():
            yield self._by_name[name]

    def names(self) -> tuple[str, ...]:
        """All names, sorted; the sort is done when first asked for."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._by_name))
        return self._sorted

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with this 16-byte id."""
        return self._by_id.get(topic_id)

    def partition_count(self, name: str) -> int | None:
        """Partitions of the topic, or None when there is no such topic."""
        topic = self._by_name.get(name)
        return None if topic is None else len(topic.leader_epochs)

    def topic_id(self, name: str) -> bytes | None:
        """The id that the topic has now, or None when there is no such topic."""
        topic = self._by_name.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def with_changes(self, changed: Mapping[str, Topic | None]) -> TopicsImage:
        """A new image in which these topics are as given; None removes one."""
        topics = dict(self._by_name)
        for name, topic in changed.items():
            if topic is None:
                topics.pop(name, None)
            else:
                topics[name] = topic
        image = TopicsImage(topics)
        image.created_version = self.created_version
        return image
