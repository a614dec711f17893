"""What metrics tell of transactions: how many are open, since when, and who ended the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.transactions_fixture import TransactionalWhole

if TYPE_CHECKING:
    from pathlib import Path


def test_figures_follow_what_is_open_and_who_ended_it(tmp_path: Path):
    broker = TransactionalWhole(tmp_path)
    broker.create("t", 2)
    figures = broker.broker.transaction_figures
    began_ms = broker.runtime.now_ms()
    for index, tid in enumerate(("left", "ended")):
        broker.add(tid, broker.pair(tid), "t", index)
    assert set(figures.open) == {"left", "ended"}
    assert figures.oldest_ms == began_ms

    told = broker.describe("ended")
    broker.end("ended", (told.producer_id, told.producer_epoch), commit=True)
    assert (set(figures.open), figures.ended) == ({"left"}, {(True, "client"): 1})

    broker.runtime.advance(60_001)
    broker.settle()
    assert figures.ended == {(True, "client"): 1, (False, "timed_out"): 1}
    assert (figures.open, figures.ending, figures.oldest_ms) == ({}, {}, None)
    broker.stop()
