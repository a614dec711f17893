"""The ledger was turned off for a while, and `kohort why` does not take its old end for the present."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import harness, ledger_reading
from tests.clients.ledger_reading import Member
from tests.reference import graduation
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort, eventually, free_port, need


def come_and_go(broker: BrokerProcess, group_id: str, times: int, **settings: object) -> None:
    """A member joins and leaves: two generations each time, or epochs."""
    for _ in range(times):
        member = Member(broker.address, group_id, "worker", [group_id], **settings)
        eventually(lambda member=member: member.owned == [0, 1, 2])
        member.close()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_what_happened_while_the_ledger_was_off_is_inferred_and_said(tmp_path: Path, name: str, protocol: str):
    own: dict[str, object] = {"group_protocol": "classic"}
    if protocol == "consumer":
        own = {"group_protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None}
    with Kohort(tmp_path / "broker", QUICK_GROUPS) as broker:
        harness.create_topic(broker.address, name, 3)
        come_and_go(broker, name, 1, **own)
        broker.settings["kohort.ledger.enable"] = "false"
        broker.restart()
        come_and_go(broker, name, 2, **own)
        told = ledger_reading.why(broker.address, name)
        assert told.returncode == 0, told.stderr
        lines = told.stdout.splitlines()
        newest = 6 if protocol == "classic" else 7  # each life of a consumer group's first member is one epoch more
        noun = "generation" if protocol == "classic" else "epoch"
        assert f"{noun} {newest}" in lines[0], told.stdout
        assert lines[1].startswith("the ledger ends at "), told.stdout
        assert "worker (127.0.0.1) joined" in told.stdout

        broker.settings["kohort.ledger.enable"] = "true"
        broker.restart()
        come_and_go(broker, name, 1, **own)
        told = ledger_reading.why(broker.address, name)
        assert "nobody wrote the ledger for " in told.stdout, told.stdout
        assert "the ledger ends" not in told.stdout
        assert f"{noun} {newest + 2}" in told.stdout.splitlines()[0]


@pytest.mark.slow
@pytest.mark.xdist_group("reference")
def test_what_a_group_did_on_apache_kafka_is_inferred_and_said(tmp_path: Path, name: str):
    """A directory that went on to Kafka: the ledger that is in it ends there."""
    need("java", "mvn")
    port = free_port()
    with graduation.kohort_on(tmp_path / "kohort", port) as kohort:
        harness.create_topic(kohort.address, name, 3)
        come_and_go(kohort, name, 1)
        kohort.stop()
        properties = graduation.graduated(kohort)
        with graduation.kafka_on(tmp_path / "kafka", kohort.data, port, settings=properties) as kafka:
            come_and_go(kafka, name, 2)
            told = ledger_reading.why(kafka.address, name)
            assert told.returncode == 0, told.stderr
            lines = told.stdout.splitlines()
            assert "generation 6" in lines[0], told.stdout
            assert lines[1].startswith("the ledger ends at "), told.stdout
