"""How far each group is behind, in messages and in seconds.

Lag in messages is what Kafka's tools say: the partition's high watermark less the committed offset. Lag in seconds is
the age of the oldest record that the group has not committed. Its time is read from the log, from the header of its
batch, and remembered for as long as the committed offset stays; a group that has read everything needs no reading.

Source: Kafka's ConsumerGroupCommand (lag in messages).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from broker.http.metrics.labels import escaped
from coordinator.consumer.group import ConsumerGroup
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from broker.broker import Broker
    from broker.partitions import Partition
    from coordinator.shard import Shard
    from coordinator.view import AnyGroup

    Moment = dict[tuple[str, int], tuple[int, int]]
    Moments = dict[str, Moment]

UNKNOWN = -1.0
_ENTRIES_AT_ONCE = 32


class PartitionLag(NamedTuple):
    """One committed offset. `lag_s` is 0 when everything is read; None when the record's time is not known."""

    topic: str
    partition: int
    committed: int
    lag: int
    lag_s: float | None


class GroupRow:
    """One group as it was when the table was made. `group` is None for one that is nothing but offsets.

    Its committed offsets are four sequences that belong together, sorted by topic and partition; a lag in seconds that
    is not known is -1. Arrays, since a hundred thousand objects would be as many for the garbage collector to look at
    and for somebody to free, while nobody is served.
    """

    __slots__ = ("committed", "group", "keys", "label", "lags", "lags_s", "rebalancing_since_ms")

    def __init__(self, label: str, group: AnyGroup | None) -> None:
        self.label = label  # the group's id as a label has it
        self.group = group
        self.rebalancing_since_ms = _rebalancing_since_ms(group)  # None: no rebalance goes on
        self.keys: list[tuple[str, int]] = []
        self.committed = array("q")
        self.lags = array("q")
        self.lags_s = array("d")

    def by_topic(self, figures: array[int]) -> Iterator[tuple[str, int]]:
        """(topic, sum) of one of the arrays."""
        topic, total = None, 0
        for (name, _), figure in zip(self.keys, figures, strict=True):
            if name != topic:
                if topic is not None:
                    yield topic, total
                topic, total = name, 0
            total += figure
        if topic is not None:
            yield topic, total

    @property
    def max_lag_s(self) -> float:
        """The largest lag in seconds."""
        return max(0.0, max(self.lags_s, default=0.0))


class LagTable:
    """The groups of one scrape. `moments` is what scrapes remember: by group and partition, the committed offset and
    the time of the record there. It is kept from one to the next, and changed in place: freeing it at once takes long.
    """

    def __init__(self, moments: Moments | None = None) -> None:
        self.rows: list[GroupRow] = []
        self.moments: Moments = {} if moments is None else moments

    def gather(self, broker: Broker, opened: Mapping[tuple[str, int], Partition]) -> Iterator[str]:
        """Look at every group; empty texts between slices. `opened`: the partitions that offsets may be for."""
        seen = set()
        for leader in list(broker.groups.leaders):
            for group_id in leader.shard.all_keys():
                seen.add(group_id)
                yield from self._group(broker, leader.shard, group_id, opened)
        for number, group_id in enumerate(list(self.moments)):
            if group_id not in seen:
                self.moments.pop(group_id, None)
            if number % _ENTRIES_AT_ONCE == 0:
                yield ""

    def dissolve(self) -> Iterator[str]:
        """Free the rows, in slices."""
        while self.rows:
            del self.rows[-_ENTRIES_AT_ONCE:]
            yield ""

    def _group(
        self, broker: Broker, shard: Shard, group_id: str, opened: Mapping[tuple[str, int], Partition]
    ) -> Iterator[str]:
        now_ms = broker.runtime.now_ms()
        row = GroupRow(escaped(group_id), shard.states.get(group_id))
        committed = shard.offsets.get(group_id, {})
        before = self.moments.get(group_id, {})
        behind: dict[tuple[str, int], tuple[int, int]] = {}
        for number, key in enumerate(sorted(committed)):
            partition, offset = opened.get(key), committed.get(key)
            if partition is not None and offset is not None:  # it may have gone since the last slice
                lag, lag_s = _lag(partition, offset.offset, now_ms, key, before, behind)
                row.keys.append(key)
                row.committed.append(offset.offset)
                row.lags.append(lag)
                row.lags_s.append(lag_s)
            if number % _ENTRIES_AT_ONCE == _ENTRIES_AT_ONCE - 1:
                yield ""
        if behind:
            self.moments[group_id] = behind
        else:
            self.moments.pop(group_id, None)
        self.rows.append(row)
        yield ""


def _rebalancing_since_ms(group: AnyGroup | None) -> int | None:
    if group is None:
        return None
    rebalance = group.tracking.rebalance if isinstance(group, ConsumerGroup) else group.rebalance
    return None if rebalance is None else rebalance.began_at_ms


def _lag(
    partition: Partition, offset: int, now_ms: int, key: tuple[str, int], before: Moment, behind: Moment
) -> tuple[int, float]:
    """The lag in messages and in seconds. `before` is what is remembered of the group, `behind` what is to be."""
    lag = partition.high_watermark - offset
    if lag <= 0:
        # Below 0: the log was cut, or made anew, after the commit. Nothing is left to read.
        return 0, 0.0
    known = before.get(key)
    # A committed offset stays where it is for longer than a scrape: its record's time is read once.
    moment_ms = known[1] if known is not None and known[0] == offset else oldest_unread_ms(partition, offset)
    behind[key] = offset, moment_ms
    return lag, max(now_ms - moment_ms, 0) / 1_000 if moment_ms >= 0 else UNKNOWN


def oldest_unread_ms(partition: Partition, offset: int) -> int:
    """The time of the first record at or after `offset`, in ms; -1 when it has none or cannot be read."""
    log = partition.log
    try:
        return log.timestamp_at(max(offset, log.log_start_offset))
    except KafkaError:
        return -1


def of_group(broker: Broker, group_id: str) -> Generator[None, None, list[PartitionLag]]:
    """One group's lag, now, in steps. Opens logs if need be."""
    now_ms = broker.runtime.now_ms()
    entries = []
    for key, committed in sorted(broker.groups.leader_of(group_id).shard.offsets.get(group_id, {}).items()):
        yield
        try:
            partition = broker.partitions.get(*key)
        except (KafkaError, OSError):
            continue
        if partition is not None and partition.error is None:
            lag, lag_s = _lag(partition, committed.offset, now_ms, key, {}, {})
            entries.append(PartitionLag(key[0], key[1], committed.offset, lag, None if lag_s < 0 else lag_s))
    return entries
