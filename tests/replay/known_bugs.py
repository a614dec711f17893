"""Bugs to be found: those that Apache Kafka's loader had, as far as our records can have them, and two of our own.

Kafka's concern KIP-848 records; most are built in again over the records of classic groups and offsets. More of KIP-848
groups are in tests/coordinator/consumer/test_loading.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from broker.groups import tenant as group_tenant
from coordinator import loading
from coordinator.consumer.fold import CONSUMER_KEYS
from coordinator.group import Group
from coordinator.load_summary import LoadFailed
from protocol.records.group_records import (
    ConsumerGroupMemberMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
)
from tests.replay import life

Check = Callable[[Any, Any, Any], None]


@contextmanager
def _replaying(check: Check, after: Check = lambda shard, key, value: None) -> Iterator[None]:
    """Load record after record, as Kafka does, and have each looked at before and after it counts."""
    real = loading.load_record

    def look(shard: Any, folds: Any, loaded: Any, key: Any, value: Any, producer_id: int, offset: int) -> None:
        typed = decode_key(key)
        check(shard, typed, value)
        real(shard, folds, loaded, key, value, producer_id, offset)
        after(shard, typed, value)

    def load(shard: Any, chunks: Any) -> Any:
        with patch.object(loading, "load_record", look):
            return loading.replay_log(shard, chunks())

    with patch.object(group_tenant, "load", load):
        yield


def tombstone_of_nobody() -> AbstractContextManager[None]:
    """KAFKA-17306: a tombstone must find what it removes. Compaction may have removed that already."""

    def check(shard: Any, key: Any, value: Any) -> None:
        if value is None and isinstance(key, GroupMetadataKey) and key.group not in shard.groups:
            raise LoadFailed(f"there is no group {key.group}")

    return _replaying(check)


def order_taken_for_granted() -> AbstractContextManager[None]:
    """KAFKA-17306: offsets before their group's record make a simple group, which the record then runs into."""
    simple: set[str] = set()

    def check(shard: Any, key: Any, value: Any) -> None:
        if not shard.groups and not shard.offsets:
            simple.clear()
        if isinstance(key, GroupMetadataKey) and value is not None and key.group in simple:
            raise LoadFailed(f"{key.group} is a simple group")

    def after(shard: Any, key: Any, value: Any) -> None:
        if isinstance(key, OffsetCommitKey) and value is not None and key.group not in shard.groups:
            shard.groups[key.group] = Group(key.group)
            simple.add(key.group)

    return _replaying(check, after)


def first_taken_for_granted() -> AbstractContextManager[None]:
    """KAFKA-17306: only a member's own record makes a KIP-848 group. Compaction may leave others before it."""
    made: set[str] = set()
    loading: list[Any] = [None]

    def check(shard: Any, key: Any, value: Any) -> None:
        if loading[0] is not shard:
            loading[0] = shard
            made.clear()
        if value is None or type(key) not in CONSUMER_KEYS:
            return
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            made.add(key.group)
        elif key.group not in made:
            raise LoadFailed(f"{key.group} is not a group yet")

    return _replaying(check)


def siblings_taken_for_granted() -> AbstractContextManager[None]:
    """KAFKA-19862: what was written with other keys just before must count already. A clean may have overtaken us.

    Kafka: a member gives up a partition that is still somebody else's, and a group goes that still has members. Here: a
    group goes that still has offsets.
    """

    def check(shard: Any, key: Any, value: Any) -> None:
        if value is None and isinstance(key, GroupMetadataKey) and shard.offsets.get(key.group):
            raise LoadFailed(f"{key.group} still has offsets")

    return _replaying(check)


def cleaned_before_it_is_flushed() -> AbstractContextManager[None]:
    """Ours: a flushed value was removed for the sake of a later one that a power loss could still take."""
    return patch.object(life, "durable_end", lambda partition: partition.high_watermark)


LOADER_BUGS = (
    (tombstone_of_nobody, 0),
    (order_taken_for_granted, 0),
    (first_taken_for_granted, 2),
    (siblings_taken_for_granted, 0),
)
"""Each with what lies in the log before: `kafka_wrote.PREFIXES`."""
