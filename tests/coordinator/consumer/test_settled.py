"""Heartbeats that say nothing new, and those that only seem to. `tests/simulation/test_shard.py` compares at random."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.consumer.inputs import ResolveRegexes
from tests.coordinator.consumer.driver import Driver

HOUR_MS = 3_600_000


@pytest.mark.parametrize("news", [{"client_host": "/10.0.0.1"}, {"client_id": "other"}])
def test_who_speaks_from_elsewhere_is_written_down(news: dict[str, Any]):
    """K23: though it says nothing else."""
    broker = Driver()
    broker.stable("a")
    before = len(broker.log)
    broker.beat("a")
    assert len(broker.log) == before
    broker.beat("a", **news)
    assert broker.written() == ["5"]
    assert {name: getattr(broker.member("a"), name) for name in news} == news


def test_an_old_expression_is_looked_up_again():
    """K49: by the next heartbeat, whatever it says, though the topics are those that they were."""
    broker = Driver(session_timeout_ms=2 * HOUR_MS)
    broker.join("a", None, regex="t.*")
    broker.settle()
    broker.hold_tasks()
    broker.advance(HOUR_MS)
    broker.beat("a")
    assert [type(task) for task in broker.tasks] == [ResolveRegexes]
