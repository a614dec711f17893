"""All checks at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.anomalies import cycles, records, sequences
from tests.anomalies.history import Anomaly, History, Operation, Partition


def anomalies(
    operations: Iterable[Operation],
    *,
    read_to: Mapping[Partition, int] | None = None,
    writers_take_turns: bool = False,
) -> list[Anomaly]:
    """Everything that is wrong with a history, nothing for one that a log may give.

    `read_to`: how far each partition was read from its beginning. `writers_take_turns`: no two transactions were open
    at a time on one partition, so that the order of writes must not have cycles either.
    """
    history = History(operations)
    found = [
        *records.inconsistent_offsets(history),
        *records.duplicates(history),
        *records.lost_writes(history, read_to),
        *records.aborted_reads(history),
        *records.reads_before_commit(history),
        *records.reads_of_nothing(history),
        *sequences.poll_skips(history),
        *sequences.nonmonotonic_polls(history),
        *sequences.nonmonotonic_sends(history),
        *cycles.information_cycles(history, with_writes=writers_take_turns),
    ]
    if writers_take_turns:
        found += cycles.write_cycles(history)
    return found
