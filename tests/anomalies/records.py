"""What a log owes its readers record by record: each acknowledged one is there, once, at one offset, and none that was
aborted or not yet committed is seen. Pure functions from a history to what is wrong with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.anomalies.history import Anomaly, Fate, History, Partition, Value


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """One offset of a partition held two values: in an answer to a producer, or in what consumers got."""
    values: dict[tuple[Partition, int], set[Value]] = defaultdict(set)
    for operation in history.operations:
        for sent in operation.sent:
            if sent.offset >= 0:
                values[sent.partition, sent.offset].add(sent.value)
        for got in operation.polled:
            values[got.partition, got.offset].add(got.value)
    for (partition, offset), found in sorted(values.items()):
        if len(found) > 1:
            yield Anomaly("inconsistent offsets", partition, f"offset {offset} held {sorted(found)}")


def duplicates(history: History) -> Iterator[Anomaly]:
    """One value lies at two offsets."""
    offsets: dict[tuple[Partition, Value], set[int]] = defaultdict(set)
    for operation in history.operations:
        for sent in operation.sent:
            if sent.offset >= 0:
                offsets[sent.partition, sent.value].add(sent.offset)
        for got in operation.polled:
            offsets[got.partition, got.value].add(got.offset)
    for (partition, value), found in sorted(offsets.items()):
        if len(found) > 1:
            yield Anomaly("duplicate", partition, f"{value!r} lies at {sorted(found)}")


def lost_writes(history: History, read_to: Mapping[Partition, int] | None = None) -> Iterator[Anomaly]:
    """A committed value that nobody got although readers went past it.

    `read_to`: the offsets up to which somebody has read everything, from the beginning. Without it a value must have
    been got only if one with a higher offset was.
    """
    for (partition, value), operation in sorted(history.writer.items(), key=lambda item: item[0]):
        if operation.fate is not Fate.COMMITTED or value in history.polled[partition].values():
            continue
        end = (read_to or {}).get(partition, max(history.polled[partition], default=-1) + 1)
        offset = history.offset_of.get((partition, value), -1)
        nowhere = offset < 0 and read_to is not None and partition in read_to
        if nowhere or 0 <= offset < end:
            where = "of no known offset" if offset < 0 else f"at {offset}"
            yield Anomaly("lost write", partition, f"{value!r} {where} was committed, and all up to {end} was read")


def aborted_reads(history: History) -> Iterator[Anomaly]:
    """G1a: somebody got a value whose transaction was aborted."""
    for operation, got in history.polls():
        writer = history.writer.get((got.partition, got.value))
        if writer is not None and writer.fate is Fate.ABORTED:
            what = f"{operation.process} got {got.value!r} at {got.offset}, which {writer.process} aborted"
            yield Anomaly("aborted read", got.partition, what)


def reads_before_commit(history: History) -> Iterator[Anomaly]:
    """Somebody got a value before its transaction asked for its commit; within the same transaction too."""
    for operation, got in history.polls():
        writer = history.writer.get((got.partition, got.value))
        if writer is None or writer.fate is Fate.ABORTED or writer.commit_asked_at is None:
            continue
        if got.at < writer.commit_asked_at:
            what = (
                f"{operation.process} got {got.value!r} at time {got.at}, commit was asked at {writer.commit_asked_at}"
            )
            yield Anomaly("read before commit", got.partition, what)


def reads_of_nothing(history: History) -> Iterator[Anomaly]:
    """Somebody got a value that nobody sent."""
    for operation, got in history.polls():
        if (got.partition, got.value) not in history.writer:
            what = f"{operation.process} got {got.value!r} at {got.offset}, which nobody sent"
            yield Anomaly("read of nothing", got.partition, what)
