"""Faults that are built into a broker are found in what real clients saw of it, over a network that cuts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.anomalies.finding import anomalies
from tests.anomalies.history import Fate, Operation
from tests.clients import harness
from tests.clients.transactional import Aiokafka, Confluent, Franz
from tests.crash.planted import FAULTS
from tests.crash.test_transactions_sigkill import PARTITIONS, TOPIC, Reader, Writer, ends
from tests.support.broker_process import Kohort, eventually, free_port
from tests.support.unsteady_proxy import UnsteadyProxy


class Planted(Kohort):
    """Kohort with a fault."""

    fault = ""

    def command(self) -> list[str]:
        words = super().command()
        return [sys.executable, "-m", "tests.crash.planted", self.fault, *words[words.index("serve") :]]


@pytest.mark.slow
@pytest.mark.xdist_group("crash")
@pytest.mark.parametrize("anomaly", FAULTS)
def test_a_planted_fault_is_found(anomaly: str, tmp_path: Path):
    """By the check of that name; without the fault `test_transactions_sigkill` finds nothing at greater length."""
    port = free_port()
    with UnsteadyProxy(port, seed=1) as network:
        broker = Planted(tmp_path / "broker", {"advertised.listeners": f"PLAINTEXT://{network.address}"}, port=port)
        broker.fault = anomaly
        broker.start()
        try:
            harness.create_topic(broker.address, TOPIC, len(PARTITIONS))
            network.disturb(cut=0.02)
            reader = Reader(network.address)
            reader.start()
            writers = [Writer(library, network.address, 1) for library in (Franz, Confluent, Aiokafka)]
            for writer in writers:
                writer.start()

            eventually(lambda: all(writer.committed >= 25 for writer in writers), deadline_s=120)
            network.calm()
            for writer in writers:
                writer.stopping = True
            for writer in writers:
                writer.join(60)
            eventually(lambda: reader.ends == ends(broker), what="all is decided and read")
            reader.stopping = True
            reader.join(30)
            operations = [operation for writer in writers for operation in writer.operations]
            operations.append(Operation("reader", reader.begun_at, Fate.COMMITTED, polled=tuple(reader.polled)))
            read_to = {(TOPIC, partition): end for partition, end in reader.ends.items()}
            assert anomaly in {one.name for one in anomalies(operations, read_to=read_to)}
        finally:
            broker.kill()
