"""`kohort pipeline`: what is refused before Spark starts, and every verb on directories that real clients wrote."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import command, command_line, jobs, options
from pipeline.cli import main
from pipeline.errors import DataError, UsageError
from pipeline.jobs.output import _cell
from protocol.records import consumer_group_records as cg
from protocol.records import group_records as g
from protocol.types import uuid_text
from tests.pipeline.capture import unpack
from tests.pipeline.logs import Log
from tests.pipeline.logs import commit as commit_pair
from tests.support.broker_process import ROOT, BrokerProcess, eventually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def kohort(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A directory of Kohort's, and what its clients said."""
    return unpack("kohort", tmp_path_factory.mktemp("golden"))


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """run(word, ...) -> (exit code, standard output, standard error), in this process, in the tests' own session.

    What Python prints, and not what is written to the descriptors: clients of other tests, whose broker is gone, and
    that nobody has collected yet, may complain there at any moment.
    """
    monkeypatch.setattr("pipeline.session.build", lambda **_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    level = spark.sparkContext

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        level.setLogLevel("ERROR")
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lag"], "--from"),
        (["wrong", "--from", "."], "VERB: invalid choice: 'wrong'"),
        (["lag", "--from", "/nowhere/at/all"], "no such directory"),
        (["lag", "--from", "{empty}"], "no log directory"),
        (["restore", "--from", "localhost:9092"], "restore needs --at"),
        (["state", "--from", "localhost:9092", "--at", "yesterday"], "a moment is ISO 8601"),
        (["lag", "--from", "localhost:9092", "--at", "-2h"], "--at is for state and restore"),
        (["lag", "--from", "localhost:9092", "--since", "-1h", "--until", "-2h"], "not before"),
        (["lag", "--from", "localhost:9092", "--every", "fast"], "a span is 30s"),
        (["lag", "--from", "localhost:9092", "--format", "parquet"], "needs --to"),
        (["lag", "--from", "localhost:9092", "--to", "{full}"], "not empty; --overwrite"),
        (["membership", "--from", "localhost:9092", "--stream"], "membership does not stream"),
        (["lag", "--from", "localhost:9092", "--stream"], "--checkpoint DIR"),
        (["restore", "--from", "{log}", "--at", "-1h", "--execute"], "--execute needs --bootstrap"),
        (["report", "--from", "localhost:9092"], "report needs --to"),
        (["lag", "--from", "localhost:9092", "--wrong"], "unrecognized arguments: --wrong"),
    ],
)
def test_pl33_what_is_asked_wrongly_is_said_before_spark_starts(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PL33: exit 2 and one sentence, without a session."""
    monkeypatch.setattr("pipeline.session.build", lambda **_: pytest.fail("Spark was started"))
    places = {name: tmp_path / name for name in ("empty", "full", "log")}
    for place in places.values():
        place.mkdir()
    (places["full"] / "file").touch()
    (places["log"] / "__consumer_offsets-0").mkdir()
    assert main([word.format(**places) for word in words]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""
    assert len(said.err.splitlines()) == 2


def test_pl33_usage_errors_import_no_spark(tmp_path: Path) -> None:
    """PL33: in a process of its own; 300 ms on a machine that does nothing else, so only imports are asserted."""
    script = (
        "import sys; from pipeline.cli import main; "
        "code = main(['state', '--from', sys.argv[1], '--at', 'yesterday']); "
        "print(code, sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'pyarrow', 'numpy', 'pandas'}))"
    )
    (tmp_path / "orders-0").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2 []"


def test_pl33_without_java_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """PL33: nothing on PATH, nothing in JAVA_HOME."""
    (tmp_path / "__consumer_offsets-0").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    words = [sys.executable, "-m", "pipeline.cli", "groups", "--from", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("kohort pipeline needs Java 17 or newer, and found none on PATH or in JAVA_HOME.")
    assert len(done.stderr.splitlines()) == 1


def test_help_says_of_every_verb_what_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks a broker, or pays for a store by the byte, knows before what a question costs."""
    assert {what.split()[0] for what in command.READS} == set(command.VERBS)
    assert list(dict.fromkeys(what.split()[0] for what in command.READS)) == list(command.VERBS)
    assert main(["lag", "--help"]) == 0
    said = capsys.readouterr().out
    told = " ".join(said.partition("what is read, in bytes:")[2].split())
    for what, cost in command.READS.items():
        assert f"{what} {cost}" in told, what
    assert max(map(len, said.splitlines())) <= 120


def test_moments_are_written_as_people_do() -> None:
    """ISO 8601 with and without a zone, epoch milliseconds, ago."""
    assert options.parse_moment("2026-03-01T12:00:00Z", NOW) == NOW
    assert options.parse_moment("2026-03-01T13:00:00+01:00", NOW) == NOW
    assert options.parse_moment("2026-03-01 12:00", NOW) == NOW
    assert options.parse_moment(str(int(NOW.timestamp() * 1000)), NOW) == NOW
    assert options.parse_moment("-2h", NOW) == NOW - timedelta(hours=2)
    asking = command_line.read(["lag", "--from", "localhost:9092,[::1]:9092", "--since", "-90m"])
    assert asking.since is not None
    assert (asking.requested_at - asking.since, asking.broker) == (timedelta(minutes=90), "localhost:9092,[::1]:9092")


def test_spark_errors_become_one_sentence() -> None:
    """The pipeline's own words from the bottom of a worker's trace; else Spark's condition."""
    trace = "Job aborted\nTraceback\n  File x\npipeline.errors.UsageError: there is no such topic\n\tat java"
    with pytest.raises(UsageError, match=r"^there is no such topic$"):
        jobs.explain(RuntimeError(trace))
    with pytest.raises(DataError, match=r"^Spark: \[DIVIDE_BY_ZERO\] Division by zero"):
        jobs.explain(RuntimeError("x\norg.apache: [DIVIDE_BY_ZERO] Division by zero. Use try_divide\n\tat y"))
    with pytest.raises(DataError, match=r"storage|position 7"):
        jobs.explain(RuntimeError("a\npipeline.sources.segment_reader.CorruptBatch: file at position 7: CRC"))


def test_groups_are_what_their_clients_said(run: Any, kohort: tuple[Path, dict[str, Any]]) -> None:
    """The main question, on a directory of Kohort's: every group, its generation, its partitions."""
    directory, said = kohort
    code, out, err = run("groups", "--from", directory, "--format", "json")
    assert code == 0
    rows = {row["group_id"]: row for row in map(json.loads, out.splitlines())}
    for group, topics in said["committed"].items():
        assert rows[group]["partitions"] == sum(map(len, topics.values())), group
    for group, owners in said["owners"].items():
        if owners:
            assert rows[group]["generation"] >= max(entry[0] for entry in owners)
    assert {row["state"] for name, row in rows.items() if name in said["deleted"]} <= {"Removed"}
    last = err.splitlines()[-1]
    assert last.startswith(f"kohort pipeline groups: {len(rows)} rows from ")
    assert "0 undecoded, 0 batches skipped" in last


def test_files_are_written_aside_and_named_after_their_tables(
    run: Any, spark: SparkSession, kohort: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Parquet, JSON lines and CSV have the same rows; nothing is replaced unasked."""
    directory, _ = kohort
    rows = {}
    for format_ in ("parquet", "json", "csv"):
        code, out, err = run("commits", "--from", directory, "--to", tmp_path / format_, "--format", format_)
        assert (code, out) == (0, "")
        assert [place.name for place in (tmp_path / format_).iterdir()] == ["offset_commits"]
        assert not (tmp_path / f"{format_}.partial").exists()
        rows[format_] = int(err.split(" rows from ")[0].rsplit(" ", 1)[1].replace(",", ""))
        assert f"{rows[format_]:,} rows from " in err
    assert len(set(rows.values())) == 1
    written = spark.read.parquet(str(tmp_path / "parquet" / "offset_commits"))
    assert written.count() == rows["parquet"] > 0
    line = spark.read.text(str(tmp_path / "json" / "offset_commits")).first()
    assert line is not None
    assert json.loads(line.value)["logged_at"].endswith("Z")
    assert run("commits", "--from", directory, "--to", tmp_path / "json")[0] == 2


def test_pl27_restore_writes_what_kafkas_tool_reads(
    run: Any, kohort: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """PL27: without the group for one, with it for several; the command is printed."""
    directory, said = kohort
    at = said["stopped_at_ms"]
    code, out, err = run("restore", "--from", directory, "--group", "kp", "--at", at)
    assert code == 0
    offsets = {(topic, int(n)): offset for topic, ns in said["committed"]["kp"].items() for n, offset in ns.items()}
    assert {(topic, int(n)): int(offset) for topic, n, offset in csv.reader(io.StringIO(out))} == offsets
    assert "--reset-offsets --group kp --from-file FILE --dry-run" in err

    code, out, err = run(
        "restore", "--from", directory, "--group", "kp", "--group", "aio", "--at", at, "--to", tmp_path / "f"
    )
    assert (code, out) == (0, "")
    rows = list(csv.reader((tmp_path / "f").read_text().splitlines()))
    assert {row[0] for row in rows} == {"aio", "kp"}
    assert all(len(row) == 4 for row in rows)
    assert f"--group aio --group kp --from-file {tmp_path / 'f'}" in err


def test_commits_in_transactions_are_told_with_their_outcome(
    run: Any, kohort: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """One that was committed and one that was aborted: the second is in this table only."""
    directory, _ = kohort
    words = ("commits", "--transactions", "--from", directory, "--group", "transactional", "--format", "json")
    code, out, _ = run(*words, "--to", tmp_path / "out")
    assert (code, out) == (0, "")

    def rows(table: str) -> list[dict[str, Any]]:
        return [json.loads(line) for file in (tmp_path / "out" / table).glob("part-*") for line in file.open()]

    told = sorted(
        (row["committed_offset"], row["outcome"], row["decided_at"] >= row["logged_at"])
        for row in rows("transactional_commits")
    )
    assert told == [(3, "committed", True), (666, "aborted", True)]
    assert [row["committed_offset"] for row in rows("offset_commits")] == [3]


def test_globs_and_moments_choose_rows(run: Any, kohort: tuple[Path, dict[str, Any]]) -> None:
    """--group, --topic, --since, --until; a glob is no regular expression."""
    directory, _ = kohort

    def commits(*words: str) -> list[dict[str, Any]]:
        code, out, _ = run("commits", "--from", directory, "--format", "json", *words)
        assert code == 0
        return [json.loads(line) for line in out.splitlines()]

    every = commits()
    assert {row["group_id"] for row in commits("--group", "a*", "--group", "k?")} == {"aio", "kp"}
    assert commits("--group", ".*") == commits("--topic", "nothing") == []
    middle = sorted(row["logged_at"] for row in every)[len(every) // 2]
    before, after = commits("--until", middle), commits("--since", middle)
    assert len(before) + len(after) == len(every)
    assert all(row["logged_at"] < middle for row in before)


def test_pl28_the_records_of_a_consumer_group_have_names_and_epochs(run: Any, tmp_path: Path) -> None:
    """PL28: two members over nine partitions at epoch 2; then b leaves."""
    topic_id = bytes(range(16))
    log, orders = Log(tmp_path / "log", "__consumer_offsets", 0), Log(tmp_path / "log", "orders", 0)
    (orders.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(topic_id)}\n")
    shares = {"a": range(5), "b": range(5, 9)}
    records: list[tuple[g.GroupKey, Any]] = [(g.ConsumerGroupMetadataKey("k"), cg.ConsumerGroupMetadataValue(epoch=2))]
    for name, numbers in shares.items():
        held = cg.CurrentTopicPartitions(
            topic_id=topic_id, partitions=list(numbers), assignment_epochs=[2] * len(numbers)
        )
        value = cg.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=1,
            state=0,
            assigned_partitions=[held],
            partitions_pending_revocation=[],
        )
        records.append((g.ConsumerGroupCurrentMemberAssignmentKey("k", name), value))
    records += [
        (g.ConsumerGroupCurrentMemberAssignmentKey("k", "b"), None),
        (g.ConsumerGroupTargetAssignmentMemberKey("k", "b"), None),
        (g.ConsumerGroupMemberMetadataKey("k", "b"), None),
        (g.ConsumerGroupMetadataKey("k"), cg.ConsumerGroupMetadataValue(epoch=3)),
        (
            g.ConsumerGroupRegularExpressionKey("k", "ord.*"),
            cg.ConsumerGroupRegularExpressionValue(topics=["orders"], version=1, timestamp=2),
        ),
    ]
    log.append([(g.encode_key(key), None if value is None else g.encode_value(value)) for key, value in records])
    code, _, err = run("generations", "--from", tmp_path / "log", "--to", tmp_path / "out", "--format", "json")
    assert code == 0, err
    files = sorted((tmp_path / "out" / "consumer_group_records").glob("*.txt"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rows.sort(key=lambda row: int(row["log_offset"]))
    assert [row["group_epoch"] for row in rows if row["group_epoch"]] == [2, 3]
    for row, numbers in zip(rows[1:3], shares.values(), strict=True):
        assert [(p["topic"], p["partition"], p["assignment_epoch"]) for p in row["partitions"]] == [
            ("orders", number, 2) for number in numbers
        ]
    assert [(row["record_type"].removeprefix("consumer_group_"), row["tombstone"]) for row in rows[3:6]] == [
        ("current_member_assignment", True),
        ("target_assignment_member", True),
        ("member_metadata", True),
    ]
    assert (rows[7]["subscribed_topic_regex"], rows[7]["subscribed_topics"]) == ("ord.*", ["orders"])


def test_pl06_what_cannot_be_decoded_is_named_and_strict_fails(run: Any, tmp_path: Path) -> None:
    """PL06: a value of version 5; the other rows are there."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    key, value = commit_pair("g", "orders", 0, 7)
    log.append([(key, value), (key, b"\0\5" + value[2:])])
    words = ("commits", "--from", tmp_path / "log", "--to", tmp_path / "out", "--overwrite")
    code, _, err = run(*words)
    assert code == 0
    assert "1 of 2 records undecoded" in err
    assert "__consumer_offsets-0 offset 1: unknown value version 5 of offset_commit" in err
    assert run(*words, "--strict")[0] == 1


def test_pl34_names_from_the_data_are_shown_and_drive_nothing() -> None:
    """PL34, on a terminal: control characters are written out, a long name is cut, markup is text."""
    assert _cell("<script>alert(1)</script>") == "<script>alert(1)</script>"
    assert _cell("\x1b[2J") == "\\x1b[2J"
    assert (_cell(None), _cell(""), _cell([]), _cell(True), _cell(1.5)) == ("-", "-", "-", "yes", "1.5")
    assert len(_cell("x" * 100)) == 40


@pytest.mark.slow
def test_pl27_restore_puts_offsets_back_and_leaves_groups_at_work_alone(
    run: Any, start_broker: Callable[..., BrokerProcess], request: pytest.FixtureRequest
) -> None:
    """Offsets as of a moment return to a stopped group, from the directory and from the live broker."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    broker = start_broker({"num.partitions": 1})
    producer = Producer({"bootstrap.servers": broker.address})
    for n in range(100):
        producer.produce("orders", b"%d" % n)
    producer.flush()
    settings = {"bootstrap.servers": broker.address, "group.id": "g", "enable.auto.commit": False}
    client = Consumer(settings)
    request.addfinalizer(client.close)

    def commit(offset: int) -> None:
        client.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)

    def committed() -> int:
        return int(client.committed([TopicPartition("orders", 0)], timeout=300)[0].offset)

    commit(12)
    then = round(time.time() * 1000)
    eventually(lambda: time.time() * 1000 > then + 5)
    commit(50)
    words = ("restore", "--group", "g", "--at", then, "--execute")
    code, _, err = run(*words, "--from", broker.data, "--bootstrap", broker.address)
    assert (code, committed()) == (0, 12), err
    assert "group g: 1 offset put back" in err
    commit(60)
    code, _, err = run(*words, "--from", broker.address)
    assert (code, committed()) == (0, 12), err

    member = Consumer(settings)
    request.addfinalizer(member.close)
    member.subscribe(["orders"])
    eventually(lambda: member.poll(0.2) or member.assignment(), deadline_s=120, what="an assignment")
    code, _, err = run(*words, "--from", broker.data, "--bootstrap", broker.address)
    assert code == 1, err
    assert "nothing was changed, stop the members first: g has " in err


@pytest.mark.slow
@pytest.mark.parametrize("verb", [verb for verb in command.VERBS if verb != "report"])
@pytest.mark.parametrize(
    "name", ["kohort", "kafka-4.3.1", pytest.param("kafka-3.9.2-compacted-snappy", marks=pytest.mark.long)]
)
def test_every_verb_answers_on_every_directory(run: Any, verb: str, name: str, tmp_path: Path) -> None:
    """A table on the screen, and the last line."""
    directory, said = unpack(name, tmp_path)
    at = ["--at", said["stopped_at_ms"]] if verb in ("state", "restore") else []
    code, out, err = run(verb, "--from", directory, *at)
    assert code == 0, err
    assert out, err
    ends = [line for line in err.splitlines() if re.match(rf"kohort pipeline {verb}: .* rows? from ", line)]
    assert len(ends) == 1, err
    assert ", 0 undecoded, 0 batches skipped, " in ends[0], err
