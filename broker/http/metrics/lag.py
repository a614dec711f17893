"""How far each group is behind, in messages and in seconds.

Lag in messages is what Kafka's tools say: the partition's high watermark less the committed offset. Lag in seconds is
the age of the oldest record that the group has not committed. Its time is read from the log, from the header of its
batch, and remembered for as long as the committed offset stays; a group that has read everything needs no reading.

Source: Kafka's ConsumerGroupCommand (lag in messages).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.http.metrics.exposition import escaped
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from broker.broker import Broker
    from broker.partitions import Partition
    from coordinator.group import Group
    from coordinator.view import CommittedOffset

    Moments = dict[tuple[str, str, int], tuple[int, int]]

_ENTRIES_AT_ONCE = 32


class PartitionLag(NamedTuple):
    """One committed offset. `lag_s` is 0 when everything is read; None when the record's time is not known."""

    topic: str
    partition: int
    committed: int
    lag: int
    lag_s: float | None


class GroupRow(NamedTuple):
    """One group as it was when the table was made. `group` is None for one that is nothing but offsets."""

    group_id: str
    label: str  # the id as a label has it
    group: Group | None
    entries: list[PartitionLag]  # by topic, then partition


class LagTable:
    """The groups of one scrape. `moments` are what the table before it remembered: the time of the record at an offset
    of a group's partition.
    """

    def __init__(self, moments: Moments | None = None) -> None:
        self.rows: list[GroupRow] = []
        self.moments: Moments = {}
        self._before: Moments = moments or {}

    def gather(self, broker: Broker, opened: Mapping[tuple[str, int], Partition]) -> Iterator[str]:
        """Look at every group; empty texts between slices. `opened`: the partitions that offsets may be for."""
        now_ms = broker.runtime.now_ms()
        for leader in list(broker.groups.leaders):
            shard = leader.shard
            for group_id in shard.group_ids():
                entries: list[PartitionLag] = []
                for number, (key, committed) in enumerate(list(shard.offsets.get(group_id, {}).items())):
                    partition = opened.get(key)
                    if partition is not None:
                        entries.append(self._entry(group_id, partition, committed, now_ms))
                    if number % _ENTRIES_AT_ONCE == _ENTRIES_AT_ONCE - 1:
                        yield ""
                entries.sort()
                self.rows.append(GroupRow(group_id, escaped(group_id), shard.groups.get(group_id), entries))
                yield ""

    def _entry(self, group_id: str, partition: Partition, committed: CommittedOffset, now_ms: int) -> PartitionLag:
        topic, index, offset = partition.topic, partition.index, committed.offset
        lag = partition.high_watermark - offset
        if lag <= 0:
            # Below 0: the log was cut, or made anew, after the commit. Nothing is left to read.
            return PartitionLag(topic, index, offset, 0, 0.0)
        key = group_id, topic, index
        known = self._before.get(key)
        # A committed offset stays where it is for longer than a scrape: its record's time is read once.
        moment_ms = known[1] if known is not None and known[0] == offset else oldest_unread_ms(partition, offset)
        self.moments[key] = offset, moment_ms
        return PartitionLag(topic, index, offset, lag, lag_s(moment_ms, now_ms))


def oldest_unread_ms(partition: Partition, offset: int) -> int:
    """The time of the first record at or after `offset`, in ms; -1 when it has none or cannot be read."""
    log = partition.log
    try:
        return log.timestamp_at(max(offset, log.log_start_offset))
    except KafkaError:
        return -1


def lag_s(moment_ms: int, now_ms: int) -> float | None:
    """How old the oldest unread record is."""
    return max(now_ms - moment_ms, 0) / 1_000 if moment_ms >= 0 else None


def of_group(broker: Broker, group_id: str) -> list[PartitionLag]:
    """One group's lag, now. Opens logs if need be."""
    table = LagTable()
    now_ms = broker.runtime.now_ms()
    entries = []
    for key, committed in list(broker.groups.leader_of(group_id).shard.offsets.get(group_id, {}).items()):
        try:
            partition = broker.partitions.get(*key)
        except (KafkaError, OSError):
            continue
        if partition is not None and partition.error is None:
            entries.append(table._entry(group_id, partition, committed, now_ms))
    return sorted(entries)
