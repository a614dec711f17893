"""One Spark session with the settings that the pipeline was measured with, and what must be there before it starts.

Starting takes seconds, so everything that can be refused is refused before. A user's own session is never altered;
`advice(spark)` says what in it would be better otherwise.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import class_archive
from pipeline.errors import EnvironmentMissing
from pipeline.workers import with_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LOCAL = "local[*,4]"
"""All cores; a task whose worker dies, for want of memory say, is tried again, which a plain `local[*]` does not do."""
NEEDS_JAVA = "kohort pipeline needs Java 17 or newer, and found {found}. "
NEEDS_JAVA += "Install a JRE (Debian: openjdk-17-jre-headless), then try again."
NEEDS_EXTRA = "kohort pipeline needs PySpark: pip install 'kohort[spark]'"

ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Without these the JVM asks of every value of every column whether its buffer is still there and large enough, which
took a sixth of its time. Spark asks for nulls itself, and the columns come from Arrow's own writer."""

COMPILE_LATE = "-XX:MetaspaceSize=256m -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
COMPILE_LATE += "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
"""What is done once shall not be optimized: Java's second compiler waits for ten times its usual counts, which what is
done for every row reaches at once, and the memory of classes grows without a full collection at each step. A sixth of
the CPU up to a first row; rows a second are the same."""

LITTLE: Mapping[str, str] = {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}
"""Over some thousand rows, writing and compiling code for a query takes longer than running it as it is."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "134217728", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""Environment of Python workers, bytes: what the arrays of one chunk took is kept for those of the next. Otherwise it
goes back to the system, to be asked for again page by page, which was a tenth of the kernel's time. glibc only."""

QUIET_WORKERS: Mapping[str, str] = {
    "spark.python.daemon.module": "pipeline.worker_daemon",
    "spark.python.daemon.killWorkerOnFlushFailure": "false",
}
"""Workers say nothing when a query has enough rows: see `worker_daemon`, which the second setting lets be asked."""

RECOMMENDED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",  # printed moments equal stored ones
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # only mapInArrow; the sources choose their own size
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 is deprecated, and others read it as they like
    "spark.ui.enabled": "false",  # start-up
    "spark.ui.showConsoleProgress": "false",  # a clean standard error
}


def check_environment() -> None:
    """PySpark and a Java new enough are there. Fast: neither is started. Raises: EnvironmentMissing, one line."""
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentMissing(NEEDS_EXTRA)
    found = java_version()
    if found is None:
        raise EnvironmentMissing(NEEDS_JAVA.format(found="none on PATH or in JAVA_HOME"))
    if found[0] < OLDEST_JAVA:
        raise EnvironmentMissing(NEEDS_JAVA.format(found=f"Java {found[1]}"))


def java_version() -> tuple[int, str] | None:
    """(17, "17.0.15") of the Java that Spark would start; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return None if java is None or not Path(java).exists() else _version_of(java)


@lru_cache(maxsize=8)
def _version_of(java: str) -> tuple[int, str] | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    return (int(match[2]), match[1]) if match else None


def build(
    *,
    master: str | None = None,
    name: str = "kohort",
    jars: Sequence[str] = (),
    connector: bool = False,
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str] = (),
    quiet: bool = False,
    archive_classes: bool = False,
    delta: bool = False,
    little: bool = False,
) -> SparkSession:
    """A session with the pipeline's sources registered.

    What the user has settled elsewhere stays: with spark-submit, in spark-defaults.conf or in the environment. `master`
    and `settings` override even that; without any of them the master is `LOCAL`. `connector` also brings Spark's own
    Kafka connector, `jars` (paths) instead of resolving it; `py_files` go to the workers. `quiet` keeps what the JVM
    writes, to either stream, while and after it starts, to be told if it does not start. `archive_classes`: see
    `class_archive`, whose `keep` then ends the session. `delta`: tables of Delta can be written and read. `little`:
    what will be read is some megabytes, so that being there soon is worth more than being fast then.
    Raises: EnvironmentMissing.
    """
    check_environment()
    from pyspark.sql import SparkSession  # noqa: PLC0415  half a second, and only now is it wanted

    from pipeline import register  # noqa: PLC0415

    own = users_own()
    # Workers must be this interpreter, unless the user says which: another may have other packages, or none.
    if "spark.pyspark.python" not in own:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers find the pipeline where the driver found it, installed or not.
    os.environ["PYTHONPATH"] = with_root(os.environ.get("PYTHONPATH", ""))
    chosen = master or own.get("spark.master") or LOCAL
    ours = {key: value for key, value in defaults(chosen, archive_classes, little).items() if key not in own}
    builder = SparkSession.builder.master(chosen).appName(name)
    added = _jar_settings(jars, connector) | dict(settings or {})
    if delta:
        added |= _delta_settings(own | added)
    for key, value in {**ours, **added}.items():
        builder = builder.config(key, value)
    with _kept_output(quiet) as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise EnvironmentMissing(_not_started(error, said())) from error
    for file in py_files:
        spark.sparkContext.addPyFile(file)
    register(spark)
    return spark


def users_own() -> dict[str, str]:
    """Settings of Spark's that the user has made outside this program. Under spark-submit all that it was given."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM, and then this program
        from pyspark import SparkContext  # noqa: PLC0415
        from pyspark.conf import SparkConf  # noqa: PLC0415

        SparkContext._ensure_initialized()  # connects to the JVM that is there
        # Of a JVM that runs, these can be set no more.
        running = {"spark.driver.memory": "", "spark.driver.extraJavaOptions": ""}
        return running | dict(SparkConf().getAll())
    found = _defaults_file()
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for option, value in pairwise([*words, ""]):
        flag, _, joined = option.partition("=")
        told = joined if joined and flag in _SUBMIT_FLAGS else value
        if flag in _SUBMIT_FLAGS:
            found[_SUBMIT_FLAGS[flag]] = told
        elif option == "--conf" and "=" in value:
            found.update([value.split("=", 1)])  # type: ignore[list-item]
    for variable, key in _VARIABLES.items():
        if os.environ.get(variable):
            found[key] = os.environ[variable]
    return found


_SUBMIT_FLAGS = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_VARIABLES = {"SPARK_DRIVER_MEMORY": "spark.driver.memory"}


def _defaults_file() -> dict[str, str]:
    """What spark-defaults.conf says, if there is one."""
    file = Path(os.environ.get("SPARK_CONF_DIR") or class_archive.spark_home() / "conf") / "spark-defaults.conf"
    if not file.is_file():
        return {}
    lines = (line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    pairs = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line.startswith("spark."))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


@contextlib.contextmanager
def _kept_output(wanted: bool) -> Iterator[Callable[[], str]]:
    """Within it, processes that are started write standard output and error into a file that only they know.

    The JVM tells of its own name, of the logger's profile and of incubating modules at every start, before any setting
    of the logger can be heard; a log4j2.properties of the user's may log to standard output, where the answer goes; and
    Spark's workers complain through the JVM, those that plan for one when they are ended after an idle minute. Yields
    what gives what was written so far.
    """
    if not wanted:
        yield lambda: ""
        return
    with tempfile.TemporaryFile() as file:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by who started this program
                stream.flush()
        kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2) if _is_open(descriptor)}
        for descriptor in kept:
            os.dup2(file.fileno(), descriptor)

        def written() -> str:
            return os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace")

        try:
            yield written
        finally:
            for descriptor, before in kept.items():
                os.dup2(before, descriptor)
                os.close(before)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _not_started(error: Exception, said: str) -> str:
    """Why Spark is not there, in one sentence: what the JVM complained of last, else what PySpark did."""
    complaints = [
        line.strip() for line in said.splitlines() if re.search(r"(?i)error|exception|invalid|could not", line)
    ]
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return f"Spark does not start: {complaints[0] if complaints else first}"


def defaults(master: str, archive_classes: bool = False, little: bool = False) -> dict[str, str]:
    """The settings of a session on `master`, before what the user overrides."""
    chosen = dict(RECOMMENDED)
    chosen["spark.executorEnv.PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    chosen |= {f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()}
    chosen["spark.executor.extraJavaOptions"] = ARROW_UNCHECKED
    if master.startswith("local"):
        chosen["spark.driver.memory"] = "2g"  # the executor lives in the driver; must be set before the JVM starts
        # A quarter less CPU than the JVM's own choice, which spends it on short pauses that nobody here needs.
        java = java_version()
        classes = class_archive.java_options(java[1] if java else None, make=archive_classes)
        compiled = "-XX:MetaspaceSize=256m -XX:TieredStopAtLevel=1" if little else COMPILE_LATE
        chosen["spark.driver.extraJavaOptions"] = f"-XX:+UseParallelGC {compiled} {ARROW_UNCHECKED}{classes}"
        chosen |= QUIET_WORKERS
        if little:
            chosen |= LITTLE
        # What workers send costs the system less than through TCP, which was a tenth of all CPU.
        chosen["spark.python.unix.domain.socket.enabled"] = "true"
        chosen["spark.driver.bindAddress"] = chosen["spark.driver.host"] = "127.0.0.1"
        cores = re.match(r"local\[(\d+)", master)
        # 200 empty tasks cost seconds.
        chosen["spark.sql.shuffle.partitions"] = cores[1] if cores else str(os.cpu_count() or 1)
    return chosen


def _jar_settings(jars: Sequence[str], connector: bool) -> dict[str, str]:
    if jars:
        missing = [jar for jar in jars if not Path(jar).exists()]
        if missing:
            raise EnvironmentMissing(f"--jars: {missing[0]} does not exist")
        return {"spark.jars": ",".join(jars)}
    if not connector:
        return {}
    from pipeline import jars as resolver  # noqa: PLC0415

    if shutil.which("mvn") is None and not resolver.cached():
        # Ivy is part of Spark; where the registry has the whole set it needs nothing else.
        import pyspark  # noqa: PLC0415

        return {"spark.jars.packages": f"{resolver.CONNECTOR}:{pyspark.__version__}"}
    return {"spark.jars": ",".join(str(jar) for jar in resolver.resolve())}


DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"


def _delta_settings(own: Mapping[str, str]) -> dict[str, str]:
    """What Delta wants of a session beside what the user has settled. Raises: EnvironmentMissing without its jars."""
    import pyspark  # noqa: PLC0415

    from pipeline import jars as resolver  # noqa: PLC0415

    extensions = own.get("spark.sql.extensions", "")
    if DELTA_EXTENSION in extensions:
        return {}  # whoever has settled that has brought the jars
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        wanted = (
            f"--packages {resolver.delta_artifact(pyspark.__version__)} --conf spark.sql.extensions={DELTA_EXTENSION}"
        )
        raise EnvironmentMissing(f"--format delta: spark-submit has started Spark without it; give it {wanted}")
    found = {
        "spark.sql.extensions": ",".join(filter(None, (extensions, DELTA_EXTENSION))),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Of 50 tasks, as Delta would have it, each look at a small table's log takes seconds.
        _SNAPSHOT_PARTITIONS: own.get(_SNAPSHOT_PARTITIONS) or str(os.cpu_count() or 1),
    }
    given = own.get("spark.jars", "")
    if "delta-spark" not in given + own.get("spark.jars.packages", ""):
        found["spark.jars"] = ",".join(filter(None, (given, *map(str, resolver.delta(pyspark.__version__)))))
    return found


def advice(spark: SparkSession) -> list[str]:
    """What in a user's own session differs from what the pipeline was measured with, one sentence each."""
    sentences = []
    for key in ("spark.sql.session.timeZone", "spark.sql.execution.arrow.maxRecordsPerBatch"):
        found = spark.conf.get(key, None)
        if found != RECOMMENDED[key]:
            sentences.append(f"{key} is {found}, {RECOMMENDED[key]} is better here")
    return sentences
