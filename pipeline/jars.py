"""The jars of Spark's own Kafka connector: found in the user's cache, else resolved once.

Only `format("kafka")` needs them; `kohort-log` and `kohort-kafka` do not. Maven is tried first, with the set that
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
from pathlib import Path

from pipeline.errors import EnvironmentMissing

POM = Path(__file__).with_name("kafka-jars.xml")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_ARTIFACTS = 4
_DONE = ".complete"


def cache_directory() -> Path:
    """Where resolved jars are kept: keyed by the content of kafka-jars.xml, so that a new pin resolves anew."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"kafka-jars-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def pinned(name: str) -> str:
    """A version that kafka-jars.xml names, e.g. `spark.version`."""
    found = re.search(rf"<{re.escape(name)}>([^<]+)</", POM.read_text())
    assert found, name
    return found[1]


def cached() -> list[Path]:
    """The jars of an earlier run; empty when there was none."""
    folder = cache_directory()
    return sorted(folder.glob("*.jar")) if (folder / _DONE).exists() else []


def resolve() -> list[Path]:
    """The four jars, from the cache or by Maven.

    Raises: EnvironmentMissing naming the artifact and the ways around it.
    """
    found = cached()
    if found:
        return found
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentMissing(_no_jars("Maven (mvn) is not on PATH"))
    folder = cache_directory()
    folder.parent.mkdir(parents=True, exist_ok=True)
    problems = []
    for token_version in (pinned("token.version"), pinned("token.substitute")):
        # Resolved aside and moved in whole: another process never sees half a set.
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            problem = _copy_dependencies(maven, token_version, Path(scratch))
            if problem is None:
                (Path(scratch) / _DONE).touch()
                if not folder.exists():
                    shutil.copytree(scratch, folder)
                return cached()
            problems.append(problem)
    raise EnvironmentMissing(_no_jars(problems[-1]))


def _copy_dependencies(maven: str, token_version: str, target: Path) -> str | None:
    """What was wrong, or None when all four lie in `target`."""
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={target}", f"-Dtoken.version={token_version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and len(list(target.glob("*.jar"))) == _ARTIFACTS:
        return None
    missing = re.search(r"([\w.]+:[\w.-]+:jar:[\w.-]+)", done.stdout + done.stderr)
    return f"Maven could not get {missing[1] if missing else CONNECTOR + ':' + pinned('spark.version')}"


def _no_jars(why: str) -> str:
    return (
        f"Spark's Kafka connector is not there: {why}. `kohort pipeline --from DIR` and --from HOST:PORT need no jar; "
        f"for the connector name its jars by hand: --jars PATH,... ({CONNECTOR}:{pinned('spark.version')} and "
        "spark-token-provider-kafka-0-10, kafka-clients, commons-pool2)"
    )
