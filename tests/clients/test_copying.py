"""Consume, transform and produce in transactions, by members that die on their way."""

from collections.abc import Callable

import pytest

from tests.clients import harness
from tests.clients.test_consumer_protocol import QUICK_CONSUMERS
from tests.clients.transactional import committed_values
from tests.support.broker_process import BrokerProcess, eventually


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["consumer", "cooperative-sticky"])
def test_a_killed_copier_leaves_each_record_copied_once(
    assignor: str, start_broker: Callable[..., BrokerProcess], spawn: Callable[..., harness.Worker], name: str
):
    """TX71, TX81: consume, transform, produce in franz-go's sessions, in both protocols; one of two dies on its way."""
    broker = start_broker(QUICK_CONSUMERS)
    target = f"{name}-copy"
    for topic in (name, target):
        harness.create_topic(broker.address, topic)
    options = {"mode": "copy", "bootstrap": broker.address, "topic": name, "to": target, "group": name}
    options |= {"assignor": assignor, "session_timeout_ms": 3_000, "rebalance_timeout_ms": 10_000, "timeout_ms": 2_000}
    writer = harness.Writer(broker.address, name)
    copiers = [spawn("franz", **options, transactional_id=f"{name}-{n}") for n in range(2)]
    for number in range(3):
        eventually(lambda: all(len(copier.seen("copied")) >= 3 for copier in copiers[-2:]), deadline_s=60)
        if number < 2:
            copiers[number].kill()
            copiers.append(spawn("franz", **options, transactional_id=f"{name}-{number + 2}"))
    written = writer.stop()

    for partition, count in written.items():
        sources = committed_values(broker.address, name, count, partition)
        assert len(sources) == count
        eventually(
            lambda partition=partition, sources=sources: (
                committed_values(broker.address, target, len(sources), partition) == sources
            ),
            deadline_s=60,
        )
    for copier in copiers[-2:]:
        copier.leave()
