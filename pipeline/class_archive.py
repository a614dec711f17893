"""An archive of the classes that Spark's JVM loads, with which it starts seconds sooner (class data sharing, JEP 350).

It is the user's: made when a run is asked for it (`--archive-classes`), kept in the user's cache under a name that
changes with Java and Spark, used by every later run whose JVM is started here, and missed by nobody when it is deleted.
A JVM that finds it to be of other jars leaves it aside.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_S = 300
# Of an archive that does not fit, the JVM would complain on standard output.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


def archive(java: str) -> Path:
    """Where the archive of this Spark under a Java of this version is, or would be."""
    jars = spark_home() / "jars"
    key = f"{java} {jars} {sorted(jar.name for jar in jars.glob('spark-core_*.jar'))}"
    # Whoever has no home at all has no archive, and an error less than Path.home() has.
    root = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")).absolute()  # noqa: PTH111
    return root / "kohort" / f"spark-classes-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"


def spark_home() -> Path:
    """The Spark that is started: a distribution that was unpacked, whose Python pip knows nothing of, or pip's."""
    home = os.environ.get("SPARK_HOME")
    return Path(home or Path(str(importlib.util.find_spec("pyspark").origin)).parent)  # type: ignore[union-attr]  # it is there, see session.check_environment


def java_options(java: str | None, *, make: bool = False) -> str:
    """What the JVM is started with, after a blank: to use the archive, to make it, or nothing where there is none.

    Raises: UsageError where none can be made.
    """
    if java is None:
        return ""
    place = archive(java)
    if make:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--archive-classes: {place.parent}: {(error.strerror or str(error)).lower()}") from None
        return f' -XX:ArchiveClassesAtExit="{_unfinished(place)}" {_SILENT}'
    # Unlike Path.exists it takes a folder that nobody may look into for an empty one.
    is_there = os.path.exists(place)  # noqa: PTH110
    return f' -XX:SharedArchiveFile="{place}" -Xshare:auto {_SILENT}' if is_there else ""


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
