"""A shard from its log, in two ways that give the same shard.

`replay_log` takes record after record, as Kafka does: the one to read and to trust. `fold_log` keeps the bytes of the
last value of each key and decodes only those; a log of a million commits to a thousand partitions costs a thousand
decoded records. `load` folds, and falls back to replaying where folding by key bytes is not enough.

A name is a classic group's or a consumer group's (KIP-848), whichever wrote last: a group that moves writes tombstones
for all that it was, but compaction may have taken those while the log was read. Source of that: KAFKA-21117.

A group without a record of its own that has offsets, committed or pending, is a *simple* group; one that has neither is
no group. Both ways end with that rule, so what a loaded shard holds does not depend on what compaction has removed.

Source: Kafka's CoordinatorLoaderImpl, GroupMetadataManager.replay, OffsetMetadataManager.replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.folding import Fold, NotFoldable, ended_groups
from coordinator.group import Group
from coordinator.load_summary import LoadFailed, LoadSummary
from coordinator.loaded_records import load_record
from coordinator.log_batches import batches
from protocol.errors import ProtocolError
from protocol.records.batch_header import CONTROL, TRANSACTIONAL
from protocol.records.batch_reader import iterate_records, read_keys_values
from protocol.records.control_records import ControlType, control_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from coordinator.consumer.fold import GroupFold
    from coordinator.shard import Shard
    from protocol.records.batch_header import BatchHeader


def load(shard: Shard, chunks: Callable[[], Iterable[bytes]]) -> LoadSummary:
    """Fill an empty shard from its log. `chunks()` reads it from start to end: whole batches, back to back.

    Raises: LoadFailed.
    """
    try:
        return fold_log(shard, chunks())
    except NotFoldable:
        return replay_log(shard, chunks())


def replay_log(shard: Shard, chunks: Iterable[bytes]) -> LoadSummary:
    """Record after record. Raises: LoadFailed."""
    loaded = LoadSummary()
    folds: dict[str, GroupFold] = {}
    for buffer, position, header in batches(chunks):
        loaded.end_offset = header.next_offset
        loaded.record_count += header.record_count
        if header.is_control:
            _end_transaction(shard, buffer, position, header)
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        for record in iterate_records(buffer, position):
            load_record(shard, folds, loaded, record.key, record.value, producer_id, record.offset)
    _finish(shard, folds)
    return loaded


def fold_log(shard: Shard, chunks: Iterable[bytes]) -> LoadSummary:
    """The last value of each key, then those decoded. Raises: LoadFailed."""
    fold = Fold()
    loaded = LoadSummary()
    update, pending = fold.newest.update, fold.pending
    for buffer, position, header in batches(chunks):
        loaded.end_offset = header.base_offset + header.last_offset_delta + 1
        loaded.record_count += header.record_count
        attributes = header.attributes
        if attributes & CONTROL:
            marker = _marker(buffer, position, header)
            if marker is not None:
                fold.end_transaction(header.producer_id, committed=marker)
            continue
        offsets, keys, values = read_keys_values(buffer, position, header=header)
        if attributes & TRANSACTIONAL:
            fold.add_transactional(header.producer_id, offsets, keys, values)
        elif pending:
            fold.add(offsets, keys, values)
        else:
            update(zip(keys, values, strict=True))
        if None in values:
            fold.ended.update(ended_groups(keys, values))
    folds: dict[str, GroupFold] = {}
    fold.give(shard, folds, loaded)
    _finish(shard, folds)
    return loaded


def _finish(shard: Shard, folds: Mapping[str, GroupFold]) -> None:
    for group_id, fold in folds.items():
        group = fold.group()
        if group is not None:
            shard.consumer_groups[group_id] = group
    for group_id in (*shard.offsets, *shard.pending):
        if group_id not in shard.groups and group_id not in shard.consumer_groups:
            shard.groups[group_id] = Group(group_id)
    shard.states.update(shard.groups)
    shard.states.update(shard.consumer_groups)


def _end_transaction(shard: Shard, buffer: bytes, position: int, header: BatchHeader) -> None:
    marker = _marker(buffer, position, header)
    if marker is not None:
        shard.end_transaction(header.producer_id, committed=marker)


def _marker(buffer: bytes, position: int, header: BatchHeader) -> bool | None:
    """True: COMMIT, False: ABORT, None: something else, or a control batch that compaction has emptied."""
    if not header.record_count:
        return None
    try:
        kind = control_type(next(iterate_records(buffer, position)).key)
    except ProtocolError as error:
        raise LoadFailed(f"control batch at offset {header.base_offset}: {error}") from error
    return {ControlType.COMMIT: True, ControlType.ABORT: False}.get(kind) if kind is not None else None
