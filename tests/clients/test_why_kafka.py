"""`kohort why` on Apache Kafka, which keeps no ledger: a consumer of `__consumer_offsets`, or a reader of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients import harness, ledger_reading
from tests.clients.ledger_reading import Member, members
from tests.support.broker_process import QUICK_GROUPS, Kafka, eventually, need


@pytest.mark.slow
@pytest.mark.xdist_group("reference")
def test_the_history_of_groups_on_apache_kafka_is_inferred_and_marked_so(tmp_path: Path, name: str):
    """Classic and consumer groups: who came and went, what moved, how long; an administrator's reset."""
    need("java", "mvn")
    new = {"group_protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None}
    with Kafka(tmp_path / "kafka", QUICK_GROUPS, environment={"KAFKA_VERSION": "4.4.0"}) as kafka:
        harness.create_topic(kafka.address, name)
        writer = harness.Writer(kafka.address, name)
        for group_id, own in ((f"{name}-old", {"group_protocol": "classic"}), (f"{name}-new", new)):
            a = Member(kafka.address, group_id, "worker-1", [name], **own)
            with members(a):
                eventually(lambda a=a: len(a.owned) == 6, what="a owns all")
                a.commit(TopicPartition(name, 0, 1))
                b = Member(kafka.address, group_id, "worker-2", [name], **own)
                with members(b):
                    eventually(lambda b=b: len(b.owned) == 3, what="shared")
                    for offset in (1, 2, 3):
                        b.commit(TopicPartition(name, b.owned[0], offset))
                        eventually(lambda b=b: b.commits_asked, what="it commits")
                    count = len(a.assignments)
                eventually(lambda a=a, count=count: len(a.assignments) > count, what="a owns all again")
                a.commit(TopicPartition(name, 0, 2))
        writer.stop()
        admin = AdminClient({"bootstrap.servers": kafka.address})
        asked = [ConsumerGroupTopicPartitions(f"{name}-old", [TopicPartition(name, 0, 0)])]
        admin.alter_consumer_group_offsets(asked)[f"{name}-old"].result(30)

        told = ledger_reading.why(kafka.address, f"{name}-old")
        assert told.returncode == 0, told.stderr
        _check(told.stdout, "generation 4")
        assert "offsets of 1 partition" in told.stdout
        modern = ledger_reading.why(kafka.address, f"{name}-new").stdout
        _check(modern, "epoch ")
        answer = json.loads(ledger_reading.why(kafka.address, f"{name}-new", "--json").stdout)
        assert answer["source"] == "inferred"
        assert any(one.get("duration_ms") is not None for one in answer["records"])
        (left,) = [one for one in answer["verdicts"] if one["who"].startswith("worker-2")]
        assert (left["verdict"], "it left: it had committed" in left["says"]) == ("left", True), left
        trouble = ledger_reading.why(kafka.address)
        assert "There is no rebalance ledger: only states and lag were looked at." in trouble.stdout, trouble

    for group_id, noun in ((f"{name}-old", "generation 4"), (f"{name}-new", "epoch ")):
        read = ledger_reading.why("127.0.0.1:1", group_id, "--from", str(kafka.data))
        assert read.returncode == 0, read.stderr
        _check(read.stdout, noun)
    read = ledger_reading.why("127.0.0.1:1", "nobody", "--from", str(kafka.data))
    assert (read.returncode, read.stdout) == (1, "")


def _check(text: str, where: str) -> None:
    rows = [line for line in text.splitlines() if line[:1].isdigit()]
    assert where in text.splitlines()[0], text
    assert all(line.endswith("(inferred)") for line in rows), text
    assert any("worker-2 (127.0.0.1) joined" in line for line in rows), text
    assert any("worker-2 (127.0.0.1) is gone" in line or "worker-2 (127.0.0.1) left" in line for line in rows), text
    assert any("of 6 partitions moved" in line for line in rows), text
