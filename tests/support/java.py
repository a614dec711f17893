"""Java programs of the tests, compiled against Apache Kafka's jars."""

import contextlib
import os
import subprocess
from pathlib import Path

from tests.support.broker_process import ROOT, need

NEWEST = "4.4.0"


def class_path(source: Path, cache: Path, version: str = "") -> str:
    """The class path of one program, compiled on first use. Skips the test where there is no Java.

    `version` chooses the jars; without it `KAFKA_VERSION` does, as for `tools/kafka`, else they are the newest.
    """
    need("java", "javac", "mvn")
    version = version or os.environ.get("KAFKA_VERSION", NEWEST)
    libraries = subprocess.run(
        [str(ROOT / "tools" / "kafka"), "install"],
        env={**os.environ, "KAFKA_VERSION": version},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout.strip()
    classes = cache / f"classes-{source.stem}-{version}"
    if not (classes / f"{source.stem}.class").exists():
        # Compiled beside and renamed, so that another test process never sees half of it.
        building = cache / f"classes-{source.stem}-{version}-{os.getpid()}"
        building.mkdir(parents=True)
        command = ["javac", "-cp", f"{libraries}/*", "-d", str(building), str(source)]
        subprocess.run(command, check=True, timeout=120)
        with contextlib.suppress(OSError):  # another was first
            building.rename(classes)
    return f"{classes}:{libraries}/*"
