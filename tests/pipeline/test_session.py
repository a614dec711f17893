"""What must be there before Spark starts, and the settings that it starts with."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline import command_line, jars, jobs, session
from pipeline.errors import DataError, EnvironmentMissing
from pipeline.sources import cluster, log_dir
from tests.pipeline.logs import Log, commit
from tests.pipeline.told import told
from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort


def java(folder: Path, says: str) -> None:
    """A program called java that prints a version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)


def test_without_java_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PL33: no stack trace, and nothing is started."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(EnvironmentMissing) as caught:
        session.check_environment()
    assert str(caught.value) == (
        "kohort pipeline needs Java 17 or newer, and found none on PATH or in JAVA_HOME. "
        "Install a JRE (Debian: openjdk-17-jre-headless), then try again."
    )


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', (17, "17.0.15")),
        ('java version "1.8.0_402"', (8, "1.8.0_402")),
        ('openjdk version "21" 2023-09-19', (21, "21")),
    ],
)
def test_the_version_of_java_is_read(
    says: str, version: tuple[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert session.java_version() == version
    if version[0] < 17:
        with pytest.raises(EnvironmentMissing, match=r"found Java 1\.8\.0_402"):
            session.check_environment()


def test_without_the_extra_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentMissing, match=r"pip install 'kohort\[spark\]'"):
        session.check_environment()


@pytest.mark.parametrize("little", [False, True])
def test_java_takes_the_options_without_a_word(little: bool):
    """One that it does not know would end it, one that is out of date would have it complain at every start."""
    assert session.java_version() is not None
    words = session.defaults("local[2]", little=little)["spark.driver.extraJavaOptions"].split()
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
    plain, ours = (subprocess.run([java, *more, "-version"], capture_output=True, check=True) for more in ([], words))
    assert (ours.stdout, ours.stderr.count(b"\n")) == (plain.stdout, plain.stderr.count(b"\n"))


def test_a_small_directory_on_this_machine_gets_a_session_that_is_there_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All topics count, for verbs look into them too; and what is settled elsewhere stays, as everything does."""
    for topic in ("__consumer_offsets", "orders"):
        Log(tmp_path, topic, 0).append([commit("g", "orders", 0, 5)])
    words = ["lag", "--from", str(tmp_path)]
    assert command_line.read(words).little
    assert not command_line.read([*words, "--stream", "--to", "o", "--checkpoint", "c"]).little
    assert not command_line.read(["lag", "--from", "localhost:9092"]).little
    monkeypatch.setattr(command_line, "_LITTLE_BYTES", sum(one.stat().st_size for one in tmp_path.rglob("*.log")) - 1)
    assert not command_line.read(words).little

    built: list[bool] = []
    monkeypatch.setattr(session, "build", lambda **given: built.append(given["little"]) or sys.exit())
    with pytest.raises(SystemExit):
        jobs.run(command_line.read(words))
    assert built == [False]


def test_a_broker_with_few_records_of_groups_gets_such_a_session_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """But not where topics are read, of whose size their offsets tell nothing, nor a stream; and one that does not
    answer is named before Spark starts."""
    built: list[bool] = []
    monkeypatch.setattr(session, "build", lambda **given: built.append(given["little"]) or sys.exit())

    def run(*words: str) -> None:
        with pytest.raises(SystemExit):
            jobs.run(command_line.read([*words, "--from", broker.address]))

    stream = ["groups", "--stream", "--to", str(tmp_path / "o"), "--checkpoint", str(tmp_path / "c")]
    with Kohort(tmp_path, QUICK_GROUPS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(60)
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 5), TopicPartition("orders", 1, 6)], asynchronous=False)
        consumer.close()
        for words in (["groups"], ["stuck"], ["lag", "--exact"], ["lag"], stream):
            run(*words)
        assert built == [True, False, False, True, False]
        monkeypatch.setattr(cluster, "LITTLE_OFFSETS", 1)
        run("groups")
        assert built[5:] == [False]
    with pytest.raises(DataError, match=f"no broker answers: {broker.address}"):
        jobs.run(command_line.read(["groups", "--from", broker.address]))
    assert len(built) == 6


def test_a_topic_that_is_not_asked_about_may_be_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Or be deleted while its size is looked at: the question is answered all the same."""
    for topic in ("__consumer_offsets", "orders"):
        Log(tmp_path, topic, 0).append([commit("g", "orders", 0, 5)])
    look = log_dir.partition_in

    def refused(directory: str, topic: str, *where: Any) -> log_dir.Partition:
        if topic == "orders":
            raise PermissionError(errno.EACCES, "Permission denied", directory)
        return look(directory, topic, *where)

    monkeypatch.setattr(log_dir, "partition_in", refused)
    assert not command_line.read(["commits", "--from", str(tmp_path)]).little


def test_decoders_and_plans_are_imported_without_spark():
    """They are used, and tested, where there is no JVM."""
    modules = "pipeline, pipeline.decode, pipeline.sources.plan, pipeline.sources.read, pipeline.sources.fetch_read"
    code = f"import sys, {modules}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_worker_whose_query_has_enough_says_nothing():
    """Spark closes its connection, and what is left to be sent cannot be; but what is really wrong is told."""
    code = """
import importlib, socket, sys
from pyspark import worker
daemon = importlib.import_module(sys.argv[1]).daemon
del sys.argv[1:]
def sends(_in, out):
    out.write(b"rows")
    raise SystemExit(-1)
def loses(_in, out):
    sends(None, out) if out.close() else None
for work, is_closed in ((sends, True), (loses, False)):
    ours, sparks = socket.socketpair(socket.AF_UNIX)
    if is_closed:
        sparks.close()
    worker.main = work
    try:
        daemon.worker(ours, True)
    except ValueError:
        pass
    print("told", file=sys.stderr)
"""
    words = [sys.executable, "-c", code, session.QUIET_WORKERS["spark.python.daemon.module"]]
    quiet, *told = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True).stderr.splitlines()
    assert quiet == "told"
    assert "ValueError" in "".join(told)


def test_a_verb_says_only_its_own_words(tmp_path: Path):
    """Not the JVM, not log4j to whichever stream and however loud, not Spark's workers, who complain through the JVM:
    where they write nobody reads, from before the JVM starts until it ends."""
    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = debug\nrootLogger.appenderRef.out.ref = out\nrootLogger.appenderRef.err.ref = err\n"
        + "".join(
            f"appender.{name}.type = Console\nappender.{name}.name = {name}\nappender.{name}.target = SYSTEM_{target}\n"
            for name, target in (("out", "OUT"), ("err", "ERR"))
        )
    )
    log = tmp_path / "log"
    Log(log, "__consumer_offsets", 0).append([commit("g", "orders", 0, 5)])
    code = """
import sys
from pipeline import cli, jobs, session
batch = jobs._batch
def loud(spark, *more):
    for stream in (spark._jvm.java.lang.System.out, spark._jvm.java.lang.System.err):
        stream.println("noise")
    return batch(spark, *more)
jobs._batch = loud
sys.exit(cli.main(sys.argv[1:]))
"""
    words = [sys.executable, "-c", code, "state", "--from", str(log), "--format", "json"]
    settings = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    ended = subprocess.run(words, cwd=ROOT, env=settings, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line)["committed_offset"] for line in ended.stdout.splitlines()] == [5]
    (last,) = told(ended.stderr)
    assert re.fullmatch(r"kohort pipeline state: 1 row from 1 record, 0 undecoded, 0 batches skipped, [\d.]+ s", last)


@pytest.mark.parametrize("rows", ["group", "raw", "batch"])
def test_a_small_log_is_read_sooner_than_pandas_is_imported(rows: str, tmp_path: Path):
    """Arrow imports it to make a column of almost anything, if it is there, in each of Spark's workers anew."""
    Log(tmp_path, "__consumer_offsets", 0).append([commit("g", "orders", 0, 5)])
    code = f"""
import sys
from pipeline.sources import options, plan, read
asked = options.parse({{"path": {str(tmp_path)!r}, "topic": "__consumer_offsets", "records": {rows!r}}})
found = sum(batch.num_rows for task in plan.plan(asked) for batch in read.read_splits(task, asked))
sys.exit("pandas" in sys.modules or found == 0)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_connectors_jars_move_with_the_pin():
    """A new PySpark needs its own connector: whoever moves one moves the other."""
    (pin,) = re.findall(r"^pyspark==([\d.]+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert jars.pinned("spark.version") == jars.pinned("token.version") == pin
    assert jars.pinned("kafka.version") == "3.9.2"


def test_without_maven_the_error_says_what_else_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match=r"--from DIR.* need no jar.*--jars PATH.*4\.2\.0"):
        jars.resolve()


def test_a_failed_resolution_names_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\necho 'Could not find artifact org.apache.kafka:kafka-clients:jar:3.9.2 in x'\nexit 1\n"
    )
    maven.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(EnvironmentMissing, match=r"could not get org\.apache\.kafka:kafka-clients:jar:3\.9\.2"):
        jars.resolve()
    assert jars.cached() == []


def test_deltas_jars_are_for_the_spark_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Found once, left alone where the user has brought them, and one sentence where nobody can."""
    (pin,) = re.findall(r"^pyspark==([\d.]+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert jars.pinned("spark.binary", jars.DELTA_POM) == ".".join(pin.split(".")[:2])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EnvironmentMissing, match=r"--format delta needs Delta's jars: Maven.*delta-spark_4\.2_2\.13:4\."
    ):
        session._delta_settings({})
    brought = session._delta_settings({"spark.jars": "x/delta-spark_4.2_2.13-4.4.0.jar", "spark.sql.extensions": "a.B"})
    assert "spark.jars" not in brought
    assert brought["spark.sql.extensions"] == f"a.B,{session.DELTA_EXTENSION}"
    assert session._delta_settings({"spark.sql.extensions": session.DELTA_EXTENSION}) == {}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(EnvironmentMissing, match=r"give it --packages io\.delta:delta-spark_4\.2_2\.13"):
        session._delta_settings({})


def test_jars_named_by_hand_must_exist():
    with pytest.raises(EnvironmentMissing, match=r"--jars: /no/such\.jar does not exist"):
        session._jar_settings(["/no/such.jar"], connector=True)


def test_a_users_session_is_advised_and_not_altered(spark: Any):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert session.advice(spark) == ["spark.sql.session.timeZone is Europe/Berlin, UTC is better here"]
        assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert session.advice(spark) == []
