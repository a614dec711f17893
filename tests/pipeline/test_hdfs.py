"""Hadoop's own HDFS, a name and a data node: read by its own protocol and over HTTP, written by its own client."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest
from pyspark.sql import SparkSession

from pipeline.errors import DataError, UsageError
from pipeline.sources import log_dir, plan
from pipeline.sources.options import parse
from pipeline.sources.read import read_splits
from tests.pipeline.capture import unpack
from tests.pipeline.test_cli import run
from tests.pipeline.test_object_store import rows
from tests.pipeline.told import told
from tests.support.broker_process import eventually
from tests.support.java import jars_of

__all__ = ["run"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("KOHORT_STORES"), reason="a name node, a data node: make test-all"),
]
CLUSTER = "org.apache.hadoop.test.MiniDFSClusterManager"


class Hdfs(NamedTuple):
    """A cluster that runs, with a directory of Kohort's in it."""

    process: subprocess.Popen[bytes]
    local: Path
    over_http: str
    own: str


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Hdfs]:
    jars = jars_of(Path(__file__).with_name("hdfs.xml"), "3.5.0", of="hadoop")
    folder = tmp_path_factory.mktemp("hdfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    details = folder / "details.json"
    options = ["-datanodes", "1", "-nnport", "0", "-httpport", str(port), "-format", "-writeDetails", str(details)]
    jvm = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    path = f"{jars}/*:{Path(pyspark.__file__).parent}/jars/*"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*jvm, "-cp", path, CLUSTER, *options], cwd=folder, stdout=log, stderr=log)
    try:

        def ready() -> bool:
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            return details.exists() and details.read_text().endswith("}")

        eventually(ready, what="an HDFS", deadline_s=400)
        own = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
        local, _ = unpack("kohort", folder)
        jvm_of: Any = spark._jvm
        path_of, context = jvm_of.org.apache.hadoop.fs.Path, spark.sparkContext
        system = path_of(own).getFileSystem(context._jsc.hadoopConfiguration())
        system.copyFromLocalFile(path_of(local.as_uri()), path_of(f"{own}/logs"))
        yield Hdfs(process, local, f"webhdfs://127.0.0.1:{port}", own)
    finally:
        process.kill()
        process.wait(30)


def test_it_gives_what_the_same_files_give(hdfs: Hdfs) -> None:
    several: list[dict[str, str]] = [
        {"records": "group"},
        {"isolationLevel": "read_committed", "upTo": "highWatermark"},
        {"startingTimestamp": "2020-01-01", "topic": "__consumer_offsets", "splitBytes": "4k"},
    ]
    ways: list[tuple[str, dict[str, str]]] = [
        (hdfs.over_http, {"user": "reader"}),
        (hdfs.own, {"dfs.client.use.datanode.hostname": "false"}),
    ]
    for place, settings in ways:
        for options in several:
            found = rows(f"{place}/logs", settings, **options)
            assert found == rows(str(hdfs.local), {}, **options)
            assert found
        for name, says in (
            ("/nothing/here", "/nothing/here does not exist"),
            ("/logs/meta.properties", "is a file; give the log directory"),
        ):
            with pytest.raises(UsageError, match=says):
                log_dir.scan(f"{place}{name}")
        with pytest.raises(UsageError, match="usr is no setting"):
            log_dir.scan(f"{place}/logs", {"usr": "reader"})
    for nobody in (
        hdfs.own.replace("hdfs", "webhdfs"),
        hdfs.over_http.replace("webhdfs", "hdfs"),
    ):  # each at the other's
        with pytest.raises(DataError, match=f"{nobody}/logs cannot be read: "):
            log_dir.scan(f"{nobody}/logs")


@pytest.mark.parametrize("way", ["own", "over_http"])
def test_verbs_read_and_write_it(way: str, run: Any, hdfs: Hdfs, tmp_path: Path, spark: SparkSession) -> None:
    """Tables, a stream that goes on with a second run, and single files; whole, and never over what is there."""
    source, out = f"{getattr(hdfs, way)}/logs", f"{hdfs.own}/out-{way}"
    count = len(rows(str(hdfs.local), {}, records="group"))
    code, _, err = run("records", "--from", source, "--to", f"{out}/records")
    assert code == 0, err
    assert spark.read.parquet(f"{out}/records/group_records").count() == count
    code, _, err = run("records", "--from", source, "--to", f"{out}/records")
    assert (code, "exists and is not empty" in err) == (2, True)
    code, _, err = run("records", "--from", source, "--to", f"{hdfs.own}/logs/inside")
    assert (code, "lie in one another" in err) == (2, True)

    restore = ["restore", "--from", source, "--group", "kp", "--at", "2100-01-01"]
    code, printed, err = run(*restore)
    assert code == 0, err
    code, _, err = run(*restore, "--to", f"{out}/offsets.csv")
    assert code == 0, err
    assert spark.read.text(f"{out}/offsets.csv").count() == len(printed.splitlines()) > 0

    stream = ["commits", "--from", source, "--stream", "--once", "--to", f"{out}/live", "--checkpoint", tmp_path / "c"]
    commits = rows(str(hdfs.local), {}, records="group")
    expected = sum(row["record_type"] == "offset_commit" for row in commits)
    for _ in range(2):
        code, _, err = run(*stream)
        assert code == 0, err
        assert spark.read.parquet(f"{out}/live/offset_commits").count() == expected


def test_a_data_node_that_is_lost_in_the_middle_of_a_read_is_one_sentence(
    run: Any, hdfs: Hdfs, tmp_path: Path, spark: SparkSession
) -> None:
    """The name node goes on, and tells where the blocks were: a read that was planned, and verbs, name the place."""
    source = f"{hdfs.own}/logs"
    read = plan.plan(parse({"path": source, "records": "group"}))
    assert read
    jvm_of: Any = spark._jvm
    context = spark.sparkContext
    system = jvm_of.org.apache.hadoop.fs.Path(hdfs.own).getFileSystem(context._jsc.hadoopConfiguration())
    [node] = list(system.getDataNodeStats())
    client: Any = jvm_of.org.apache.hadoop.hdfs.DFSUtilClient
    client.createClientDatanodeProtocolProxy(node, context._jsc.hadoopConfiguration(), 60_000, False).shutdownDatanode(
        False
    )

    def is_gone() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", node.getXferPort())) != 0

    eventually(is_gone, deadline_s=120, what="a data node that stops")
    options = parse({"path": source, "records": "group"})
    with pytest.raises(DataError, match=source):
        for task in read:
            list(read_splits(task, options))
    for place in (source, f"{hdfs.over_http}/logs"):
        code, _, err = run("records", "--from", place, "--to", tmp_path / "out")
        [said] = told(err)
        assert (code, said.startswith("kohort pipeline: "), f"{place}/" in said) == (1, True, True), err
        assert "Proto" not in said
        assert not list(tmp_path.iterdir())


def test_one_that_is_gone_is_one_sentence(run: Any, hdfs: Hdfs) -> None:
    hdfs.process.kill()
    hdfs.process.wait(30)
    for place, says in ((hdfs.over_http, "connection refused"), (hdfs.own, "Connection refused")):
        code, _, err = run("groups", "--from", f"{place}/logs")
        assert (code, err.startswith(f"kohort pipeline: {place}/logs cannot be read: ")) == (1, True), err
        assert says in err
