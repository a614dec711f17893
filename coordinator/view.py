"""What a rule may see besides its input and the time."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from coordinator.consumer.assignor import Assignor
    from coordinator.consumer.group import ConsumerGroup
    from coordinator.group import Group
    from coordinator.outcome import Outcome

    GroupOutcome: TypeAlias = Outcome[Group]
    AnyGroup: TypeAlias = Group | ConsumerGroup
    AnyGroupOutcome: TypeAlias = Outcome[AnyGroup]


class Topics(Protocol):
    """The topics of one moment. The broker's `TopicsImage` is one; tests use a dict-backed one."""

    def partition_count(self, name: str) -> int | None:
        """Partitions of the topic, or None when there is no such topic."""

    def topic_id(self, name: str) -> bytes | None:
        """The 16-byte id that the topic has now."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""

    def names(self) -> Sequence[str]:
        """The names of all topics, sorted."""

    @property
    def version(self) -> int:
        """Rises with every change of the topics, over restarts too: an offset of the metadata log."""

    @property
    def created_version(self) -> int:
        """The version that the last new topic came with, or that of the start."""


@value
class GroupSettings:
    """The settings that rules look at; names and defaults are Kafka's, units are milliseconds unless named."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_chars: int = 4_096  # UTF-16 units, whatever the property's name says
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000


@value
class ConsumerSettings:
    """The settings of consumer groups (KIP-848); those of one group may differ. Milliseconds unless named."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2_147_483_647
    assignors: Mapping[str, Assignor] = field(default_factory=dict)  # by name; the first is the default
    migration_policy: str = "bidirectional"  # or upgrade, downgrade, disabled
    rack: str | None = None  # of this broker, which has every replica


class CommittedOffset(NamedTuple):
    """One committed offset of one (topic, partition). A tuple, since there are millions of them and one per commit."""

    offset: int
    leader_epoch: int  # -1: absent
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: bytes | None = None
    log_offset: int = -1  # where its record lies in the log


@value
class View:
    """The state before an input. Nothing in it may be changed in place."""

    group_id: str
    group: Group | None
    offsets: Mapping[tuple[str, int], CommittedOffset]  # committed; as of all records appended so far
    pending_offsets: Mapping[int, Mapping[tuple[str, int], CommittedOffset]]  # by producer id, not yet decided
    topics: Topics
    settings: GroupSettings
    consumer_group: ConsumerGroup | None = None  # of KIP-848; then `group` is None
    consumer_settings: ConsumerSettings = field(default_factory=ConsumerSettings)
