"""Kafka's own tool and our metrics tell the same lag of the same broker."""

import subprocess
from pathlib import Path

import pytest

from tests.broker.http.metrics.http_client import Metrics
from tests.broker.http.metrics.test_scrape import consume_and_commit, produce
from tests.clients.test_tools import GROUPS, rows
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort, need

pytestmark = pytest.mark.slow


def test_lag_is_what_kafka_consumer_groups_prints(tmp_path: Path):
    """For a group with members and one without, partition by partition, members included."""
    need("java", "mvn")
    with Kohort(tmp_path, {**QUICK_GROUPS, "num.partitions": 3}) as broker:
        for partition, count in enumerate((100, 50, 7)):
            produce(broker, "orders", count, partition)
        consume_and_commit(broker, "gone", "orders", {0: 1, 1: 50, 2: 7}).close()
        consumer = consume_and_commit(broker, "here", "orders", {0: 60, 1: 49})

        for group, members in (("here", 1), ("gone", 0)):
            words = ["run", GROUPS, "--describe", "--group", group, "--bootstrap-server", broker.address]
            printed = subprocess.run(
                [ROOT / "tools" / "kafka", *words],
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            ).stdout
            metrics = Metrics(broker.http)
            told = rows(printed)
            committed = [row for row in told if row["CURRENT-OFFSET"] != "-"]
            assert len(committed) == (2 if group == "here" else 3)
            for row in committed:
                labels = {"consumergroup": group, "topic": row["TOPIC"], "partition": row["PARTITION"]}
                assert metrics.value("kafka_consumergroup_lag", **labels) == int(row["LAG"])
                assert metrics.value("kafka_consumergroup_current_offset", **labels) == int(row["CURRENT-OFFSET"])
            assert metrics.value("kafka_consumergroup_members", consumergroup=group) == members
        consumer.close()
