"""A scrape of a broker with real clients: names, labels, figures that agree with what the clients compute."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families

from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.http.metrics.http_client import Metrics, get, get_json
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort, eventually
from tests.support.wire import Wire

GROUP = 'pay"me\\now'
KMINION = {"kohort.http.metrics.kminion": "true"}


def produce(broker: Kohort, topic: str, count: int, partition: int = 0, timestamp_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition, timestamp=timestamp_ms)
    assert producer.flush(120) == 0


def consume_and_commit(broker: Kohort, group: str, topic: str, counts: dict[int, int]) -> Consumer:
    """A member of the group that has committed so many records of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="an assignment", deadline_s=60)
    consumer.commit(
        offsets=[TopicPartition(topic, partition, count) for partition, count in counts.items()], asynchronous=False
    )
    return consumer


@pytest.fixture
def broker(tmp_path: Path):
    with Kohort(tmp_path, {**QUICK_GROUPS, **KMINION, "num.partitions": 3}) as running:
        yield running


def test_lag_is_what_the_client_computes(broker: Kohort):
    """Committed offsets, ends and lag of a real consumer, under kafka_exporter's names and KMinion's."""
    for partition, count in enumerate((100, 50, 7)):
        produce(broker, "orders", count, partition)
    consumer = consume_and_commit(broker, GROUP, "orders", {0: 60, 1: 50})
    committed = consumer.committed([TopicPartition("orders", index) for index in range(3)], timeout=400)
    metrics = Metrics(broker.http)

    total = 0
    for entry in committed:
        labels = {"topic": "orders", "partition": str(entry.partition)}
        start, end = consumer.get_watermark_offsets(TopicPartition("orders", entry.partition), timeout=400)
        assert metrics.value("kafka_topic_partition_current_offset", **labels) == end
        assert metrics.value("kafka_topic_partition_oldest_offset", **labels) == start
        lag = metrics.value("kafka_consumergroup_lag", consumergroup=GROUP, **labels)
        if entry.offset < 0:
            assert lag is None
            continue
        total += end - entry.offset
        assert lag == end - entry.offset
        assert metrics.value("kafka_consumergroup_current_offset", consumergroup=GROUP, **labels) == entry.offset
        assert (
            metrics.value(
                "kminion_kafka_consumer_group_topic_partition_lag",
                group_id=GROUP,
                topic_name="orders",
                partition_id=str(entry.partition),
            )
            == lag
        )
    assert total == 40
    assert metrics.value("kafka_consumergroup_lag_sum", consumergroup=GROUP, topic="orders") == total
    assert metrics.value("kafka_consumergroup_current_offset_sum", consumergroup=GROUP, topic="orders") == 110
    assert metrics.value("kafka_consumergroup_members", consumergroup=GROUP) == 1
    assert metrics.value("kafka_topic_partitions", topic="orders") == 3
    assert metrics.value("kohort_groups", state="Stable") == 1
    consumer.close()

    metrics = Metrics(broker.http)
    assert metrics.value("kafka_consumergroup_members", consumergroup=GROUP) == 0
    assert metrics.value("kafka_consumergroup_lag_sum", consumergroup=GROUP, topic="orders") == total
    assert metrics.value("kohort_groups", state="Empty") == 1


def test_lag_in_seconds_is_the_age_of_the_oldest_record_that_is_not_committed(broker: Kohort):
    produce(broker, "old", 1, 0, timestamp_ms=1_000)
    hour_ago_ms = int(eventually(lambda: Metrics(broker.http).value("process_start_time_seconds")) * 1_000) - 3_600_000
    produce(broker, "old", 1, 0, timestamp_ms=hour_ago_ms)
    produce(broker, "old", 1, 1)
    consumer = consume_and_commit(broker, "late", "old", {0: 1, 1: 1})

    metrics = Metrics(broker.http)
    late_s = metrics.value("kohort_group_lag_seconds", group="late", topic="old", partition="0")
    assert 3_600 <= late_s < 3_700
    assert metrics.value("kohort_group_lag_seconds", group="late", topic="old", partition="1") == 0
    assert metrics.value("kohort_group_max_lag_seconds", group="late") == late_s

    consumer.commit(offsets=[TopicPartition("old", 0, 2)], asynchronous=False)
    assert Metrics(broker.http).value("kohort_group_max_lag_seconds", group="late") == 0
    consumer.close()


def test_requests_rebalances_and_connections_are_counted(broker: Kohort):
    produce(broker, "orders", 10)
    consumer = consume_and_commit(broker, "g", "orders", {0: 1})
    metrics = Metrics(broker.http)

    assert metrics.value("kohort_request_duration_seconds_count", api="OffsetCommit") == 1
    assert metrics.value("kohort_request_duration_seconds_bucket", api="OffsetCommit", le="+Inf") == 1
    assert 0 < metrics.value("kohort_request_duration_seconds_sum", api="OffsetCommit") < 10
    requests = [sample for sample in metrics.samples if sample.name == "kohort_requests_total"]
    assert sum(sample.value for sample in requests if sample.labels["api"] == "OffsetCommit") == 1
    assert metrics.value("kohort_group_rebalances_total", group="g", trigger="member_joined") == 1
    assert metrics.value("kohort_group_rebalance_seconds_count", group="g", phase="sync") == 1
    assert metrics.value("kohort_connections") >= 1
    eventually(lambda: Metrics(broker.http).value("kohort_requests_in_flight", api="Fetch"), what="a fetch that waits")
    consumer.close()


def test_the_ledger_s_figures_are_counted_by_group(broker: Kohort):
    """A member that joins and leaves; a commit of a generation that is over."""
    produce(broker, "orders", 10)
    first = consume_and_commit(broker, "g", "orders", {0: 1})
    first.close()
    with Wire(broker.address) as wire:
        refused = wire.call(
            OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=1,
                member_id="nobody",
                topics=[
                    OffsetCommitRequestTopic(
                        name="orders",
                        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=3)],
                    )
                ],
            ),
            7,
        )
    assert refused.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    standing = eventually(
        lambda: Metrics(broker.http).value("kohort_group_finding", group="g", rule="refused_commits"), what="a finding"
    )
    assert standing == 1
    counted = eventually(
        lambda: Metrics(broker.http).value("kohort_group_commits_refused_total", group="g", error="UNKNOWN_MEMBER_ID"),
        what="the refused commit",
    )
    metrics = Metrics(broker.http)
    assert counted == 1
    assert metrics.value("kohort_group_rebalances_total", group="g", trigger="member_left") == 1
    assert metrics.value("kohort_group_stopped_seconds_total", group="g") >= 0
    assert metrics.value("kohort_ledger_errors_total") == 0
    status, told = get_json(f"{broker.http}/groups/g/rebalances?last=2")
    assert status == 200
    assert [record["kind"] for record in told["records"]][:2] == ["rebalance_began", "rebalance_ended"]
    status, told = get_json(f"{broker.http}/groups/g/findings")
    assert status == 200
    assert [finding["rule"] for finding in told["findings"]] == ["refused_commits"]
    assert get_json(f"{broker.http}/groups/g/rebalances?last=x")[0] == 400
    assert get_json(f"{broker.http}/groups/h/rebalances") == (404, {"error": "there is no group 'h'", "nearest": []})


def test_openmetrics_is_given_to_who_asks_for_it(broker: Kohort):
    produce(broker, "orders", 10)
    consume_and_commit(broker, GROUP, "orders", {0: 1}).close()
    status, body = get(f"{broker.http}/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    text = body.decode()

    assert status == 200
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in openmetrics_families(text)}
    assert families["kohort_group_rebalances"].type == "counter"
    assert families["kafka_consumergroup_lag_sum"].type == "unknown"
    assert families.keys() == {
        name.removesuffix("_total") if family.type == "counter" else name
        for name, family in Metrics(broker.http).families.items()
    }


def test_series_of_partitions_and_of_groups_can_be_left_out(tmp_path: Path):
    settings = {**QUICK_GROUPS, **KMINION, "kohort.http.metrics.partitions": "false"}
    with Kohort(tmp_path / "partitions", settings) as broker:
        produce(broker, "orders", 10)
        consume_and_commit(broker, "g", "orders", {0: 4}).close()
        metrics = Metrics(broker.http)
        assert not [sample for sample in metrics.samples if {"partition", "partition_id"} & sample.labels.keys()]
        assert metrics.value("kafka_consumergroup_lag_sum", consumergroup="g", topic="orders") == 6
        assert metrics.value("kohort_group_max_lag_seconds", group="g") > 0

    settings = {**QUICK_GROUPS, **KMINION, "kohort.http.metrics.groups": "false"}
    with Kohort(tmp_path / "groups", settings) as broker:
        produce(broker, "orders", 10)
        consume_and_commit(broker, "g", "orders", {0: 4}).close()
        metrics = Metrics(broker.http)
        assert not [
            sample for sample in metrics.samples if {"group", "group_id", "consumergroup"} & sample.labels.keys()
        ]
        assert metrics.value("kohort_groups_lag") == 6
        assert metrics.value("kohort_group_rebalances_total", trigger="member_joined") == 1


def test_every_name_is_documented_with_its_type_and_labels(broker: Kohort, tmp_path: Path):
    """docs/metrics.md has a row for each name, and no row without a name."""
    produce(broker, "orders", 10)
    consume_and_commit(broker, "g", "orders", {0: 4})
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = {
        match[1]: (match[2], set(match[3].replace(",", " ").replace("`", "").split()))
        for match in re.finditer(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    }
    metrics = Metrics(broker.http)
    with Kohort(tmp_path / "sums", {"kohort.http.metrics.groups": "false"}) as other:
        text = metrics.text + Metrics(other.http).text
    declared = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))

    assert {name: kind for name, (kind, _) in rows.items()} == declared
    for family in metrics.families.values():
        for sample in family.samples:
            name = sample.name
            if name not in rows:  # of a histogram
                name = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
            assert set(sample.labels) - {"le"} == rows[name][1], sample


def test_what_is_left_out_can_be_changed_while_the_broker_runs(broker: Kohort):
    """Through AlterConfigs, and for the next scrape."""
    produce(broker, "orders", 10)
    consume_and_commit(broker, "g", "orders", {0: 4}).close()
    assert Metrics(broker.http).value("kafka_consumergroup_members", consumergroup="g") == 0
    admin = AdminClient({"bootstrap.servers": broker.address})
    entry = ConfigEntry("kohort.http.metrics.groups", "false", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])

    admin.incremental_alter_configs([resource])[resource].result(120)

    metrics = Metrics(broker.http)
    assert metrics.value("kafka_consumergroup_members", consumergroup="g") is None
    assert metrics.value("kohort_groups_lag") == 6
