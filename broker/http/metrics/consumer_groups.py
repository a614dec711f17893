"""Groups and their lag, under kafka_exporter's names, and KMinion's on request.

Source: kafka_exporter (danielqsj), KMinion (redpanda-data): their documentation of metrics.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from broker.http.metrics.labels import escaped
from broker.http.metrics.lag import LagTable
from coordinator.classic.protocols import CONSUMER
from coordinator.consumer.group import ConsumerGroup, ConsumerState
from coordinator.group import GroupState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.http.metrics.exposition import Scrape
    from broker.http.metrics.lag import GroupRow

_ROWS_AT_ONCE = 100
_STATES = [
    *(state.value for state in GroupState if state is not GroupState.DEAD),
    ConsumerState.ASSIGNING.value,
    ConsumerState.RECONCILING.value,
]


def section(scrape: Scrape) -> Iterator[str]:
    """Everything about groups, with the partitions that `scrape.topics` has gathered."""
    app = scrape.app
    table = LagTable(app.moments)
    yield from table.gather(app.broker, scrape.topics.open)
    yield from _states(scrape, table)
    if scrape.by_group:
        yield from _of_groups(scrape, table.rows)
    else:
        yield from _sums_over_groups(scrape, table)
    yield from table.dissolve()


def _of_groups(scrape: Scrape, rows: list[GroupRow]) -> Iterator[str]:
    yield from scrape.many(
        "kafka_consumergroup_members",
        "gauge",
        "Amount of members in a consumer group",
        (f'{{consumergroup="{row.label}"}} {_members(row)}' for row in rows),
    )
    yield from _offsets_and_lag(scrape, rows)
    yield from _seconds(scrape, rows)
    if scrape.kminion:
        yield from _kminion(scrape, rows)


def _offsets_and_lag(scrape: Scrape, rows: list[GroupRow]) -> Iterator[str]:
    for name, figures, what in (
        ("kafka_consumergroup_current_offset", attrgetter("committed"), "Current Offset"),
        ("kafka_consumergroup_lag", attrgetter("lags"), "Current Approximate Lag"),
    ):
        if scrape.by_partition:
            yield from scrape.many(
                name,
                "gauge",
                f"{what} of a ConsumerGroup at Topic/Partition",
                (
                    f'{{consumergroup="{row.label}",partition="{partition}",topic="{escaped(topic)}"}} {figure}'
                    for row in rows
                    for (topic, partition), figure in zip(row.keys, figures(row), strict=True)
                ),
            )
        yield from scrape.many(
            f"{name}_sum",
            "untyped",
            f"{what} of a ConsumerGroup at Topic for all partitions",
            (
                f'{{consumergroup="{row.label}",topic="{escaped(topic)}"}} {total}'
                for row in rows
                for topic, total in row.by_topic(figures(row))
            ),
        )


def _seconds(scrape: Scrape, rows: list[GroupRow]) -> Iterator[str]:
    if scrape.by_partition:
        yield from scrape.many(
            "kohort_group_lag_seconds",
            "gauge",
            "Age of the oldest record that the group has not committed; 0 when there is none.",
            (
                f'{{group="{row.label}",partition="{partition}",topic="{escaped(topic)}"}} {lag_s}'
                for row in rows
                for (topic, partition), lag_s in zip(row.keys, row.lags_s, strict=True)
                if lag_s >= 0
            ),
        )
    yield from scrape.many(
        "kohort_group_max_lag_seconds",
        "gauge",
        "The largest of a group's lags in seconds.",
        (f'{{group="{row.label}"}} {row.max_lag_s}' for row in rows if row.keys),
    )
    now_ms = scrape.app.broker.runtime.now_ms()
    yield from scrape.many(
        "kohort_group_rebalancing_seconds",
        "gauge",
        "How long the rebalance that is going on in a group has taken so far; no series when there is none.",
        (
            f'{{group="{row.label}"}} {(now_ms - row.rebalancing_since_ms) / 1_000}'
            for row in rows
            if row.rebalancing_since_ms is not None
        ),
    )


def _states(scrape: Scrape, table: LagTable) -> Iterator[str]:
    counts = dict.fromkeys(_STATES, 0)
    members = 0
    for number, row in enumerate(table.rows):
        if number % _ROWS_AT_ONCE == 0:
            yield ""
        # Offsets without a group are what Kafka calls a simple group: Empty, and without a protocol.
        state = row.group.state.value if row.group is not None else GroupState.EMPTY.value
        counts[state] = counts.get(state, 0) + 1
        members += _members(row)
    yield from scrape.many(
        "kohort_groups",
        "gauge",
        "Groups, by state.",
        (f'{{state="{state}"}} {count}' for state, count in counts.items()),
    )
    yield scrape.one("kohort_group_members", "gauge", "Members of all groups.", members)


def _sums_over_groups(scrape: Scrape, table: LagTable) -> Iterator[str]:
    lag, oldest_s = 0, 0.0
    for number, row in enumerate(table.rows):
        lag += sum(row.lags)
        oldest_s = max(oldest_s, row.max_lag_s)
        if number % _ROWS_AT_ONCE == 0:
            yield ""
    yield scrape.one("kohort_groups_lag", "gauge", "Messages that all groups together have not committed.", lag)
    yield scrape.one("kohort_groups_max_lag_seconds", "gauge", "The largest lag in seconds of all groups.", oldest_s)


def _kminion(scrape: Scrape, rows: list[GroupRow]) -> Iterator[str]:
    node = scrape.app.broker.node_id
    yield from scrape.many(
        "kminion_kafka_consumer_group_info",
        "gauge",
        "What a group is; 1 while it is Stable, else 0.",
        (_kminion_info(row, node) for row in rows),
    )
    yield from scrape.many(
        "kminion_kafka_consumer_group_members",
        "gauge",
        "Members of a group.",
        (f'{{group_id="{row.label}"}} {_members(row)}' for row in rows),
    )
    if scrape.by_partition:
        yield from scrape.many(
            "kminion_kafka_consumer_group_topic_partition_lag",
            "gauge",
            "Messages of a partition that a group has not committed.",
            (
                f'{{group_id="{row.label}",partition_id="{partition}",topic_name="{escaped(topic)}"}} {lag}'
                for row in rows
                for (topic, partition), lag in zip(row.keys, row.lags, strict=True)
            ),
        )
    for name, kind, meaning, field in (
        (
            "kminion_kafka_consumer_group_topic_lag",
            "gauge",
            "Messages of a topic that a group has not committed.",
            "lags",
        ),
        (
            "kminion_kafka_consumer_group_topic_offset_sum",
            "untyped",
            "Sum of a group's committed offsets in a topic.",
            "committed",
        ),
    ):
        yield from scrape.many(
            name,
            kind,
            meaning,
            (
                f'{{group_id="{row.label}",topic_name="{escaped(topic)}"}} {total}'
                for row in rows
                for topic, total in row.by_topic(getattr(row, field))
            ),
        )


def _kminion_info(row: GroupRow, node: int) -> str:
    group = row.group
    state = group.state.value if group is not None else GroupState.EMPTY.value
    protocol = protocol_type = ""
    if isinstance(group, ConsumerGroup):
        protocol, protocol_type = escaped(group.tracking.assignor or ""), CONSUMER
    elif group is not None:
        protocol, protocol_type = escaped(group.protocol_name or ""), escaped(group.protocol_type or "")
    return (
        f'{{coordinator_id="{node}",group_id="{row.label}",protocol="{protocol}",protocol_type="{protocol_type}",'
        f'state="{state}"}} {int(state == GroupState.STABLE.value)}'
    )


def _members(row: GroupRow) -> int:
    return len(row.group.members) if row.group is not None else 0
