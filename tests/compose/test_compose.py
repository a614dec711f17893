"""docker-compose.yml and the image: clients inside and outside, kills, restarts, scaling."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import eventually
from tests.support.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.compose.conftest import Project

# As found in tutorials and projects; nothing but the image's name is ours to change.
_EXISTING = """
services:
  kafka:
    image: apache/kafka:4.1.0
    hostname: kafka
    container_name: kafka-${KAFKA_PORT}
    ports:
      - "127.0.0.1:${KAFKA_PORT}:29092"
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://0.0.0.0:9092,PLAINTEXT_HOST://0.0.0.0:29092,CONTROLLER://0.0.0.0:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092,PLAINTEXT_HOST://localhost:${KAFKA_PORT}
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka:9093
      KAFKA_INTER_BROKER_LISTENER_NAME: PLAINTEXT
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"
      KAFKA_HEAP_OPTS: "-Xmx512m"
    volumes:
      - kafka-data:/var/lib/kafka/data
    healthcheck:
      test: /opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server localhost:9092 || exit 1
      interval: 2s
      timeout: 10s
      retries: 10
      start_period: 5s

  kafka-init:
    image: apache/kafka:4.1.0
    depends_on:
      kafka:
        condition: service_healthy
    entrypoint: ["/bin/sh", "-c"]
    command: |
      "
      /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --list

      /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic orders \
        --replication-factor 1 --partitions 6
      /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists --topic payments \
        --replication-factor 1 --partitions 1 --config cleanup.policy=compact

      echo -e 'Successfully created the following topics:'
      /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --describe
      "

volumes:
  kafka-data:
"""
_ALONE = "services:\n  broker:\n    image: kohort\n    pull_policy: never\n"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("compose")]


def end_offset(project: Project, partitions: int = 4) -> int:
    with Wire(project.address) as wire:
        return sum(offset for _, offset in wire.end_offsets("orders", list(range(partitions))).values())


def test_consumers_form_a_group_and_the_broker_can_be_killed(project: Callable[..., Project]) -> None:
    """By the service's name inside, by the published port outside; a consumer and then the broker die by SIGKILL."""
    running = project()
    running.up("producer")
    running.up("consumer", scale="consumer=2")
    running.wait_until_shared(2)
    victim = running.containers("consumer")[0]["Name"]
    subprocess.run(["docker", "kill", "-s", "KILL", victim], check=True, capture_output=True, timeout=300)
    running.wait_until_shared(1)
    before = eventually(lambda: end_offset(running), deadline_s=60, what="records")
    running.compose("kill", "-s", "KILL", "broker")
    running.up("broker")
    assert end_offset(running) >= before
    eventually(lambda: end_offset(running) > before, deadline_s=180, what="the producer goes on")
    running.wait_until_shared(1)
    assert "Traceback" not in running.logs("broker")
    told = running.compose("exec", "-T", "broker", "kohort", "why", "billing")
    assert "its session timeout" in told
    assert "the broker started after a crash and read the group" in told


def test_a_service_is_scaled_up_and_down(project: Callable[..., Project]) -> None:
    """From 2 consumers to 5 and back: every partition always ends with one owner."""
    running = project()
    running.up("producer")
    for members in (2, 5, 2):
        running.up("consumer", scale=f"consumer={members}")
        running.wait_until_shared(members)


def test_the_volume_survives_down_and_a_restart_is_clean(project: Callable[..., Project]) -> None:
    running = project()
    running.up("broker")
    with Wire(running.address) as wire:
        assert wire.create_topic("orders", 4) == 0
    running.compose("restart", "broker")
    assert "stopped clean=True" in running.logs("broker")
    running.compose("down")
    running.up("broker")
    assert end_offset(running) == 0
    assert "unclean" not in running.logs("broker")


def test_a_compose_file_of_apache_kafkas_image_needs_only_the_images_name(
    project: Callable[..., Project], tmp_path: Path
) -> None:
    """The settings are those of the documentation of Apache Kafka's image, controllers and all."""
    file = tmp_path / "compose.yml"
    file.write_text("""
services:
  broker:
    image: kohort
    pull_policy: never
    ports: ["127.0.0.1:${KAFKA_PORT}:9092"]
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT'
      KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT_HOST://127.0.0.1:${KAFKA_PORT},PLAINTEXT://broker:19092'
      KAFKA_PROCESS_ROLES: 'broker,controller'
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@broker:29093'
      KAFKA_LISTENERS: 'CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092'
      KAFKA_INTER_BROKER_LISTENER_NAME: 'PLAINTEXT'
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER'
      CLUSTER_ID: '4L6g3nShT-eMCtK--X86sw'
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: 0
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: 1
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: 1
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: 1
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: 1
      KAFKA_LOG_DIRS: '/tmp/kraft-combined-logs'
""")
    running = project(file)
    running.up("broker")
    with Wire(running.address) as wire:
        assert wire.create_topic("t", 1) == 0
    logs = running.logs("broker")
    assert "unknown_setting" not in logs


def test_the_image_starts_with_no_settings_at_all(project: Callable[..., Project], tmp_path: Path) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(_ALONE + "    ports: ['127.0.0.1:${KAFKA_PORT}:9092']\n")
    running = project(file)
    running.up("broker")
    with Wire(running.address) as wire:
        assert wire.create_topic("t", 1) == 0


def test_wrong_settings_end_the_container_with_a_sentence(project: Callable[..., Project], tmp_path: Path) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(_ALONE + "    environment: {KAFKA_NUM_PARTITIONS: many}\n")
    running = project(file)
    running.compose("up", "--detach", "--no-build", check=False)
    eventually(lambda: "num.partitions" in running.logs("broker"), deadline_s=60, what="a sentence")
    logs = running.logs("broker")
    assert "many" in logs
    assert "Traceback" not in logs


def test_an_existing_compose_file_starts_with_only_the_images_name_changed(
    project: Callable[..., Project], tmp_path: Path
) -> None:
    """A file as people have it for Apache Kafka: a health check and a set-up service that run Kafka's own tools."""
    file = tmp_path / "compose.yml"
    file.write_text(_EXISTING.replace("apache/kafka:4.1.0", "kohort"))
    running = project(file)
    running.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "180", "kafka")
    (kafka,) = running.containers("kafka")
    assert kafka["Health"] == "healthy"
    running.compose("up", "--no-build", "--exit-code-from", "kafka-init", "kafka-init")
    told = running.logs("kafka-init")
    assert "Created topic orders." in told
    assert "Created topic payments." in told
    assert "PartitionCount: 6" in told

    bin_ = "/opt/kafka/bin"
    inside = ("exec", "-T", "kafka")
    keyed = "--property parse.key=true --property key.separator=:"
    produce = f"{bin_}/kafka-console-producer.sh --bootstrap-server localhost:9092 --topic orders {keyed}"
    running.compose(*inside, "sh", "-c", f"printf 'a:1\\nb:2\\n' | {produce}")
    consume = (f"{bin_}/kafka-console-consumer.sh", "--bootstrap-server", "kafka:9092", "--topic", "orders")
    read = running.compose(*inside, *consume, "--group", "billing", "--from-beginning", "--max-messages", "2")
    assert {"1", "2"} <= set(read.split())
    groups = (f"{bin_}/kafka-consumer-groups.sh", "--bootstrap-server", "localhost:9092")
    described = running.compose(*inside, *groups, "--describe", "--group", "billing")
    rows = [line.split() for line in described.splitlines() if line.startswith("billing")]
    assert sum(int(row[5]) for row in rows) == 0
    versions = running.compose(*inside, f"{bin_}/kafka-broker-api-versions.sh", "--bootstrap-server", "localhost:9092")
    assert "Produce(0): " in versions
    configs = (f"{bin_}/kafka-configs.sh", "--bootstrap-server", "localhost:9092", "--describe", "--topic", "payments")
    assert "cleanup.policy=compact" in running.compose(*inside, *configs)


def test_metrics_are_scraped_by_a_container_and_health_is_seen_from_this_machine(project: Callable[..., Project]):
    """Where Prometheus would run: in the network of the broker, by the service's name."""
    one = project()
    one.up("broker")
    script = (
        "from urllib.request import Request, urlopen;"
        "print(urlopen('http://broker:9644/metrics', timeout=300).read().decode());"
        "print(urlopen('http://broker:9644/readyz', timeout=300).status)"
    )

    printed = one.compose("run", "--rm", "--no-deps", "-T", "consumer", "python", "-c", script)

    assert "kafka_brokers 1\n" in printed
    assert printed.splitlines()[-1].strip() == "200"
    with urlopen(f"http://127.0.0.1:{one.http_port}/readyz", timeout=300) as answer:
        assert answer.status == 200


def test_the_secure_profile_serves_whoever_has_a_certificate_and_a_right(
    project: Callable[..., Project], tmp_path: Path
) -> None:
    """docs/containers.md, to the letter: certificates made by the profile, ACLs from inside, a client outside."""
    running = project()
    running.up("secure")
    running.compose("cp", "secure:/var/lib/kafka/keys", str(tmp_path / "keys"))
    keys = tmp_path / "keys"

    def produce(name: str | None) -> list[str | None]:
        """What is said of a record on `orders` by a client with this certificate."""
        shown = (
            {} if name is None else {f"ssl.{part}.location": f"{keys}/{name}.pem" for part in ("certificate", "key")}
        )
        told: list[str | None] = []
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{running.secure_port}",
                "security.protocol": "ssl",
                "ssl.ca.location": f"{keys}/authority.crt",
                "message.timeout.ms": "20000" if shown else "2000",
                **shown,
            }
        )
        producer.produce("orders", b"a", callback=lambda error, _: told.append(error and error.name()))
        producer.flush(30)
        return told

    exec_ = ("exec", "-T", "secure", "kohort")
    running.compose(*exec_, "topics", "create", "orders")
    assert produce("alice") == ["TOPIC_AUTHORIZATION_FAILED"]
    running.compose(*exec_, "acls", "add", "--allow-principal", "User:CN=alice", "--producer", "--topic", "orders")
    assert produce("alice") == [None]
    assert produce("admin") == [None]
    assert produce(None) == ["_MSG_TIMED_OUT"]
    inside = ("--command-config", "/var/lib/kafka/keys/alice.properties", "-b", "secure:19093")
    assert "orders" in running.compose(*exec_, "topics", "list", *inside)


def test_the_image_is_a_testbed(project: Callable[..., Project], tmp_path: Path) -> None:
    """docs/testing-http.md: commanded over HTTP, one broker at a time on the port that is published."""
    file = tmp_path / "compose.yml"
    ports = "    ports: ['127.0.0.1:${KAFKA_PORT}:9092', '127.0.0.1:${KOHORT_HTTP_PORT}:9645']\n"
    file.write_text(f"{_ALONE}{ports}    command: kohort testbed --container\n    healthcheck: {{disable: true}}\n")
    running = project(file)
    running.compose("up", "--detach", "--no-build")
    eventually(lambda: "kohort testbed on" in running.logs("broker"), deadline_s=60, what="a testbed")

    def post(path: str, body: object) -> dict[str, str]:
        data, kind = json.dumps(body).encode(), {"content-type": "application/json"}
        with urlopen(Request(f"http://127.0.0.1:{running.http_port}{path}", data, kind), timeout=300) as answer:
            told: dict[str, dict[str, str]] = json.load(answer)
        return told["is"]

    advertised = f"PLAINTEXT://localhost:{running.port}"
    broker = post("/brokers", {"topics": {"t": 1}, "settings": {"advertised.listeners": advertised}})
    assert broker["bootstrap_servers"] == f"localhost:{running.port}"
    with Wire(running.address) as wire:
        assert wire.create_topic("u", 1) == 0
    post(f"/brokers/{broker['broker']}/kill", {})
    post(f"/brokers/{broker['broker']}/start", {})
    with Wire(running.address) as wire:
        assert wire.create_topic("u", 1) == 36  # TOPIC_ALREADY_EXISTS
