"""What clients of a log saw: the histories that the checks of this folder look at.

An operation is a transaction, or a send or a poll outside of one; every value is sent at most once, so that a value
says which operation wrote it. Times are whole numbers that rise with every event of the history, of any client.

Source: Jepsen's workload for Kafka-like logs (jepsen.tests.kafka), whose anomalies these are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]
Value = bytes


class Fate(Enum):
    """What became of an operation, as far as its client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"  # its writes must never be seen
    UNKNOWN = "unknown"  # it may have happened


class Sent(NamedTuple):
    """A record that a client sent. The offset is the broker's answer, -1 where there was none."""

    partition: Partition
    value: Value
    offset: int = -1


class Polled(NamedTuple):
    """A record that a client got, at time `at`."""

    partition: Partition
    offset: int
    value: Value
    at: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of one client (`process`), whose operations follow one another.

    `commit_asked_at` is when it asked for its commit; None for one that is no transaction, whose records may be seen
    from the moment they are sent. `repositioned` names the partitions at which its consumer did not go on from where it
    was: by an assignment, a seek or a new start.
    """

    process: str
    begun_at: int
    fate: Fate
    sent: tuple[Sent, ...] = ()
    polled: tuple[Polled, ...] = ()
    commit_asked_at: int | None = None
    repositioned: frozenset[Partition] = frozenset()


class Anomaly(NamedTuple):
    """Something that no client may ever see; `what` tells both sides of it."""

    name: str
    partition: Partition | None
    what: str


class History:
    """The operations of all clients, and what several checks ask of them."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda operation: operation.begun_at)
        self.writer: dict[tuple[Partition, Value], Operation] = {}
        self.offset_of: dict[tuple[Partition, Value], int] = {}
        self.polled: dict[Partition, dict[int, Value]] = defaultdict(dict)
        for operation in self.operations:
            for sent in operation.sent:
                key = sent.partition, sent.value
                if key in self.writer:
                    raise ValueError(f"{sent.value!r} was sent twice to {sent.partition}: no check can tell them apart")
                self.writer[key] = operation
                if sent.offset >= 0:
                    self.offset_of[key] = sent.offset
        for _, got in self.polls():
            self.polled[got.partition].setdefault(got.offset, got.value)
            self.offset_of.setdefault((got.partition, got.value), got.offset)

    def polls(self) -> Iterator[tuple[Operation, Polled]]:
        """Every record that anybody got, each client's in its order."""
        for operation in self.operations:
            for got in operation.polled:
                yield operation, got

    def by_process(self) -> dict[str, list[Operation]]:
        """The operations of each client, in order."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            found[operation.process].append(operation)
        return found

    def order_of_writes(self) -> dict[Partition, list[tuple[int, Value]]]:
        """For each partition the (offset, value) that count, by offset: those that were committed, or seen by anybody.

        A value whose operation has an unknown fate counts once somebody got it.
        """
        found: dict[Partition, set[tuple[int, Value]]] = defaultdict(set)
        for (partition, value), operation in self.writer.items():
            offset = self.offset_of.get((partition, value), -1)
            seen = self.polled[partition].get(offset) == value
            if offset >= 0 and (seen or operation.fate is Fate.COMMITTED):
                found[partition].add((offset, value))
        return {partition: sorted(writes) for partition, writes in found.items()}
