"""An archive of the classes that Spark's JVM loads, with which it starts seconds sooner (class data sharing, JEP 350).

It is the user's: made when a run is asked for it (`--archive-classes`), kept in the user's cache under a name that
changes with Java and Spark, used by every later run whose JVM is started here, and missed by nobody when it is deleted.
A JVM that finds it to be of other jars leaves it aside.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_S = 300
# Of an archive that does not fit, the JVM would complain on standard output.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


def archive(java: str) -> Path:
    """Where the archive of this Spark under a Java of this version is, or would be."""
    jars = importlib.metadata.distribution("pyspark").locate_file("pyspark/jars")
    key = f"{java} {importlib.metadata.version('pyspark')} {jars}"
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"spark-classes-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"


def java_options(java: str | None, *, make: bool = False) -> str:
    """What the JVM is started with, after a blank: to use the archive, to make it, or nothing where there is none."""
    if java is None:
        return ""
    place = archive(java)
    if make:
        place.parent.mkdir(parents=True, exist_ok=True)
        return f" -XX:ArchiveClassesAtExit={_unfinished(place)} {_SILENT}"
    return f" -XX:SharedArchiveFile={place} -Xshare:auto {_SILENT}" if place.exists() else ""


def keep(spark: SparkSession, java: str | None) -> str:
    """End the session's JVM, which then writes the archive; returns a sentence about it."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.stdin is None or java is None:
        return "no archive of classes was made: another program has started the JVM"
    gateway.shutdown()
    process.stdin.close()
    place = archive(java)
    try:
        process.wait(_LONGEST_S)
        # In place whole, or not at all: a JVM may be about to read it.
        _unfinished(place).replace(place)
    except (OSError, subprocess.TimeoutExpired):
        _unfinished(place).unlink(missing_ok=True)
        return "no archive of classes was made: the JVM wrote none"
    return f"{place}: {place.stat().st_size >> 20} MiB of classes, with which later runs start sooner"


def _unfinished(place: Path) -> Path:
    return place.with_suffix(f".{os.getpid()}")
