"""What the user has settled with Spark stays settled: masters, interpreters, memory; places as URIs; plain scripts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import command_line, session
from pipeline.errors import UsageError
from tests.pipeline.logs import Log, commit
from tests.pipeline.test_cli import run
from tests.pipeline.told import told
from tests.support.broker_process import ROOT

__all__ = ["run"]
PYSPARK = Path(pa.__file__).parent.parent / "pyspark"
SETTLED = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_DRIVER_MEMORY", "PYTHONPATH")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A directory with three commits."""
    written = Log(tmp_path / "log", "__consumer_offsets", 0)
    written.append([commit("g", "orders", number, 5) for number in range(3)])
    return tmp_path / "log"


def process(*words: object, cwd: Path = ROOT, **environment: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a program in which nobody has settled anything else."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTLED}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_what_the_user_has_settled_elsewhere_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-defaults.conf, PYSPARK_SUBMIT_ARGS and the environment, each over the one before."""
    for name in (*SETTLED, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert session.users_own() == {}
    text = "# a comment\nspark.master   spark://h:7077\nspark.driver.memory=3g\nspark.ui.enabled true\n\nodd\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    own = {"spark.master": "spark://h:7077", "spark.driver.memory": "3g", "spark.ui.enabled": "true"}
    assert session.users_own() == own
    words = "--driver-memory 4g --conf spark.ui.enabled=false --master=local[3] pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", words)
    own |= {"spark.master": "local[3]", "spark.driver.memory": "4g", "spark.ui.enabled": "false"}
    assert session.users_own() == own
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "5g")
    assert session.users_own() == own | {"spark.driver.memory": "5g"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--conf", "driver.memory=1g"], "--conf driver.memory=1g: it takes spark.KEY=VALUE"),
        (["--conf", "spark.driver.memory"], "it takes spark.KEY=VALUE"),
        (["--py-files", "/no/such.py"], "--py-files /no/such.py does not exist"),
        (
            ["--stream", "--to", "o", "--checkpoint", "hdfs://name:8020/x"],
            "--checkpoint hdfs://name:8020/x: this is written to this machine",
        ),
        (["--format", "iceberg", "--to", "o"], "--format iceberg: there is no Iceberg for Spark 4.2"),
        (["--format", "xml"], "argument --format: invalid choice: 'xml'"),
        (["--format", "delta"], "--format delta needs --to PATH"),
        (["--to", "s3a://"], "--to s3a:// is no place to write to"),
        (["--to", "file://elsewhere/x"], "this is written to this machine"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        command_line.read(["commits", "--from", "localhost:9092", *words])


def test_files_may_be_uris(run: Any, log: Path, tmp_path: Path, spark: SparkSession) -> None:
    """`--from` and `--to`, the path of a source, and several paths in `load`. Moments are no INT96."""
    to = tmp_path / "with space"
    code, _, err = run("commits", "--from", log.as_uri(), "--to", to.as_uri())
    assert code == 0, err
    assert [place.name for place in to.iterdir()] == ["offset_commits"]
    assert re.search(r"commits: 3 rows from 3 records, 0 undecoded, 0 batches skipped, ", err)
    [part] = (to / "offset_commits").glob("*.parquet")
    columns = {column.name: column for column in (pq.ParquetFile(part).schema.column(n) for n in range(14))}
    assert columns["logged_at"].physical_type == "INT64"

    reader = spark.read.format("kohort-log")
    assert reader.option("path", log.as_uri()).option("records", "group").load().count() == 3
    other = Log(tmp_path / "other", "orders", 0)
    other.append([(b"k", b"v")])
    assert spark.read.format("kohort-log").load([str(log), str(tmp_path / "other")]).count() == 4
    assert spark.read.format("kohort-log").load(str(log)).count() == 3


def test_what_hadoop_reaches_is_written_to(run: Any, log: Path, tmp_path: Path, spark: SparkSession) -> None:
    """By a file system of Hadoop's that is not this machine's: whole or not at all, and nothing is lost."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.store.link./data", tmp_path.as_uri())
    words = ["commits", "--from", log, "--to", "viewfs://store/data/out", "--format", "csv"]
    code, _, err = run(*words)
    assert code == 0, err
    assert [place.name for place in (tmp_path / "out").iterdir()] == ["offset_commits"]
    assert "3 rows from 3 records" in err
    before = sorted((tmp_path / "out").rglob("*"))
    code, _, err = run(*words)
    assert code == 2
    assert "--to viewfs://store/data/out exists and is not empty; --overwrite replaces it" in err
    assert sorted((tmp_path / "out").rglob("*")) == before
    assert run(*words, "--overwrite")[0] == 0
    assert sorted((tmp_path / "out").rglob("*.csv")) != [path for path in before if path.suffix == ".csv"]
    assert not list(tmp_path.glob("*.partial"))
    offsets = ["restore", "--from", log, "--at", "2100-01-01", "--to", "viewfs://store/data/offsets.csv"]
    code, _, err = run(*offsets)
    assert code == 0, err
    assert (tmp_path / "offsets.csv").read_text().count("\n") == int(err.split(" row")[0].split()[-1]) > 0
    code, _, err = run(*offsets[:-1], "viewfs://store/data/out", "--overwrite")
    assert code == 2
    assert "is a directory; name the file" in err
    code, _, err = run(*words[:-3], "nowhere://store/data/out")
    assert code == 2
    assert "No FileSystem for scheme" in err


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_run_says_one_line_and_works_as_it_was_told(log: Path, tmp_path: Path) -> None:
    """In a process of its own: no lines of a logger; the user's interpreter, --conf and --py-files are heeded."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho used >> {tmp_path}/workers\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    helper = tmp_path / "helper_of_mine.py"
    helper.write_text("")
    words = ["--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.driver.memory=700m", "--py-files", helper]
    words += ["--to", tmp_path / "to", "--format", "json"]
    command = [sys.executable, "-m", "kohort", "pipeline", "groups", "--from", log, *words]
    code, out, err = process(*command, PYSPARK_PYTHON=str(python))
    assert (code, out) == (0, ""), err
    lines = told(err)
    assert len(lines) == 1, err
    assert lines[0].startswith("kohort pipeline groups: 1 row from 3 records, ")
    assert "used" in (tmp_path / "workers").read_text()


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_spark_submit_says_where(log: Path, tmp_path: Path) -> None:
    """Its master and its memory count, and what it is given besides; --master of the verb is still stronger."""
    script = tmp_path / "submitted.py"
    script.write_text(
        "import json, sys\n"
        "from pipeline.session import build\n"
        "spark = build()\n"
        "conf = spark.sparkContext.getConf()\n"
        "memory = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()\n"
        "print(json.dumps([spark.sparkContext.master, conf.get('spark.driver.memory'), memory,\n"
        "    spark.conf.get('spark.sql.session.timeZone'), spark.conf.get('spark.sql.shuffle.partitions')]))\n"
        "rows = spark.read.format('kohort-log').options(path=sys.argv[1], records='group').load()\n"
        "print(rows.count())\n"
    )
    submit = [PYSPARK / "bin" / "spark-submit", "--master", "local[3]", "--driver-memory", "600m"]
    submit += ["--conf", "spark.sql.session.timeZone=Europe/Berlin", script, log]
    environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    code, out, err = process(*submit, cwd=tmp_path, **environment)
    assert code == 0, err[-3000:]
    told, count = out.splitlines()
    master, memory, bytes_, zone, shuffled = json.loads(told)
    assert (master, memory, zone, shuffled) == ("local[3]", "600m", "Europe/Berlin", "3")
    assert bytes_ < 700 << 20
    assert count == "3"


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_example_of_the_docs_works_in_a_plain_script(log: Path, tmp_path: Path) -> None:
    """As it stands, in a script and a session that know nothing of us, and with another `python3` on PATH."""
    text = (ROOT / "docs" / "pipeline.md").read_text()
    [example, _] = re.findall(r"```python\n(from pyspark\.sql import SparkSession\n.*?)```", text, re.DOTALL)
    places = {"/var/lib/kafka/data": str(log), "localhost:9092": "127.0.0.1:1"}
    for place, ours in places.items():
        assert place in example
        example = example.replace(place, ours)
    # There is no broker to be asked here: test_real_kafka.py has one.
    lines = [line for line in example.splitlines() if "kohort-kafka" not in line]
    script = tmp_path / "plain.py"
    script.write_text("\n".join([*lines, "print(commits.count())", "print(decode.group_records(raw).count())"]))
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'this python has no packages' >&2\nexit 1\n")
    other.chmod(0o755)
    path = os.pathsep.join([str(other.parent), os.environ["PATH"]])
    code, out, err = process(sys.executable, script, cwd=tmp_path, PATH=path, PYTHONPATH=str(ROOT))
    assert code == 0, err[-3000:]
    assert out.splitlines() == ["3", "3"]
