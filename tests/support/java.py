"""Java programs of the tests, compiled against Apache Kafka's jars."""

import contextlib
import os
import subprocess
from pathlib import Path

from tests.support.broker_process import ROOT, need

NEWEST = "4.4.0"


def class_path(source: Path, cache: Path, version: str = "", libraries: str = "") -> str:
    """The class path of one program, compiled on first use. Skips the test where there is no Java.

    `version` chooses Kafka's jars; without it `KAFKA_VERSION` does, as for `tools/kafka`, else they are the newest.
    `libraries` is the folder of other jars.
    """
    need("java", "javac", "mvn")
    version = version or os.environ.get("KAFKA_VERSION", NEWEST)
    libraries = libraries or jars_of_kafka(version)
    classes = cache / f"classes-{source.stem}-{version}"
    if not (classes / f"{source.stem}.class").exists():
        # Compiled beside and renamed, so that another test process never sees half of it.
        building = cache / f"classes-{source.stem}-{version}-{os.getpid()}"
        building.mkdir(parents=True, exist_ok=True)  # of a try that took too long
        command = ["javac", "-cp", f"{libraries}/*", "-d", str(building), str(source)]
        subprocess.run(command, check=True, timeout=400)
        with contextlib.suppress(OSError):  # another was first
            building.rename(classes)
    return f"{classes}:{libraries}/*"


def jars_of_kafka(version: str) -> str:
    """The folder of that version's jars, fetched once. Skips without Maven."""
    need("java", "mvn")
    return subprocess.run(
        [str(ROOT / "tools" / "kafka"), "install"],
        env={**os.environ, "KAFKA_VERSION": version},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout.strip()


def jars_of(pom: Path, version: str, of: str = "kafka") -> str:
    """The folder of what a pom names, in that version `of` Kafka or Flink, fetched once. Skips without Maven."""
    need("java", "javac", "mvn")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort-reference"
    folder = cache / f"{pom.stem}-{version}"
    if not folder.exists():
        # Fetched beside and renamed, so that another test process never sees half of it.
        building = cache / f"{folder.name}-{os.getpid()}"
        words = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-D{of}.version={version}"]
        subprocess.run([*words, f"-DoutputDirectory={building}"], check=True, timeout=600)
        with contextlib.suppress(OSError):  # another was first
            building.rename(folder)
    return str(folder)
