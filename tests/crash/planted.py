"""A broker with a fault built in: `python -m tests.crash.planted FAULT serve ...`, the rest as for `kohort`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from broker.partitions import partition as partition_module
from storage.log import log_lookup
from storage.reading.transaction_index import AbortedTransaction
from storage.state import producer_checks
from tests.simulation.transaction_faults import (
    aborted_transactions_are_not_told,
    the_last_stable_offset_is_the_high_watermark,
)


def what_comes_again_is_written_again() -> AbstractContextManager[Any]:
    """A producer whose answer was lost sends a batch twice, and both count."""
    real = producer_checks.check

    def check(entry: Any, **facts: Any) -> Any:
        verdict = real(entry, **facts)
        return producer_checks.ACCEPT if isinstance(verdict, producer_checks.Duplicate) else verdict

    return patch.object(partition_module, "check", check)


def committed_transactions_are_told_as_aborted() -> AbstractContextManager[Any]:
    """Readers leave out what was committed, now and then."""
    real = log_lookup.aborted_transactions

    def told(log: Any, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        found = real(log, offset, upper_offset)
        if offset % 5 == 0:
            found += [AbortedTransaction(one, offset, upper_offset, offset) for one in log.producers.entries]
        return found

    return patch.object(log_lookup, "aborted_transactions", told)


FAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "duplicate": what_comes_again_is_written_again,
    "aborted read": aborted_transactions_are_not_told,
    "read before commit": the_last_stable_offset_is_the_high_watermark,
    "lost write": committed_transactions_are_told_as_aborted,
}
"""What is found -> what is wrong."""


if __name__ == "__main__":
    fault = sys.argv.pop(1)
    from cli import main

    with FAULTS[fault]():
        sys.exit(main())
