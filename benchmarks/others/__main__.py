"""Kafka tests of other projects, with the container that they start swapped out, on Kohort and on Apache Kafka.

adc-streaming starts a container by Docker's API, taskiq-aio-kafka by docker compose: their sdists are taken from PyPI.
Those of quix-streams (testcontainers) and FastStream (docker compose) have no tests: `--cloned` takes GitHub's.
Each has an environment of its own; `swapped.py` puts another broker in the container's place, and nothing else of their
tests is changed. Seconds are those of the whole run, the broker's start included. Apache Kafka is tools/kafka's, which
starts faster than a container of it; it is node 1, where three tests of quix-streams want their container's node 0.

make bench ARGS="others [--cloned] [--folder DIRECTORY]"
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.support.broker_process import Kafka

ROOT = Path(__file__).resolve().parents[2]


class Project(NamedTuple):
    """Somebody's tests: where they are, what they need, which of them need a broker."""

    name: str
    version: str  # of the sdist, or the commit
    needs: tuple[str, ...]
    words: tuple[str, ...]
    url: str | None = None  # to be cloned
    port: int | None = None  # at which its tests look for the broker


PROJECTS = (
    Project(
        "adc-streaming", "2.7.1", (".", "pytest", "pytest-integration", "pytest-timeout"),
        ("-o", "log_cli=false", "tests"),
    ),
    Project("taskiq-aio-kafka", "1.0.0", (".", "kafka-python<3", "pytest>=9.0.1", "anyio>=4.11.0"), ("tests",)),
)  # fmt: skip
CLONED = (
    Project(
        "quix-streams",
        "dfb63318a6e4169d2e16b7479901159b49ee0f34",
        (
            *("-r", "requirements.txt", "confluent-kafka[avro,json,protobuf,schemaregistry]<2.12", "pytest"),
            *("testcontainers==4.13.2", "fastavro<2", "protobuf<7", "pandas<3"),
        ),
        (
            *("-o", "log_cli=false", "tests/test_quixstreams/test_kafka"),
            *("tests/test_quixstreams/test_internal_consumer", "tests/test_quixstreams/test_models/test_topics"),
        ),
        "https://github.com/quixio/quix-streams",
    ),
    Project(
        "FastStream",
        "7c9a125dfdf20cc45b64aac26b53559057443da1",
        (
            *(".[kafka,confluent,cli]", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-rerunfailures"),
            *("dirty-equals", "httpx", "fastapi", "pydantic-settings", "freezegun", "msgspec", "uvicorn"),
            *("prometheus-client", "opentelemetry-sdk", "PyYAML", "email-validator", "psutil"),
        ),
        (
            *("-m", "connected and not slow", "tests/brokers/kafka/test_consume.py"),
            *("tests/brokers/kafka/test_publish.py", "tests/brokers/confluent/test_publish.py"),
        ),
        "https://github.com/ag2ai/faststream",
        9092,
    ),
)


def prepared(project: Project, folder: Path) -> tuple[Path, Path]:
    """(its source, the Python of its environment), made on first use."""
    source = folder / f"{project.name}-{project.version}"
    environment = folder / f"{source.name}-environment"
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
    if not source.exists():
        take = cloned if project.url else unpacked
        take(project, python, source)
    if not (source / "installed").exists():
        install = [str(python), "-m", "pip", "install", "-q", *project.needs, f"{ROOT}[testing]"]
        subprocess.run(install, check=True, cwd=source)
        (source / "installed").touch()
    return source, python


def cloned(project: Project, python: Path, source: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(project.url), str(source)], check=True)
    subprocess.run(["git", "-C", str(source), "checkout", "-q", project.version], check=True)


def unpacked(project: Project, python: Path, source: Path) -> None:
    """Of PyPI, as pip finds it."""
    with tempfile.TemporaryDirectory(dir=source.parent) as place:
        words = ["download", "-q", "--no-deps", "--no-binary", project.name, "-d", place]
        subprocess.run([str(python), "-m", "pip", *words, f"{project.name}=={project.version}"], check=True)
        (archive,) = Path(place).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        archive.unlink()
        (inside,) = Path(place).iterdir()
        inside.rename(source)


def run(project: Project, folder: Path, swapped: str) -> str:
    """The last line that their pytest prints."""
    source, python = prepared(project, folder)
    environment = {**os.environ, "SWAPPED": swapped, "PYTHONPATH": str(Path(__file__).parent)}
    command = [str(python), "-m", "pytest", "-q", "-p", "swapped", *project.words]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    (folder / f"{source.name}.log").write_text(done.stdout + done.stderr)
    return done.stdout.strip().rpartition("\n")[2] or done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where sources and environments are kept for the next time")
    parser.add_argument(
        "--cloned", action="store_true", help="also those that are taken from GitHub; 9092 must be free"
    )
    options = parser.parse_args()
    with ExitStack() as until:
        folder = options.folder or Path(until.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        for project in (*PROJECTS, *(CLONED if options.cloned else ())):
            prepared(project, folder)
            began = time.perf_counter()
            said = run(project, folder, "kohort")
            print(f"{project.name} on Kohort: {time.perf_counter() - began:.1f} s: {said}", flush=True)
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as place, Kafka(Path(place) / "kafka", port=project.port) as kafka:
                said = run(project, folder, kafka.address)
            print(f"{project.name} on Apache Kafka: {time.perf_counter() - began:.1f} s: {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
