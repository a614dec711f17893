"""Metrics of clients: what they are asked for, and what they push (KIP-714)."""

from __future__ import annotations

import pytest

from broker.catalogue.client_metrics import ClientMetrics, Instance
from broker.catalogue.cluster_state import CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE
from broker.config.client_metrics_configs import BadRequest, validate
from protocol.errors import ErrorCode

NOW_MS = 1_700_000_000_000
ME = bytes(range(16))
CLIENT = {
    "client_instance_id": "x",
    "client_id": "orders-7",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.4.0",
    "client_source_address": "10.0.0.1",
    "client_source_port": "50000",
}
Configs = dict[tuple[int, str], dict[str, str]]


def asked(configs: Configs) -> Instance:
    """What the client is to push."""
    error, instance = ClientMetrics(lambda: configs, lambda: 100).subscription(ME, CLIENT, NOW_MS)
    assert error is ErrorCode.NONE
    return instance


def test_a_client_is_asked_for_what_all_subscriptions_that_match_it_name() -> None:
    """Every pattern must match the whole value; the shortest interval counts, and * takes all prefixes in."""
    ours = (CLIENT_METRICS_RESOURCE, "ours")
    configs: Configs = {
        ours: {"metrics": "b,a", "match": "client_id=orders-.*,client_software_version=4\\..*", "interval.ms": "2000"},
        (CLIENT_METRICS_RESOURCE, "all"): {"metrics": "c"},
        (CLIENT_METRICS_RESOURCE, "others"): {"metrics": "d", "match": "client_id=orders", "interval.ms": "100"},
        (TOPIC_RESOURCE, "t"): {"retention.ms": "1"},
    }
    first = asked(configs)
    assert (first.metrics, first.interval_ms) == (("a", "b", "c"), 2000)

    configs[ours]["metrics"] = "a,*"
    second = asked(configs)
    assert second.metrics == ("*",)
    assert second.subscription_id != first.subscription_id
    assert (asked({}).metrics, asked({}).interval_ms) == ((), 300_000)


def test_an_interval_out_of_bounds_is_refused_in_kafkas_words() -> None:
    """And what is no number in ours."""
    for text, why in (
        ("1", "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        ("often", "Invalid value often for configuration interval.ms: it takes a"),
    ):
        with pytest.raises(BadRequest) as refused:
            validate({"interval.ms": text}, ["interval.ms"])
        assert str(refused.value).startswith(why)


def test_pushes_are_counted_or_refused_as_kafka_does() -> None:
    """Once after each question, then once an interval; nothing after the last one."""
    configs: Configs = {(CLIENT_METRICS_RESOURCE, "all"): {"metrics": "*", "interval.ms": "1000"}}
    told = ClientMetrics(lambda: configs, lambda: 100)
    _, one = told.subscription(ME, CLIENT, NOW_MS)
    answered = []

    def push(
        after_ms: int, subscription_id: int = one.subscription_id, *, codec: int = 4, size: int = 10, last: bool = False
    ) -> None:
        error = told.push(
            ME,
            CLIENT,
            NOW_MS + after_ms,
            subscription_id=subscription_id,
            codec=codec,
            size_bytes=size,
            terminating=last,
        )
        answered.append(error.name)

    assert told.subscription(ME, CLIENT, NOW_MS + 999)[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    push(1)
    push(1000)
    push(1001)
    push(3000, one.subscription_id + 1)
    assert told.subscription(ME, CLIENT, NOW_MS + 3001)[0] is ErrorCode.NONE, "it has to learn the new one"
    push(5000, codec=9)
    push(7000, size=101)
    push(7001, last=True)
    push(9000)

    assert answered == [
        "NONE",
        "THROTTLING_QUOTA_EXCEEDED",
        "NONE",
        "UNKNOWN_SUBSCRIPTION_ID",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "TELEMETRY_TOO_LARGE",
        "NONE",
        "INVALID_REQUEST",
    ]
    assert (told.pushes["NONE"], told.pushed_bytes) == (3, 30)
    assert told.known(NOW_MS + 9000) == 1
    assert told.known(NOW_MS + 100_000) == 0
