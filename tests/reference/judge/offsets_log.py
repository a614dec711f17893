"""What a broker wrote to `__consumer_offsets`, read by Fetch, as comparable records of each scenario."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

from coordinator.routing import partition_for
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records import batch
from protocol.records import group_records as g
from tests.reference.judge.play import Names
from tests.support.wire import Wire

TOPIC = "__consumer_offsets"
PARTITIONS = 50

# What one record says: who is concerned, and which record it is.
Entry = tuple[g.GroupKey | g.UnknownKey, bytes | None]


def read(address: str) -> dict[str, list[Entry]]:
    """The records of every group, in log order, by `scenario.attempt.`, which every group's name begins with."""
    found: dict[str, list[Entry]] = defaultdict(list)
    with Wire(address, client_id="judge") as wire:
        for partition in range(PARTITIONS):
            for key, value in _records(wire, partition):
                decoded = g.decode_key(key)
                group = getattr(decoded, "group", "")
                found[".".join(group.split(".")[:2]) + "."].append((decoded, value))
    return found


def has(wire: Wire, group: str, record_type: int) -> bool:
    """Whether the log holds a record of this type for the group."""
    keys = (g.decode_key(key) for key, _ in _records(wire, partition_for(group, PARTITIONS)))
    return any(key.record_type == record_type and getattr(key, "group", "") == group for key in keys)


def _records(wire: Wire, partition: int) -> list[tuple[bytes | None, bytes | None]]:
    offset, result = 0, []
    while True:
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=8 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])
        answer = wire.call(request, 4).responses[0].partitions[0]
        assert answer.error_code == 0, f"{TOPIC}-{partition}: error {answer.error_code}"
        data = bytes(answer.records or b"")
        if not data:
            return result
        for position, header in batch.iterate_headers(data):
            if not header.is_control:  # a marker says how a transaction ended, and nothing of a group
                result += [(r.key, r.value) for r in batch.iterate_records(data, position)]
            offset = header.last_offset + 1


def plain(entries: list[Entry], names: Names, *, expiry: bool) -> list[dict[str, Any]]:
    """Records as their transcripts' names have them, grouped by group; times are only there or not there.

    Tombstones of offsets that follow each other, and records of one kind of several members, are sorted: in Kafka their
    order is that of a hash map. Without `expiry` tombstones at the end are left out: whether they are there yet depends
    on how long the run took.
    """
    result: list[dict[str, Any]] = []
    for key, value in _settled(entries, names, expiry):
        record: dict[str, Any] = {
            "type": key.record_type,
            "key": [names.text(part) if isinstance(part, str) else part for part in key[:-1]],
            "value": None,
        }
        if value is not None and not isinstance(key, g.UnknownKey):
            record["value_version"] = int.from_bytes(value[:2], "big")
            record["value"] = _value(g.decode_value(key, value), names)
        result.append(record)
    return result


def _settled(entries: list[Entry], names: Names, expiry: bool) -> list[Entry]:
    def named(entry: Entry) -> tuple[object, ...]:
        """By the transcript's names: an id that is made up anew may sort before or behind one that is given."""
        return tuple(names.text(part) if isinstance(part, str) else part for part in entry[0])

    settled: list[Entry] = []
    by_group = sorted(entries, key=lambda entry: getattr(entry[0], "group", ""))
    for _, of_one in groupby(by_group, key=lambda entry: getattr(entry[0], "group", "")):
        runs = [
            sorted(run, key=named) if unordered_type else list(run)
            for unordered_type, run in groupby(of_one, key=_unordered_type)
        ]
        records = [entry for run in runs for entry in run]
        while not expiry and records and records[-1][1] is None:
            records.pop()
        settled += records
    return settled


_OF_MEMBERS = (
    g.ConsumerGroupMemberMetadataKey,
    g.ConsumerGroupTargetAssignmentMemberKey,
    g.ConsumerGroupCurrentMemberAssignmentKey,
)


def _unordered_type(entry: Entry) -> int:
    """The type of a tombstone of an offset, or of a record of a member; 0 for others."""
    key, value = entry
    return key.record_type if isinstance(key, _OF_MEMBERS) or (value is None and key.record_type == 1) else 0


def _value(value: Any, names: Names) -> Any:
    if isinstance(value, g.OffsetCommitValue):
        fields = value._asdict()
        expiry = fields["expire_timestamp"]
        fields["expire_timestamp"] = expiry if expiry == -1 else expiry - fields["commit_timestamp"]
        fields["commit_timestamp"] = "<time>"
        fields["topic_id"] = "" if not any(value.topic_id) else "<id>"
        fields["metadata"] = names.text(value.metadata)
        return fields
    fields = names.plain(value)
    if fields.get("current_state_timestamp", -1) > 0:
        fields["current_state_timestamp"] = "<time>"
    return fields
