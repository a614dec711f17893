"""Java programs of the tests, compiled against Apache Kafka's jars."""

import contextlib
import os
import subprocess
from pathlib import Path

from tests.support.broker_process import ROOT, need


def class_path(source: Path, cache: Path) -> str:
    """The class path of one program, compiled on first use. Skips the test where there is no Java.

    `KAFKA_VERSION` chooses the jars, as for `tools/kafka`.
    """
    need("java", "javac", "mvn")
    libraries = subprocess.run(
        [str(ROOT / "tools" / "kafka"), "install"], check=True, capture_output=True, text=True, timeout=300
    ).stdout.strip()
    classes = cache / f"classes-{source.stem}"
    if not (classes / f"{source.stem}.class").exists():
        # Compiled beside and renamed, so that another test process never sees half of it.
        building = cache / f"classes-{source.stem}-{os.getpid()}"
        building.mkdir(parents=True)
        command = ["javac", "-cp", f"{libraries}/*", "-d", str(building), str(source)]
        subprocess.run(command, check=True, timeout=120)
        with contextlib.suppress(OSError):  # another was first
            building.rename(classes)
    return f"{classes}:{libraries}/*"
