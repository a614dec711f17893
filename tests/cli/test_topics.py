"""`kohort topics` against a broker."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run


def test_a_topic_is_created_described_altered_and_deleted(run: Run, name: str) -> None:
    made = run("topics", "create", name, "--partitions", "2", "--config", "retention.ms=100000000")
    assert (made.code, made.out) == (0, f"Created topic {name}.\n")
    assert name in run("topics", "list").out.split()
    described = run("topics", "describe", "--topic", name).out
    assert described.startswith(f"Topic: {name}\tTopicId: ")
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: " in described
    assert "retention.ms=100000000" in described
    assert f"\tTopic: {name}\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n" in described

    words = ("--partitions", "3", "--config", "max.message.bytes=5000", "--delete-config", "retention.ms")
    assert run("topics", "alter", name, *words).code == 0
    (topic,) = run("topics", "describe", name, "--json").json
    assert topic["partition_count"] == len(topic["partitions"]) == 3
    assert topic["configs"]["max.message.bytes"] == "5000"
    assert "retention.ms" not in topic["configs"]

    assert run("topics", "delete", name).out == f"Deleted topic {name}.\n"
    assert name not in run("topics", "list").out.split()


def test_what_is_there_or_not_can_be_no_error(run: Run, name: str) -> None:
    assert run("topics", "create", name, "--if-not-exists").code == 0
    again = run("topics", "create", name, "--if-not-exists")
    assert (again.code, again.out, again.err) == (0, "", "")
    assert run("topics", "create", name).code == 1
    for words in (("delete",), ("describe",), ("alter", "--partitions", "9")):
        assert run("topics", words[0], f"{name}-not", *words[1:], "--if-exists").code == 0
        ended = run("topics", words[0], f"{name}-not", *words[1:])
        assert ended.code == 1
        assert f"did you mean '{name}'?" in ended.err


def test_one_of_several_fails_alone(run: Run, name: str) -> None:
    """Exit code 1 when an item failed; the others are done."""
    ended = run("topics", "create", name, "bad name")
    assert (ended.code, ended.out) == (1, f"Created topic {name}.\n")
    assert ended.err.startswith("kohort: topic 'bad name' could not be created: ")


def test_a_wrong_config_is_refused_in_the_brokers_words(run: Run, name: str) -> None:
    ended = run("topics", "create", name, "--config", "retention.ms=soon")
    assert ended.code == 1
    assert "Invalid value soon for configuration retention.ms" in ended.err
    run("topics", "create", name)
    ended = run("topics", "alter", name, "--config", "no.such.config=1")
    assert (ended.code, "no.such.config" in ended.err) == (1, True)


def test_a_pattern_names_topics(run: Run, name: str) -> None:
    """As in Kafka's tool: what cannot be a name is a regular expression."""
    run("topics", "create", f"{name}-a", f"{name}-b")
    described = run("topics", "describe", f"{name}-(a|b)", "--json").json
    assert [topic["topic"] for topic in described] == [f"{name}-a", f"{name}-b"]
    assert run("topics", "delete", f"{name}-.*").code == 0
    assert name not in run("topics", "list").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create",), "name a TOPIC"),
        (("create", "t", "--partitions", "0"), "positive number"),
        (("create", "t", "--config", "retention.ms"), "it takes key=value"),
        (("alter", "t"), "alter takes --partitions"),
        (("describe", "(", "--json"), "no regular expression"),
        (("list", "--nonsense"), "unrecognized arguments: --nonsense"),
    ],
)
def test_what_makes_no_command_is_refused(run: Run, words: tuple[str, ...], sentence: str) -> None:
    ended = run("topics", *words)
    assert ended.code == 2
    assert sentence in ended.err
