"""What `make spark-package` makes, on a standalone cluster whose executors have nothing of Kohort's, and on YARN."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.capture import unpack
from tests.support.broker_process import ROOT, eventually, free_port, need
from tests.support.java import jars_of

pytestmark = pytest.mark.slow

PYSPARKS_OWN = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pandas", "dateutil", "pytz", "tzdata", "six.py")
LIGHT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SPARK = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the wheel, the zip)."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run([sys.executable, ROOT / "tools" / "spark_package.py", folder], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.whl")), next(folder.glob("*.zip"))


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(the master of a cluster of two workers, each a Java process that knows no Python of ours; where they work)."""
    tmp_path = tmp_path_factory.mktemp("workers")
    need("java")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    words = ["--host", "127.0.0.1", "--webui-port", "0"]
    programs = [["org.apache.spark.deploy.master.Master", *words, "--port", str(port)]]
    size = ["--cores", "1", "--memory", "700m"]
    for number in range(2):
        place = ["--work-dir", str(tmp_path / f"work{number}")]
        programs.append(["org.apache.spark.deploy.worker.Worker", *words, *size, *place, master])
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
    environment |= {
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": LIGHT,
    }
    log = tmp_path / "cluster.log"
    with ExitStack() as running, log.open("wb") as file:
        for program in programs:
            started = [str(SPARK / "bin" / "spark-class"), *program]
            process = subprocess.Popen(started, env=environment, stdout=file, stderr=file, cwd=tmp_path)
            running.callback(process.wait)
            running.callback(process.terminate)
        eventually(lambda: log.read_bytes().count(b"Successfully registered") == len(programs) - 1, what="two workers")
        yield master, tmp_path


PROGRAM = """
import json
from pyspark.sql import SparkSession

import kohort.spark

builder = SparkSession.builder
BUILDER
spark = builder.getOrCreate()
kohort.spark.register(spark)
rows = spark.read.format("kohort-log").options(path={path!r}, records="group", splitBytes="2k").load()
commits = kohort.spark.decode.offset_commits(rows)
print(json.dumps([rows.rdd.getNumPartitions(), [row.group_id for row in commits.select("group_id").collect()]]))
spark.stop()
"""


@pytest.mark.long
def test_executors_need_nothing_of_kohort(package: tuple[Path, Path], workers: tuple[str, Path], tmp_path: Path):
    """The recipes of docs/pipeline.md: the wheel for the driver, the zip for executors, PySpark's own needs there."""
    wheel, archive = package
    master, work = workers
    with zipfile.ZipFile(wheel) as found:
        found.extractall(tmp_path / "wheel")
    bare = bare_python(tmp_path)
    directory, _ = unpack("kafka-4.3.1-compacted-zstd", tmp_path)
    settings = {
        "spark.archives": f"{archive}#kohort",
        "spark.executorEnv.PYTHONPATH": f"./kohort:{bare}",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": LIGHT,
        "spark.executor.extraJavaOptions": LIGHT,
    }
    notebook = tmp_path / "notebook.py"
    notebook.write_text(program(directory, f"builder = builder.master({master!r})", *settings.items()))
    submitted = tmp_path / "submitted.py"
    submitted.write_text(program(directory))
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", master]
    submit += [word for key, text in settings.items() for word in ("--conf", f"{key}={text}")]
    # The interpreter below the virtual environment has none of its packages; on the driver's side they are added. Of
    # the driver's environment executors inherit nothing: their workers were started before.
    python = str(Path(sys.base_prefix) / "bin" / "python3")
    paths = f"{tmp_path / 'wheel'}{os.pathsep}{SPARK.parent}"
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": python, "SPARK_HOME": str(SPARK)}
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable

    for words in ([sys.executable, "-P", str(notebook)], [*submit, str(submitted)]):
        done = subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        tasks, groups = json.loads(done.stdout)
        assert tasks > 1
        assert {"kp", "librd", "janitor"} <= set(groups)
    applications = {file.parents[4].name for file in work.glob("work*/app-*/*/kohort/kohort/rooms/pipeline")}
    assert len(applications) == 2, "nothing was unpacked by a worker"


def program(directory: Path, *settings: str | tuple[str, str]) -> str:
    """What a user writes; in a script for spark-submit it names no settings."""
    lines = [one if isinstance(one, str) else "builder = builder.config({!r}, {!r})".format(*one) for one in settings]
    return PROGRAM.replace("BUILDER", "\n".join(lines)).replace("{path!r}", repr(str(directory)))


def bare_python(folder: Path) -> Path:
    """What a Python needs to be PySpark's, and nothing else."""
    bare = folder / "bare"
    bare.mkdir()
    for name in PYSPARKS_OWN:
        there = SPARK.parent / name
        if there.exists():
            (bare / name).symlink_to(there)
    return bare


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Path]:
    """The folder with the settings of a YARN of two nodes."""
    jars = jars_of(Path(__file__).with_name("yarn.xml"), "3.5.0", of="hadoop")
    settings = tmp_path / "conf" / "yarn-site.xml"
    settings.parent.mkdir()
    words = ["java", "-Xmx400m", *LIGHT.split(), "-cp", f"{jars}/*:{SPARK}/jars/*"]
    words += [str(Path(__file__).with_name("MiniYarn.java")), str(settings)]
    with (tmp_path / "yarn.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log)
    try:

        def ready() -> bool:
            assert process.poll() is None, (tmp_path / "yarn.log").read_text()[-2000:]
            return settings.exists()

        eventually(ready, what="a YARN", deadline_s=200)
        yield settings.parent
    finally:
        process.kill()
        process.wait(30)


@pytest.mark.skipif(not os.environ.get("KOHORT_STORES"), reason="a resource manager, two node managers: make test-all")
def test_on_yarn_in_cluster_mode_the_driver_needs_the_zip_as_executors_do(
    package: tuple[Path, Path], yarn: Path, tmp_path: Path
):
    """There the driver runs on a node, too, which has nothing of Kohort's."""
    _, archive = package
    python, path = str(Path(sys.base_prefix) / "bin" / "python3"), f"./kohort:{bare_python(tmp_path)}"
    directory, _ = unpack("kafka-4.3.1-compacted-zstd", tmp_path)
    answer, submitted = tmp_path / "answer.json", tmp_path / "submitted.py"
    submitted.write_text(program(directory).replace("print(", f"open({str(answer)!r}, 'w').write("))
    settings = {
        "spark.archives": f"{archive}#kohort",
        "spark.yarn.jars": f"local:{SPARK}/jars/*",
        "spark.yarn.stagingDir": (tmp_path / "staging").as_uri(),
        "spark.executor.instances": "2",
        "spark.executor.memory": "500m",
        "spark.driver.memory": "500m",
        "spark.driver.extraJavaOptions": LIGHT,
        "spark.executor.extraJavaOptions": LIGHT,
    }
    for where in ("spark.yarn.appMasterEnv", "spark.executorEnv"):
        settings |= {f"{where}.PYTHONPATH": path, f"{where}.PYSPARK_PYTHON": python}
    words = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
    words += [word for key, text in settings.items() for word in ("--conf", f"{key}={text}")]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
    environment |= {"HADOOP_CONF_DIR": str(yarn), "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": python}
    done = subprocess.run(
        [*words, str(submitted)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    tasks, groups = json.loads(answer.read_text())
    assert tasks > 1
    assert {"kp", "librd", "janitor"} <= set(groups)
