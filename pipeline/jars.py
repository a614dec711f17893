"""The jars of Spark's own Kafka connector, and those of Delta: found in the user's cache, else resolved once.

Only `format("kafka")` and `--format delta` need them. Of the connector Maven is tried first, with the set that
belongs together and then with a substitute for the one helper that some registries lack; where there is no Maven,
Spark's own resolver (Ivy) is left to try.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from pipeline.errors import EnvironmentMissing

POM = Path(__file__).with_name("kafka-jars.xml")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
DELTA_POM = Path(__file__).with_name("delta-jars.xml")
_DONE = ".complete"


def cache_directory(pom: Path = POM) -> Path:
    """Where resolved jars are kept: keyed by the content of the XML file, so that a new pin resolves anew."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"{pom.stem}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"


def pinned(name: str, pom: Path = POM) -> str:
    """A version that such a file names, e.g. `spark.version`."""
    found = re.search(rf"<{re.escape(name)}>([^<]+)</", pom.read_text())
    assert found, name
    return found[1]


def cached() -> list[Path]:
    """The connector's jars of an earlier run; empty when there was none."""
    return _kept(cache_directory())


def resolve() -> list[Path]:
    """The connector's four jars, from the cache or by Maven.

    Raises: EnvironmentMissing naming the artifact and the ways around it.
    """
    versions = (pinned("token.version"), pinned("token.substitute"))
    return _resolve(POM, cache_directory(), [f"-Dtoken.version={version}" for version in versions], _no_jars)


def delta(spark_version: str) -> list[Path]:
    """The five jars of Delta for this Spark, from the cache or by Maven.

    Raises: EnvironmentMissing naming the artifact and the ways around it.
    """
    spark, wanted = _binary(spark_version), delta_artifact(spark_version)
    folder = cache_directory(DELTA_POM).with_name(f"{cache_directory(DELTA_POM).name}-{spark}")

    def without(why: str) -> str:
        return (
            f"--format delta needs Delta's jars: {why}. Parquet needs none; or name them by hand: --jars PATH,... "
            f"({wanted}, and delta-storage, delta-kernel-api, delta-kernel-defaults, delta-kernel-unitycatalog)"
        )

    return _resolve(DELTA_POM, folder, [f"-Dspark.binary={spark}"], without)


def delta_artifact(spark_version: str) -> str:
    """The one artifact of Delta's that brings the others where it is resolved with what it depends on."""
    return f"io.delta:delta-spark_{_binary(spark_version)}_2.13:{pinned('delta.version', DELTA_POM)}"


def _binary(spark_version: str) -> str:
    return ".".join(spark_version.split(".")[:2])


def _kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar")) if (folder / _DONE).exists() else []


def _resolve(pom: Path, folder: Path, attempts: Iterable[str], without: Callable[[str], str]) -> list[Path]:
    """What a file names, with the first of these settings with which all of it can be had; `without` words why not."""
    found = _kept(folder)
    if found:
        return found
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentMissing(without("Maven (mvn) is not on PATH"))
    problem = ""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for setting in attempts:
            # Resolved aside and moved in whole: another process never sees half a set.
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                problem = _copy_dependencies(maven, pom, setting, Path(scratch))
                if not problem:
                    (Path(scratch) / _DONE).touch()
                    if not folder.exists():
                        shutil.copytree(scratch, folder)
                    return _kept(folder)
    except OSError as error:
        problem = f"{error.filename}: {(error.strerror or str(error)).lower()}"
    raise EnvironmentMissing(without(problem))


def _copy_dependencies(maven: str, pom: Path, setting: str, target: Path) -> str:
    """What was wrong; empty when all lie in `target`."""
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={target}", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and len(list(target.glob("*.jar"))) == pom.read_text().count("<dependency>"):
        return ""
    missing = re.search(r"([\w.]+:[\w.-]+:jar:[\w.-]+)", done.stdout + done.stderr)
    return f"Maven could not get {missing[1] if missing else 'what ' + pom.name + ' names'}"


def _no_jars(why: str) -> str:
    return (
        f"Spark's Kafka connector is not there: {why}. `kohort pipeline --from DIR` and --from HOST:PORT need no jar; "
        f"for the connector name its jars by hand: --jars PATH,... ({CONNECTOR}:{pinned('spark.version')} and "
        "spark-token-provider-kafka-0-10, kafka-clients, commons-pool2)"
    )
