"""Metrics that real clients push (KIP-714)."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.http.metrics.http_client import Metrics
from tests.support.broker_process import Kohort, eventually
from tests.support.wire import Wire


def test_what_librdkafka_pushes_is_counted(tmp_path: Path) -> None:
    """Nothing is asked of clients before there is a subscription; then those that connect push, and are counted."""
    with Kohort(tmp_path) as broker:
        metrics = Metrics(broker.http)
        assert metrics.value("kohort_client_metrics_clients") == 0
        configs = [
            AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in (("metrics", "*"), ("interval.ms", "200"), ("match", "client_software_name=confluent.*"))
        ]
        wish = AlterConfigsResource(resource_type=16, resource_name="all", configs=configs)
        with Wire(broker.address) as wire:
            assert wire.call(IncrementalAlterConfigsRequest(resources=[wish]), 1).responses[0].error_code == 0
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"x")
        producer.flush(30)

        def pushed() -> bool:
            now = Metrics(broker.http)
            return (now.value("kohort_client_metrics_pushes_total", error="NONE") or 0) >= 2

        eventually(pushed, deadline_s=60)
        now = Metrics(broker.http)
        assert now.value("kohort_client_metrics_clients") == 1
        assert (now.value("kohort_client_metrics_pushed_bytes_total") or 0) > 100
