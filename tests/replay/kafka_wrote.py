"""What lies in the log already when our first start comes: records that Apache Kafka has written and we do not.

KIP-848 groups with members that came and went, offsets of transactions that were committed and aborted, and keys of a
broker older than version 0.9. They are read or left alone, and kept.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.records import group_records as gr
from protocol.records.batch import Record, encode_batch
from protocol.records.group_records import encode_key, encode_value
from tests.storage.logs import marker, transactional

_TIME_MS = 1_699_999_000_000


def _batch(*records: tuple[gr.GroupKey, gr.GroupValue | None]) -> bytearray:
    return encode_batch(
        [
            Record(at, _TIME_MS, encode_key(key), None if value is None else encode_value(value))
            for at, (key, value) in enumerate(records)
        ],
        base_sequence=0,
    )


def nothing() -> list[bytearray]:
    """A log of our own from its beginning."""
    return []


def consumer_groups() -> list[bytearray]:
    """Two members of a KIP-848 group, of which one leaves, and an older group that was removed."""
    member, current = gr.ConsumerGroupMemberMetadataKey, gr.ConsumerGroupCurrentMemberAssignmentKey
    target = gr.ConsumerGroupTargetAssignmentMemberKey
    joined = [
        _batch(
            (
                member("k", name),
                gr.ConsumerGroupMemberMetadataValue(
                    client_id=name, subscribed_topic_names=["t"], classic_member_metadata=None
                ),
            ),
            (gr.ConsumerGroupMetadataKey("k"), gr.ConsumerGroupMetadataValue(epoch=epoch)),
            (target("k", name), gr.ConsumerGroupTargetAssignmentMemberValue()),
            (
                gr.ConsumerGroupTargetAssignmentMetadataKey("k"),
                gr.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
            ),
            (current("k", name), gr.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=epoch)),
        )
        for epoch, name in enumerate(("one", "two"), start=1)
    ]
    left = _batch(
        (current("k", "one"), None),
        (target("k", "one"), None),
        (member("k", "one"), None),
        (gr.ConsumerGroupMetadataKey("k"), gr.ConsumerGroupMetadataValue(epoch=3)),
    )
    committed = _batch((gr.OffsetCommitKey("k", "t", 0), gr.OffsetCommitValue(7, -1, "", _TIME_MS)))
    removed = _batch((gr.ConsumerGroupMetadataKey("gone"), None), (gr.GroupMetadataKey("gone"), None))
    return [*joined, committed, left, removed]


def transactions() -> list[bytearray]:
    """Offsets of one partition from two transactions and from a plain commit between them; one is aborted."""
    key = encode_key(gr.OffsetCommitKey("x", "t", 0))
    other = encode_key(gr.OffsetCommitKey("x", "t", 1))

    def value(offset: int) -> bytes:
        return encode_value(gr.OffsetCommitValue(offset, -1, "", _TIME_MS))

    return [
        _batch((gr.OffsetCommitKey("x", "t", 0), gr.OffsetCommitValue(1, -1, "", _TIME_MS))),
        transactional(70, 0, (key, value(2)), (other, value(3))),
        _batch((gr.OffsetCommitKey("x", "t", 0), gr.OffsetCommitValue(4, -1, "", _TIME_MS))),
        marker(70, 0, abort=False),
        transactional(71, 0, (key, value(5)), (other, value(6))),
        marker(71, 0, abort=True),
        *consumer_groups(),
    ]


def legacy() -> list[bytearray]:
    """A partition's offset under the key of a very old broker, and later under today's."""
    value = bytes(2) + (8).to_bytes(8) + bytes(2) + _TIME_MS.to_bytes(8)
    key = encode_key(gr.LegacyOffsetCommitKey("g", "t", 0))
    old = encode_batch([Record(0, _TIME_MS, key, value)], base_sequence=0)
    return [old, *transactions()]


PREFIXES: tuple[Callable[[], list[bytearray]], ...] = (nothing, nothing, consumer_groups, transactions)
