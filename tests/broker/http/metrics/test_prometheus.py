"""Prometheus itself: its linter finds nothing, its server scrapes, and known dashboards' queries return numbers."""

import json
import math
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.http.metrics.http_client import Metrics, get, get_json
from tests.broker.http.metrics.test_scrape import consume_and_commit, produce
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort, eventually, free_port

# Of Grafana's dashboard 7589, "Kafka Exporter Overview", and of the one in kafka_exporter's repository.
QUERIES = (
    'sum(rate(kafka_topic_partition_current_offset{instance="$instance", topic=~"$topic"}[1m])) by (topic)',
    'sum(kafka_consumergroup_lag{instance="$instance",topic=~"$topic"}) by (consumergroup, topic)',
    "sum(delta(kafka_topic_partition_current_offset{instance=~'$instance', topic=~\"$topic\"}[5m])/5) by (topic)",
    "sum(delta(kafka_consumergroup_current_offset{instance=~'$instance',topic=~\"$topic\"}[5m])/5)"
    " by (consumergroup, topic)",
    'sum by(topic) (kafka_topic_partitions{instance="$instance",topic=~"$topic"})',
    'sum(rate(kafka_topic_partition_current_offset{topic!="__consumer_offsets"}[1m])) by (topic)',
    "sum(kafka_consumergroup_lag) by (consumergroup, topic) ",
    'sum by(topic) (kafka_topic_partitions{topic!="__consumer_offsets"})',
)
OURS = [
    target["expr"].replace("$job", "kohort")
    for panel in json.loads((ROOT / "examples" / "grafana" / "kohort.json").read_text())["panels"]
    for target in panel["targets"]
]
# What such dashboards offer to choose from: label_values(metric, label).
VALUES = (
    ("kafka_consumergroup_current_offset", "job"),
    ("kafka_consumergroup_current_offset", "instance"),
    ("kafka_topic_partition_current_offset", "topic"),
)


COMPOSE_TARGET = "broker:9644"


def test_the_compose_profile_mounts_the_example_and_scrapes_the_brokers_own_port():
    """What `docker compose --profile metrics up` starts; its image is Prometheus' own, and is not brought here."""
    compose = (ROOT / "docker-compose.yml").read_text()
    service = compose[compose.index("\n  prometheus:") :]
    assert "profiles: [metrics]" in service
    assert '"./examples/prometheus.yml:/etc/prometheus/prometheus.yml:ro"' in service
    assert COMPOSE_TARGET in (ROOT / "examples" / "prometheus.yml").read_text()
    assert f'KAFKA_KOHORT_HTTP_LISTENER: "0.0.0.0:{COMPOSE_TARGET.partition(":")[2]}"' in compose


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kohort]:
    """With a group that is behind, and whatever names of groups clients think of."""
    with Kohort(tmp_path, {**QUICK_GROUPS, "kohort.http.metrics.kminion": "true", "num.partitions": 2}) as running:
        produce(running, "orders", 20)
        consume_and_commit(running, 'pay"me\\now\n', "orders", {0: 5}).close()
        yield running


@pytest.mark.parametrize("groups", ["true", "false"])
def test_promtool_finds_nothing_to_say(prometheus: Path, tmp_path: Path, broker: Kohort, groups: str):
    if groups == "false":
        broker.settings["kohort.http.metrics.groups"] = "false"
        broker.restart()
    text = Metrics(broker.http).text

    said = subprocess.run(
        [prometheus / "promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_the_example_configuration_is_one_that_prometheus_takes(prometheus: Path):
    said = subprocess.run(
        [prometheus / "promtool", "check", "config", ROOT / "examples" / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert said.returncode == 0, said.stderr


@pytest.mark.slow
def test_prometheus_scrapes_and_the_dashboards_queries_return_numbers(prometheus: Path, tmp_path: Path, broker: Kohort):
    target = broker.http.removeprefix("http://")
    # The configuration of the compose profile, sooner and for this broker.
    config = tmp_path / "prometheus.yml"
    profile = (ROOT / "examples" / "prometheus.yml").read_text()
    changed = profile.replace(COMPOSE_TARGET, target).replace("scrape_interval: 15s", "scrape_interval: 1s")
    config.write_text(changed)
    port = free_port()
    server = subprocess.Popen(
        [
            prometheus / "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "prometheus.log").open("w"),
    )
    stop = threading.Event()
    try:
        api = f"http://127.0.0.1:{port}/api/v1"

        def ask(query: str) -> list[tuple[dict[str, str], float]]:
            query = query.replace("$instance", target).replace("$topic", "orders")
            try:
                status, body = get(f"{api}/query?{urllib.parse.urlencode({'query': query})}")
            except OSError:
                return []  # it is not there yet
            if status == 503:
                return []  # it is starting
            assert status == 200, body
            return [(one["metric"], float(one["value"][1])) for one in json.loads(body)["data"]["result"]]

        def work() -> None:
            while not stop.wait(0.2):
                produce(broker, "orders", 5)

        worker = threading.Thread(target=work)
        worker.start()
        eventually(lambda: ask("up") == [({"__name__": "up", "instance": target, "job": "kohort"}, 1.0)], deadline_s=60)
        # Rates want two samples, and numbers that are not 0 want something that moved between them.
        eventually(lambda: ask(QUERIES[0]) and ask(QUERIES[0])[0][1] > 0, what="a rate", deadline_s=60)
        for query in QUERIES:
            numbers = eventually(lambda query=query: ask(query), what=query)
            assert not any(math.isnan(number) for _, number in numbers), (query, numbers)
            assert "orders" in {labels["topic"] for labels, _ in numbers}
        for expression in OURS:
            numbers = eventually(lambda expression=expression: ask(expression), what=expression)
            assert numbers, expression
        for name, label in VALUES:
            parameters = urllib.parse.urlencode({"match[]": name})
            status, values = get_json(f"{api}/label/{label}/values?{parameters}")
            assert status == 200
            assert values["data"], (name, label)
        stop.set()
        worker.join()
        lag = Metrics(broker.http).value("kafka_consumergroup_lag_sum", topic="orders")
        eventually(lambda: ask(QUERIES[1])[0][1] == lag, what=f"a lag of {lag}")
        assert ask(QUERIES[1])[0][0] == {"consumergroup": 'pay"me\\now\n', "topic": "orders"}
    finally:
        stop.set()
        server.terminate()
        server.wait(120)
