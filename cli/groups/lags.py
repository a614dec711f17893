"""Lag in seconds: how long ago the first record was written that a group has not read. Any Kafka can be asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from cli.cluster import make_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.cluster import Cluster
    from cli.groups.reading import Tp

_WAIT_S = 5.0
"""For all partitions together: a lag that cannot be told in that time is not told."""
_PARTITIONS_MAX = 2_000


def first_unread_ms(cluster: Cluster, committed: Mapping[Tp, int], ends: Mapping[Tp, int]) -> dict[Tp, int]:
    """The time of the first record at or behind each committed offset, ms since 1970; read partitions are left out.

    One record of each partition is fetched. A partition whose record has no time, or does not come, is left out too.
    """
    behind = {tp: offset for tp, offset in committed.items() if offset < ends.get(tp, 0)}
    wanted = dict(list(behind.items())[:_PARTITIONS_MAX])
    if not wanted:
        return {}
    settings = cluster.settings(
        group_id="kohort-lag",  # the library wants one; nothing is committed and no group is joined
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # what retention has taken is not to be read any more
        isolation_level="read_uncommitted",
        allow_auto_create_topics=False,
        fetch_message_max_bytes=1,  # one batch each: the brokers give no less
        queued_max_messages_kbytes=1_024,
    )
    consumer: Consumer = make_client(Consumer, settings)
    found: dict[Tp, int] = {}
    try:
        consumer.assign([TopicPartition(*tp, offset) for tp, offset in wanted.items()])
        give_up = time.monotonic() + min(_WAIT_S, cluster.timeout_s)
        while wanted.keys() - found.keys() and time.monotonic() < give_up:
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            tp = str(message.topic()), int(message.partition() or 0)
            kind, at_ms = message.timestamp()
            if tp not in found:
                found[tp] = at_ms if kind else -1
                consumer.pause([TopicPartition(*tp)])
    except KafkaException:
        pass  # what is known so far is told
    finally:
        consumer.close()
    return {tp: at_ms for tp, at_ms in found.items() if at_ms >= 0}


def seconds(first_ms: Mapping[Tp, int], committed: Mapping[Tp, int], ends: Mapping[Tp, int]) -> dict[Tp, float]:
    """Lag in seconds by partition, 0 where everything is read; without those of which it is not known."""
    now_ms = time.time() * 1_000
    lags = {tp: 0.0 for tp, offset in committed.items() if tp in ends and offset >= ends[tp]}
    return lags | {tp: max(now_ms - at_ms, 0) / 1_000 for tp, at_ms in first_ms.items()}
