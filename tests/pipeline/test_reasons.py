"""Whatever fails, wherever: the user is told what it was. Faults are injected at each boundary that Spark draws."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import register
from pipeline.sources.log_source import KohortLog, LogReader
from pipeline.sources.log_stream import LogStreamReader
from pipeline.sources.options import parse
from protocol.records import consumer_group_records as cg
from protocol.records import group_records as g
from tests.pipeline.logs import Log, commit
from tests.pipeline.test_cli import run
from tests.pipeline.told import told

__all__ = ["run"]
pytestmark = pytest.mark.slow

EPOCHS = "pipeline.transformations.consumer_epochs"


def fail(fault: str) -> None:
    """What may go wrong in any code."""
    if fault == "package":
        import nowhere_installed  # type: ignore[import-not-found]  # noqa: F401
    if fault == "assertion":
        raise AssertionError
    if fault == "words":
        raise ValueError("seven is not eight")
    if fault == "silent":
        raise KeyError
    if fault == "killed":
        os._exit(9)


SAID = {
    "package": "No module named 'nowhere_installed'",
    "assertion": "): raise AssertionError",
    "words": "ValueError: seven is not eight",
    "silent": "KeyError in fail (test_reasons.py, line ",
}


class FaultyReader(LogReader):
    def __init__(self, options: Any, fault: str) -> None:
        super().__init__(options)
        self.fault = fault

    def partitions(self) -> Any:
        if self.fault.startswith("plan "):
            fail(self.fault[5:])
        return super().partitions()

    def read(self, partition: Any) -> Any:
        fail(self.fault)
        return super().read(partition)


class FaultyStreamReader(LogStreamReader):
    def __init__(self, options: Any, fault: str, where: str) -> None:
        super().__init__(options)
        self.fault, self.where = fault, where

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802  Spark's name
        if self.where == "offsets":
            fail(self.fault)
        return super().latestOffset(start, limit)

    def read(self, partition: Any) -> Any:
        fail(self.fault)
        return super().read(partition)


class Faulty(KohortLog):
    """`kohort-log` in which something goes wrong."""

    fault = where = ""

    def reader(self, schema: Any) -> FaultyReader:
        return FaultyReader(parse(self.options), self.fault)

    def streamReader(self, schema: Any) -> FaultyStreamReader:  # noqa: N802  Spark's name
        return FaultyStreamReader(parse(self.options), self.fault, self.where)


def faulty(fault: str, where: str = "") -> type[Faulty]:
    """A source of its own for each fault: Spark takes the class to its workers."""
    return type("Faulty", (Faulty,), {"fault": fault, "where": where})


@pytest.fixture
def log(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """A directory with one commit; the sources are the sound ones again afterwards."""
    written = Log(tmp_path / "log", "__consumer_offsets", 0)
    epoch = cg.ConsumerGroupMetadataValue(epoch=2)
    written.append(
        [commit("g", "orders", 0, 5), (g.encode_key(g.ConsumerGroupMetadataKey("k")), g.encode_value(epoch))]
    )
    written.append([(g.encode_key(g.GroupMetadataKey("c")), None)])
    yield tmp_path / "log"
    register(spark)


@pytest.mark.parametrize("fault", SAID)
@pytest.mark.parametrize("where", ["plan ", ""])
def test_what_a_source_raises_is_said(fault: str, where: str, run: Any, log: Path, spark: SparkSession) -> None:
    """While the plan is made, and while rows are read."""
    spark.dataSource.register(faulty(where + fault))
    code, out, err = run("commits", "--from", log)
    assert (code, out) == (2 if fault == "package" else 1, "")
    assert SAID[fault] in err
    assert len(told(err)) == 1


def test_a_worker_that_dies_is_said(run: Any, log: Path, spark: SparkSession) -> None:
    """Nobody is left to say why; that it died is said."""
    spark.dataSource.register(faulty("killed"))
    code, _, err = run("commits", "--from", log)
    assert code == 1
    assert "Python worker exited unexpectedly" in err


def failing(*_: Any) -> Any:
    """In place of any function."""
    fail("assertion")


@pytest.mark.parametrize(
    ("verb", "function"),
    [("generations", "pipeline.decode.frames.generation_batch"), ("rebalances", f"{EPOCHS}.fold")],
)
def test_what_a_function_of_frames_raises_is_said(
    verb: str, function: str, run: Any, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `mapInArrow`, and in `applyInArrow`."""
    monkeypatch.setattr(function, failing)
    code, _, err = run(verb, "--from", log)
    assert code == 1
    assert SAID["assertion"] in err


@pytest.mark.parametrize("fault", ["package", "silent"])
@pytest.mark.parametrize("boundary", ["offsets", "rows", "batch"])
def test_what_fails_in_a_stream_is_said(
    boundary: str, fault: str, run: Any, log: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where offsets are asked for, where rows are read, and in what is done with each batch."""
    if boundary == "batch":
        monkeypatch.setattr("pipeline.jobs.streaming.Sink.write", lambda *_: fail(fault))
    else:
        spark.dataSource.register(faulty(fault, boundary))
    words = ["--stream", "--once", "--to", tmp_path / "to", "--checkpoint", tmp_path / "checkpoint"]
    code, _, err = run("commits", "--from", log, *words)
    assert code == (2 if fault == "package" else 1)
    assert SAID[fault] in err
