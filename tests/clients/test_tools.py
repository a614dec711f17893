"""Kafka's own command-line tools against the broker (CT12), run through `tools/kafka run`."""

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.clients import harness
from tests.support.broker_process import ROOT, BrokerProcess, need

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"

Run = Callable[..., str]


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    """run(class, argument ...) runs a tool against the broker and returns what it printed; it must end well."""
    need("java", "mvn")

    def call(tool: str, *arguments: str, stdin: str = "") -> str:
        ended = subprocess.run(
            [str(ROOT / "tools" / "kafka"), "run", tool, *arguments, "--bootstrap-server", broker.address],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, f"{tool} {arguments}:\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    return call


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a table that a tool printed, by its column heads."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    head = next(line for line in lines if line[0] == "GROUP")
    return [dict(zip(head, line, strict=False)) for line in lines[lines.index(head) + 1 :]]


def test_console_clients_and_consumer_groups(run: Run, name: str):
    """CT12: a topic is made, written, read by a group, and the group's lag is told and reset."""
    run(TOPICS, "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=100000000")
    described = run(TOPICS, "--describe", "--topic", name)
    assert f"Topic: {name}" in described
    assert "PartitionCount: 2" in described
    assert "retention.ms=100000000" in described
    assert "Leader: 1" in described

    lines = [f"k{n}:v{n}" for n in range(20)]
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run(CONSOLE_PRODUCER, "--topic", name, *keyed, stdin="\n".join(lines) + "\n")
    assert sum(int(line.rpartition(":")[2]) for line in run(OFFSETS, "--topic", name).split()) == 20

    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    read = run(
        *(CONSOLE_CONSUMER, "--topic", name, "--group", name, "--from-beginning", "--max-messages", "20"), *shown
    )
    assert sorted(read.split()) == sorted(lines)

    listed = rows(run(GROUPS, "--describe", "--group", name))
    assert {row["TOPIC"] for row in listed} == {name}
    assert [row["LAG"] for row in listed] == ["0", "0"]
    assert name in run(GROUPS, "--list").split()
    reset = run(GROUPS, "--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    assert [row["NEW-OFFSET"] for row in rows(reset)] == ["0", "0"]
    assert sum(int(row["LAG"]) for row in rows(run(GROUPS, "--describe", "--group", name))) == 20
    state = rows(run(GROUPS, "--describe", "--state", "--group", name))
    assert "Empty" in state[0].values()


def test_verifiable_clients(run: Run, broker: BrokerProcess, name: str):
    """CT12: what Kafka's own system tests run: every record acknowledged, every record consumed and committed."""
    harness.create_topic(broker.address, name)
    produced = run(VERIFIABLE_PRODUCER, "--topic", name, "--max-messages", "3000", "--acks", "-1")
    events = [json.loads(line) for line in produced.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == 3000
    consumed = run(
        *(VERIFIABLE_CONSUMER, "--topic", name, "--group-id", name, "--max-messages", "3000"),
        *("--reset-policy", "earliest", "--session-timeout", "6000"),
    )
    events = [json.loads(line) for line in consumed.splitlines()]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 3000
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in committed)
    last = {o["partition"]: o["offset"] for event in committed for o in event["offsets"]}
    assert sum(last.values()) == 3000


@pytest.mark.slow
def test_the_other_tools(run: Run, broker: BrokerProcess, name: str):
    """CT12: alter, delete, configs, delete-records, log-dirs, groups, versions, cluster id."""
    harness.create_topic(broker.address, name, 2)
    harness.create_topic(broker.address, f"{name}-b", 1)
    assert {name, f"{name}-b"} <= set(run(TOPICS, "--list").split())
    run(TOPICS, "--alter", "--topic", name, "--partitions", "4")
    assert "PartitionCount: 4" in run(TOPICS, "--describe", "--topic", name)

    configs = ("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", name)
    run(*configs, "--alter", "--add-config", "max.message.bytes=4096")
    assert "max.message.bytes=4096" in run(*configs, "--describe")
    assert "retention.ms=" in run(*configs, "--describe", "--all")
    run(*configs, "--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes=4096" not in run(*configs, "--describe")

    run(VERIFIABLE_PRODUCER, "--topic", name, "--max-messages", "100")
    offsets = dict(line.rsplit(":", 1) for line in run(OFFSETS, "--topic", name, "--time", "-1").split())
    partition = next(head.split(":")[1] for head, count in offsets.items() if int(count) > 5)
    chosen = json.dumps({"partitions": [{"topic": name, "partition": int(partition), "offset": 5}], "version": 1})
    file = broker.directory / "delete.json"
    file.write_text(chosen)
    assert "low_watermark: 5" in run("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert f"{name}:{partition}:5" in run(OFFSETS, "--topic", name, "--time", "earliest").split()
    assert f"{name}:0:-1" not in run(OFFSETS, "--topic", name, "--time", "latest").split()

    folders = run("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", name)
    told = json.loads(next(line for line in folders.splitlines() if line.startswith("{")))
    assert {p["partition"] for p in told["brokers"][0]["logDirs"][0]["partitions"]} == {f"{name}-{n}" for n in range(4)}

    run(CONSOLE_CONSUMER, "--topic", name, "--group", name, "--from-beginning", "--max-messages", "50")
    assert name in run("org.apache.kafka.tools.GroupsCommand", "--list")
    run(GROUPS, "--delete-offsets", "--group", name, "--topic", name)
    assert "deleted" in run(GROUPS, "--delete", "--group", name) or name not in run(GROUPS, "--list").split()

    versions = run("org.apache.kafka.tools.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to" in versions
    assert "ListGroups(16): 0 to 5" in versions
    assert "Cluster ID: " in run("org.apache.kafka.tools.ClusterTool", "cluster-id")
    run(TOPICS, "--delete", "--topic", f"{name}-b")
    assert f"{name}-b" not in run(TOPICS, "--list").split()
