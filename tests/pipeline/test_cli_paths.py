"""`kohort pipeline`: options that would not be heeded, moments that are none, places that are not written to."""

import base64
import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import command_line, jobs
from pipeline.cli import main
from pipeline.errors import DataError, UsageError
from pipeline.jobs import output
from pipeline.jobs.output import _csv, _padded
from pipeline.paths import check_remote_target
from protocol.records import consumer_group_records as cg
from protocol.records import group_records as g
from tests.pipeline.capture import unpack
from tests.pipeline.histories import Writer
from tests.pipeline.logs import T0, Log, commit
from tests.pipeline.test_cli import run
from tests.pipeline.told import told

__all__ = ["run"]
BROKER = ("--from", "localhost:9092")
ODD_NAMES = (" lead", "trail ", "a,b", 'a"b', "a\nb", "a\rb", "a\\", "", "grüppe", "\ttab", "-")

READERS: dict[str, Callable[[str], Iterable[dict[str, Any]]]] = {
    "csv": lambda text: csv.DictReader(io.StringIO(text, newline="")),
    "json": lambda text: [json.loads(line) for line in text.split("\n") if line],
}


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """refused(word, ...) -> the first line on standard error, with exit code 2 and no session started."""
    monkeypatch.setattr("pipeline.session.build", lambda **_: pytest.fail("Spark was started"))

    def call(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.splitlines()) == 2
        return said.err.splitlines()[0]

    return call


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["groups", "--since", "-1h"], "groups takes no --since; --since is for commits, generations, "),
        (["groups", "--topic", "orders"], "groups takes no --topic"),
        (["state", "--at", "-1h", "--until", "-1h"], "state takes no --until"),
        (["commits", "--every", "1m"], "--every is for lag, growth and report"),
        (["lag", "--for", "1m"], "--for is for stuck and report"),
        (["lag", "--now", "--until", "-1h"], "--now is this moment"),
        (["restore", "--at", "-1h", "--limit", "3"], "restore takes no --limit"),
        (["restore", "--at", "-1h", "--format", "json"], "restore has a format of its own"),
        (["commits", "--on-loss", "continue"], "--on-loss is for --stream"),
        (["commits", "--watermark", "1m"], "--watermark is for --stream"),
        (["commits", "--stream", "--to", "o", "--checkpoint", "c", "--until", "-1h"], "--stream takes no --until"),
        (
            ["commits", "--stream", "--to", "o", "--checkpoint", "c", "--max-offsets", "0"],
            "--max-offsets must be above",
        ),
        (["commits", "--limit", "99999999999"], "--limit is at most"),
        (["lag", "--every", "99999999999d"], "--every 99999999999d: at most a hundred years"),
        (["state", "--at", "99999999999999999999"], "a moment is ISO 8601"),
        (["state", "--at", "-2w"], "--at -2w: a moment is ISO 8601"),
        (["state", "--at", "1795276323"], "--at 1795276323 looks like seconds; epoch moments are milliseconds"),
    ],
)
def test_what_would_not_be_heeded_is_refused(words: list[str], says: str, refused: Any) -> None:
    """An option that a verb left out without a word would make its numbers answers to another question."""
    assert says in refused(*words, *BROKER)


def test_directories_may_be_named_one_by_one_but_not_with_a_broker(refused: Any, tmp_path: Path) -> None:
    """--from given twice is a comma list."""
    three = tmp_path / "log"
    (three / "orders-0").mkdir(parents=True)
    assert "cannot be read together" in refused("groups", "--from", f"{three},localhost:9092")
    assert "cannot be read together" in refused("groups", "--from", three, *BROKER)
    assert "no consumer group was ever there, or its logs lie in another" in refused("groups", "--from", three)
    (tmp_path / "none").mkdir()
    assert "no <topic>-<partition> folder in it, it is empty" in refused("groups", "--from", tmp_path / "none")


def test_a_log_directory_is_never_written_to_nor_over(refused: Any, tmp_path: Path) -> None:
    """Not with --overwrite either: that would delete what is read."""
    log = tmp_path / "data"
    (log / "__consumer_offsets-0").mkdir(parents=True)
    (log / "meta.properties").touch()
    for to in (log, log / "out", log / ".." / "data", tmp_path):
        assert "log directory" in refused("groups", "--from", log, "--to", to, "--overwrite")
    assert "log directory" in refused("groups", "--from", log / "__consumer_offsets-0", "--to", log / "out")
    stream = ("commits", "--stream", "--from", log, "--to", tmp_path / "out")
    assert "log directory" in refused(*stream, "--checkpoint", log / "checkpoint")
    assert "is no place to write to" in refused("groups", "--from", log, "--to", "/", "--overwrite")
    assert (log / "meta.properties").exists()


def test_a_place_that_cannot_be_written_to_is_named_before_spark_starts(
    refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where a folder must be, a folder where a file must be, no permission."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").touch()
    assert f"{tmp_path / 'file'} is a file" in refused("groups", *BROKER, "--to", tmp_path / "file" / "x")
    for verb, *more in (("report",), ("restore", "--at", "-1h")):
        said = refused(verb, *more, *BROKER, "--to", tmp_path / "folder", "--overwrite")
        assert "is a directory; name the file" in said
    stream = ("commits", "--stream", *BROKER)
    assert "is a file; name a folder" in refused(*stream, "--to", tmp_path / "file", "--checkpoint", tmp_path / "c")
    assert "is a file; name a folder" in refused(*stream, "--to", tmp_path / "o", "--checkpoint", tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as it is for who is not root
    assert f"{tmp_path} cannot be written to" in refused("report", *BROKER, "--to", tmp_path / "page.html")


def test_a_disk_that_does_not_take_the_answer_is_one_sentence(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trace, exit 1; and folders on the way to a file are made."""
    directory, said = unpack("kohort", tmp_path)
    words = ("restore", "--from", directory, "--group", "kp", "--at", said["stopped_at_ms"], "--to")
    page = tmp_path / "new" / "folder" / "offsets.csv"
    assert run(*words, page)[0] == 0
    assert len(page.read_text().splitlines()) == 6

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "offsets.csv.partial")

    monkeypatch.setattr(Path, "write_text", full)
    code, _, err = run(*words, tmp_path / "other.csv")
    assert (code, told(err)) == (1, ["kohort pipeline: offsets.csv.partial: no space left on device"])


@pytest.mark.parametrize("fails", [DataError("the log is torn"), KeyboardInterrupt()])
def test_what_failed_leaves_nothing_behind(
    fails: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the answer nor the half of it that was there: on this machine, elsewhere, and of one file."""
    directory, _ = unpack("kohort", tmp_path)
    made: list[str] = []

    def save(_frame: Any, _format: str, path: str, _date: str | None) -> None:
        made.append(path)
        Path(path).mkdir(parents=True)
        (Path(path) / "part-0").write_text("half")
        raise fails

    monkeypatch.setattr(output, "save", save)
    tables = [output.Table("offset_commits", SimpleNamespace(columns=[]), ())]  # type: ignore[arg-type]  # no Spark
    out = tmp_path / "out"
    command = command_line.read(["commits", "--from", str(directory), "--to", str(out)])
    with pytest.raises(type(fails)):
        output.write(tables, SimpleNamespace(command=command))  # type: ignore[arg-type]  # as above
    assert made == [f"{out}.partial/offset_commits"]

    elsewhere: list[str] = []
    steps = {name: lambda name=name: elsewhere.append(name) for name in ("clear", "finish")}
    place = SimpleNamespace(partial=str(tmp_path / "elsewhere.partial"), uri="hdfs://n/out", **steps)
    monkeypatch.setattr(output, "target", lambda *_: place)
    with pytest.raises(type(fails)):
        output.write(tables, SimpleNamespace(command=replace(command, to_uri="hdfs://n/out"), spark=None))  # type: ignore[arg-type]  # as above
    assert elsewhere == ["clear", "clear"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        output.put_text(tmp_path / "page.html", "text")
    assert {path.name for path in tmp_path.iterdir()} == {
        directory.name,
        "elsewhere.partial",
    }  # of that only its end was played


def test_what_spark_says_is_cut_to_what_helps() -> None:
    """The cause at the bottom, not what was called; a condition without its number."""
    text = "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat x\n"
    text += "Caused by: java.io.IOException: Mkdirs failed to create file:/x\n\tat y"
    with pytest.raises(DataError, match=r"^Spark: java\.io\.IOException: Mkdirs failed to create file:/x$"):
        jobs.explain(RuntimeError(text))
    with pytest.raises(DataError, match=r"^two copies of a record differ, 0-0: a and b$"):
        jobs.explain(
            RuntimeError("[USER_RAISED_EXCEPTION] two copies of a record differ, 0-0: a and b SQLSTATE: P0001")
        )


def test_odd_names_are_whole_in_csv_and_json(run: Any, tmp_path: Path) -> None:
    """Blanks at the ends, line ends, quotes, an empty name: in files and on the screen they are read as written."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    log.append([commit(name, "orders", 0, n) for n, name in enumerate(ODD_NAMES)])
    for format_ in ("csv", "json"):
        words = ("state", "--from", tmp_path / "log", "--at", "2100-01-01", "--format", format_)
        code, out, _ = run(*words)
        assert code == 0
        code, _, err = run(*words, "--to", tmp_path / format_)
        assert code == 0
        assert err.splitlines()[-1].startswith(f"kohort pipeline state: {len(ODD_NAMES)} rows from 11 records")
        for texts in ([out], _parts(tmp_path / format_ / "state_at")):
            names = [row["group_id"] for text in texts for row in READERS[format_](text)]
            assert sorted(names) == sorted(ODD_NAMES), (format_, texts)
    assert _csv(["", None, True, 'a"b', "x\ry", 1.5]) == '"",,true,"a""b","x\ry",1.5'


def _parts(folder: Path) -> list[str]:
    return [part.read_bytes().decode() for part in folder.glob("part-*")]


def test_a_table_lines_up_on_a_terminal() -> None:
    """Numbers to the right; wide signs take two columns, combining marks none."""
    assert (_padded("7", 3, True), _padded("a", 3, False)) == ("  7", "a  ")
    assert _padded("注文", 5, False) == "注文 "
    assert _padded("e\u0301", 3, False) == "e\u0301  "


def test_what_was_written_later_is_not_looked_at(run: Any, tmp_path: Path) -> None:
    """--until: rebalances of the ledger, the log ends of groups, last moments; as if the rest were not there."""
    directory, _ = unpack("kohort", tmp_path)

    def rows(verb: str, *words: str) -> list[dict[str, Any]]:
        code, out, err = run(verb, "--from", directory, "--format", "json", *words)
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    every = rows("rebalances")
    until = "2026-11-21T15:52:02.900Z"  # no rebalance ended within 200 ms of it
    kept = rows("rebalances", "--until", until)
    assert kept == [row for row in every if row["finished_at"] < until] != every
    grid = rows("lag", "--every", "1ms", "--until", until)
    at_end = {}
    for row in sorted(grid, key=lambda row: row["at"]):
        at_end[row["group_id"], row["topic"], row["partition"]] = row["lag_messages"]
    for group in rows("groups", "--until", until):
        name = group["group_id"]
        assert group["lag_messages"] == sum(lag for pair, lag in at_end.items() if pair[0] == name)
        assert max(filter(None, (group["last_rebalance_at"], group["last_commit_at"]))) < until


def test_rebalances_of_one_moment_are_shown_newest_first(run: Any, tmp_path: Path) -> None:
    """Two epochs that were settled in one millisecond: the last member goes, and another comes."""
    history = Writer()
    history.step_epoch("k0", [0], True)
    history.step_clock(1_000)
    history.step_left("k0", 0)
    history._member("k0", "k0-m1", 1, ["orders"])
    history._typed("k0", g.ConsumerGroupMetadataKey("k0"), cg.ConsumerGroupMetadataValue(epoch=4))
    target = cg.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=0)
    history._typed("k0", g.ConsumerGroupTargetAssignmentMetadataKey("k0"), target)
    history._current("k0", "k0-m1", 4, [0])
    history.step_end(False, False)
    history.write(tmp_path / "log")
    code, out, _ = run("rebalances", "--from", tmp_path / "log", "--group", "k0", "--format", "json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["to_generation"] for row in rows] == [4, 3]
    assert len({row["finished_at"] for row in rows}) == 1


def test_an_epoch_that_nobody_reached_is_told_as_missing(run: Any, tmp_path: Path) -> None:
    """Of Kafka's own: one member goes, and before there is a target for epoch 4 the other one goes too."""
    directory, _ = unpack("kafka-4.3.1", tmp_path)
    code, out, _ = run("rebalances", "--from", directory, "--group", "next", "--format", "json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["to_generation"], row["missing_generations"]) for row in rows] == [(5, 1), (3, 0)]


def test_binary_columns_are_one_line_in_csv(run: Any, tmp_path: Path) -> None:
    """Spark would break base64 after 76 signs."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    log.append([(b"\0\x2a" + bytes(200), b"v" * 300)])
    code, out, _ = run("records", "--from", tmp_path / "log", "--format", "csv")
    assert code == 0
    [row] = csv.DictReader(io.StringIO(out))
    assert len(out.splitlines()) == 2
    assert base64.b64decode(row["value"]) == b"v" * 300


def test_nothing_to_restore_is_no_success(run: Any, tmp_path: Path) -> None:
    """A script that goes on with the file would find an old one."""
    Log(tmp_path / "log", "__consumer_offsets", 0).append([commit("g", "orders", 0, 5)])
    words = ("restore", "--from", tmp_path / "log", "--at", "2100-01-01", "--group", "nobody", "--to", tmp_path / "f")
    code, _, err = run(*words)
    assert (code, "nothing was done" in err, (tmp_path / "f").exists()) == (1, True, False)


def test_a_grid_that_no_machine_could_hold_is_refused(run: Any, tmp_path: Path) -> None:
    """A clock that once stood at 1970: the sentence says from when, and --since helps."""
    log = Log(tmp_path / "log", "__consumer_offsets", 0)
    log.append([commit("g", "orders", 0, 5)], timestamps=[0])
    log.append([commit("g", "orders", 0, 6)])
    code, _, err = run("lag", "--from", tmp_path / "log")
    assert (code, "from 1970-01-01 00:00:00 on that are 28," in err) == (2, True), err
    code, out, err = run("lag", "--from", tmp_path / "log", "--since", T0 - 60_000)
    assert (code, len(out.splitlines())) == (0, 3), err


@pytest.mark.parametrize(
    ("to", "source"),
    [
        ("s3a://bucket/logs", "s3://bucket/logs"),
        ("s3a://bucket//logs/", "s3://bucket/logs/orders-0"),
        ("abfss://c@account.dfs.core.windows.net/logs", "abfs://c@account.dfs.core.windows.net/logs"),
        ("hdfs:///logs", "hdfs://name:8020/logs"),
        ("hdfs://name/logs/out", "hdfs://name:8020/logs"),
        ("HDFS://name:8020/logs", "hdfs://name:8020/logs"),
        ("gs://bucket/logs", "gcs://bucket/logs"),
    ],
)
def test_a_log_directory_elsewhere_is_not_written_into_by_another_of_its_names(to: str, source: str) -> None:
    """--overwrite would remove it."""
    with pytest.raises(UsageError, match="lie in one another"):
        check_remote_target("--to", to, [source])
    check_remote_target("--to", to.partition("//")[0] + "//elsewhere/logs2", [source, "/var/logs"])
