"""What a log owes each of its clients in sequence: a reader goes forward and passes over nothing, a writer's records
follow each other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tests.anomalies.history import Anomaly, History, Partition, Polled


def _steps(history: History) -> Iterator[tuple[str, Polled, Polled]]:
    """(client, one record, the next it got of that partition), where nothing has moved it in between."""
    for process, operations in history.by_process().items():
        last: dict[Partition, Polled] = {}
        for operation in operations:
            for partition in operation.repositioned:
                last.pop(partition, None)
            for got in operation.polled:
                before = last.get(got.partition)
                if before is not None:
                    yield process, before, got
                last[got.partition] = got


def poll_skips(history: History) -> Iterator[Anomaly]:
    """A reader went from one record to another, over one between them that it should have got."""
    offsets = {partition: [offset for offset, _ in writes] for partition, writes in history.order_of_writes().items()}
    for process, before, got in _steps(history):
        known = offsets.get(got.partition, [])
        skipped = known[bisect_right(known, before.offset) : bisect_left(known, got.offset)]
        if skipped:
            what = f"{process} went from {before.offset} to {got.offset}, over {skipped}"
            yield Anomaly("poll skip", got.partition, what)


def nonmonotonic_polls(history: History) -> Iterator[Anomaly]:
    """A reader went back, or got a record twice."""
    for process, before, got in _steps(history):
        if got.offset <= before.offset:
            yield Anomaly("nonmonotonic poll", got.partition, f"{process} went from {before.offset} to {got.offset}")


def nonmonotonic_sends(history: History) -> Iterator[Anomaly]:
    """A writer's later record was given a lower offset."""
    for process, operations in history.by_process().items():
        last: dict[Partition, int] = {}
        for operation in operations:
            for sent in operation.sent:
                if sent.offset < 0:
                    continue
                before = last.get(sent.partition, -1)
                if sent.offset <= before:
                    what = f"{process} sent to {before} and then to {sent.offset}"
                    yield Anomaly("nonmonotonic send", sent.partition, what)
                last[sent.partition] = sent.offset
