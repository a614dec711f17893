"""One Spark session with the settings that the pipeline was measured with, and what must be there before it starts.

Starting takes seconds, so everything that can be refused is refused before. A user's own session is never altered;
`advice(spark)` says what in it would be better otherwise.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EnvironmentMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
LOCAL = "local[*,4]"
"""All cores; a task whose worker dies, for want of memory say, is tried again, which a plain `local[*]` does not do."""
NEEDS_JAVA = "kohort pipeline needs Java 17 or newer, and found {found}. "
NEEDS_JAVA += "Install a JRE (Debian: openjdk-17-jre-headless), then try again."
NEEDS_EXTRA = "kohort pipeline needs PySpark: pip install 'kohort[pipeline]'"

ARROW_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Without these the JVM asks of every value of every column whether its buffer is still there and large enough, which
took a sixth of its time. Spark asks for nulls itself, and the columns come from Arrow's own writer."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "134217728", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""Environment of Python workers, bytes: what the arrays of one chunk took is kept for those of the next. Otherwise it
goes back to the system, to be asked for again page by page, which was a tenth of the kernel's time. glibc only."""

RECOMMENDED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",  # printed moments equal stored ones
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # only mapInArrow; the sources choose their own size
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
    if java is None or not Path(java).exists():
        return None
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr + done.stdout)
    return (int(match[2]), match[1]) if match else None


def build(
    *,
    master: str = LOCAL,
    name: str = "kohort",
    jars: Sequence[str] = (),
    connector: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with the pipeline's sources registered.

    `connector` also brings Spark's own Kafka connector, `jars` (paths) instead of resolving it. `settings` override.
    Raises: EnvironmentMissing.
    """
    check_environment()
    from pyspark.sql import SparkSession  # noqa: PLC0415  half a second, and only now is it wanted

    from pipeline import register  # noqa: PLC0415

    # Workers must be this interpreter: another has other packages, or none.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Workers find the pipeline where the driver found it, installed or not.
    root = str(Path(__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**defaults(master), **_jar_settings(jars, connector), **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def defaults(master: str) -> dict[str, str]:
    """The settings of a session on `master`, before what the user overrides."""
    chosen = dict(RECOMMENDED)
    chosen["spark.executorEnv.PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    chosen |= {f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()}
    chosen["spark.executor.extraJavaOptions"] = ARROW_UNCHECKED
    if master.startswith("local"):
        chosen["spark.driver.memory"] = "2g"  # the executor lives in the driver; must be set before the JVM starts
        # A quarter less CPU than the JVM's own choice, which spends it on short pauses that nobody here needs.
        chosen["spark.driver.extraJavaOptions"] = f"-XX:+UseParallelGC {ARROW_UNCHECKED}"
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


def advice(spark: SparkSession) -> list[str]:
    """What in a user's own session differs from what the pipeline was measured with, one sentence each."""
    sentences = []
    for key in ("spark.sql.session.timeZone", "spark.sql.execution.arrow.maxRecordsPerBatch"):
        found = spark.conf.get(key, None)
        if found != RECOMMENDED[key]:
            sentences.append(f"{key} is {found}, {RECOMMENDED[key]} is better here")
    return sentences
