"""Kafka's own tools by their names: the lines of compose files that run them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli.added_configs import parse_added
from cli.errors import UsageError
from cli.kafka_tools import TOOLS, tool_of
from tests.cli.conftest import Run, fill, kohort
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker_process import BrokerProcess


def test_a_program_is_the_tool_that_it_is_called(tmp_path: Path, broker: BrokerProcess) -> None:
    """A link under the tool's name, as in the image."""
    program = tmp_path / "kohort"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    link = tmp_path / "kafka-topics.sh"
    link.symlink_to(program)
    ended = subprocess.run(
        [str(link), "--bootstrap-server", broker.address, "--list"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert tool_of("/opt/kafka/bin/kafka-consumer-groups.sh") == "kafka-consumer-groups"
    assert tool_of("/usr/bin/kohort") is None


def test_set_up_commands_of_compose_files(run: Run, name: str) -> None:
    """Topics are made, grown, looked at and deleted with Kafka's arguments."""
    create = ("kafka-topics.sh", "--create", "--if-not-exists", "--topic", name, "--replication-factor=1")
    for _ in range(2):
        assert run(*create, "--partitions", "2", "--config", "cleanup.policy=compact").code == 0
    described = run("kafka-topics.sh", "--describe", "--topic", name).out
    assert "PartitionCount: 2" in described
    assert "cleanup.policy=compact" in described
    assert run("kafka-topics", "--alter", "--topic", name, "--partitions", "3").code == 0
    assert name in run("kafka-topics.sh", "--list", "--exclude-internal").out.split()

    configs = ("kafka-configs.sh", "--entity-type", "topics", "--entity-name", name)
    done = run(*configs, "--alter", "--add-config", "retention.ms=100000,cleanup.policy=[compact,delete]")
    assert done.out == f"Completed updating config for topic {name}.\n"
    assert "  cleanup.policy=compact,delete sensitive=false\n" in run(*configs, "--describe").out
    assert run(*configs, "--alter", "--delete-config", "retention.ms").code == 0
    assert "retention.ms" not in run(*configs, "--describe").out
    assert "retention.ms=604800000" in run(*configs, "--describe", "--all").out

    assert run("kafka-topics.sh", "--delete", "--topic", name).code == 0
    assert run("kafka-topics.sh", "--delete", "--topic", name, "--if-exists").code == 0
    assert run("kafka-topics.sh", "--delete", "--topic", name).code == 1


def test_the_usual_health_checks(run: Run) -> None:
    versions = run("kafka-broker-api-versions.sh")
    assert versions.code == 0
    assert "(id: 1 rack: null isFenced: false) -> (\n\tProduce(0): 0 to " in versions.out
    assert "\tFetch(1): 4 to " in versions.out
    assert run("kafka-topics.sh", "--list").code == 0
    assert run("kafka-consumer-groups.sh", "--list").code == 0
    for tool in TOOLS:
        assert kohort(tool, "--version").code == 0
    for words in (("kafka-broker-api-versions.sh",), ("kafka-topics.sh", "--list")):
        assert kohort(*words, "--bootstrap-server", "127.0.0.1:1").code == 1


def test_the_other_questions_that_health_checks_ask(run: Run, broker: BrokerProcess, name: str) -> None:
    """kafka-cluster.sh cluster-id and kafka-get-offsets.sh, with Kafka's filters."""
    asked = run("kafka-cluster.sh", "cluster-id")
    meta = (broker.data / "meta.properties").read_text()
    assert asked.out.removeprefix("Cluster ID: ").strip() in meta
    assert (asked.code, asked.out.startswith("Cluster ID: ")) == (0, True)

    fill(broker.address, name, partitions=3, records=4)
    offsets = ("kafka-get-offsets.sh", "--topic", f"{name[:-1]}.")
    ends = [int(line.rpartition(":")[2]) for line in run(*offsets).out.splitlines()]
    assert (len(ends), sum(ends)) == (3, 12)
    assert run(*offsets, "--time", "-2", "--partitions", "0,2").out == f"{name}:0:0\n{name}:2:0\n"
    assert run(*offsets, "--time", "4102444800000", "--partitions", "1").out == ""
    chosen = run("kafka-get-offsets.sh", "--topic-partitions", f"{name}:1-,nothing:0", "--time", "earliest")
    assert chosen.out == f"{name}:1:0\n{name}:2:0\n"
    assert run("kafka-get-offsets.sh", "--topic", "nothing").code == 1
    for words in (("--time", "noon"), ("--partitions", "x"), ("--partitions", "1-2"), ("--topic", "(")):
        assert run("kafka-get-offsets.sh", *words).code == 2


def test_console_clients_and_a_group(run: Run, name: str) -> None:
    """Records in and out with Kafka's properties, then the group that read them."""
    run("kafka-topics.sh", "--create", "--topic", name)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    sent = run("kafka-console-producer.sh", "--topic", name, *keyed, "--compression-codec", "gzip", stdin="a:1\nb:2\n")
    assert (sent.code, sent.out) == (0, "")
    read = run(
        *("kafka-console-consumer.sh", "--topic", name, "--from-beginning", "--max-messages", "2", "--group", name),
        *("--property", "print.key=true", "--property", "key.separator=-", "--timeout-ms", "10000"),
    )
    assert read.out == "a-1\nb-2\n"
    (row,) = run("kafka-consumer-groups.sh", "--describe", "--group", name).rows()
    assert row["LAG"] == "0"
    reset = ("--reset-offsets", "--group", name, "--topic", name, "--to-earliest", "--execute")
    (row,) = run("kafka-consumer-groups.sh", *reset).rows()
    assert row["NEW-OFFSET"] == "0"
    assert run("kafka-consumer-groups.sh", "--delete", "--group", name).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("kafka-topics.sh",),
        ("kafka-topics.sh", "--list", "--describe"),
        ("kafka-topics.sh", "--list", "--zookeeper", "zk:2181"),
        ("kafka-configs.sh", "--describe"),
        ("kafka-configs.sh", "--alter", "--broker", "1", "--add-config", "a=b", "--add-config-file", "/dev/null"),
        ("kafka-configs.sh", "--alter", "--broker", "1", "--add-config-file", "/no/such/file"),
        ("kafka-console-consumer.sh",),
        ("kafka-console-producer.sh", "--topic", "t", "--property", "parse.key"),
    ],
)
def test_what_makes_no_command_is_refused(words: tuple[str, ...]) -> None:
    ended = kohort(*words)
    assert ended.code == 2
    assert ended.err.startswith("kohort: ")


def test_configs_are_read_as_kafka_writes_them() -> None:
    assert parse_added("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    assert parse_added("") == {}
    for wrong in ("a", "a=1,b", "=1"):
        with pytest.raises(UsageError):
            parse_added(wrong)
