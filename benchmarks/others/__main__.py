"""Kafka tests of two other projects, with the container that they start swapped out, and with Apache Kafka.

quix-streams starts Kafka by testcontainers, FastStream by docker compose on port 9092, which must be free. Each has an
environment of its own; `swapped.py` puts another broker in the container's place, and nothing else of their tests is
changed. Seconds are those of the whole run, the broker's start included. Apache Kafka is tools/kafka's, which starts
faster than a container of it, and is node 1, where three tests of quix-streams want their container's node 0.

python -m benchmarks.others [--folder DIRECTORY]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

from tests.support.broker_process import Kafka

ROOT = Path(__file__).resolve().parents[2]


class Project(NamedTuple):
    """Somebody's tests: where they are, what they need, which of them need a broker."""

    name: str
    url: str
    commit: str
    needs: tuple[str, ...]
    words: tuple[str, ...]
    port: int | None = None  # at which its tests look for the broker


PROJECTS = (
    Project(
        "quix-streams",
        "https://github.com/quixio/quix-streams",
        "dfb63318a6e4169d2e16b7479901159b49ee0f34",
        (
            *("-r", "requirements.txt", "confluent-kafka[avro,json,protobuf,schemaregistry]<2.12", "pytest"),
            *("testcontainers==4.13.2", "fastavro<2", "protobuf<7", "pandas<3"),
        ),
        (
            *(
                "-o",
                "log_cli=false",
                "tests/test_quixstreams/test_kafka",
                "tests/test_quixstreams/test_internal_consumer",
            ),
            "tests/test_quixstreams/test_models/test_topics",
        ),
    ),
    Project(
        "FastStream",
        "https://github.com/ag2ai/faststream",
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
        9092,
    ),
)


def prepared(project: Project, folder: Path) -> tuple[Path, Path]:
    """(its checkout, the Python of its environment), made on first use."""
    checkout, environment = folder / project.name, folder / f"{project.name}-environment"
    python = environment / "bin" / "python"
    if not checkout.exists():
        subprocess.run(["git", "clone", "-q", project.url, str(checkout)], check=True)
        subprocess.run(["git", "-C", str(checkout), "checkout", "-q", project.commit], check=True)
    if not python.exists():
        venv.create(environment, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", *project.needs, f"{ROOT}[testing]"]
        subprocess.run(install, check=True, cwd=checkout)
    return checkout, python


def run(project: Project, folder: Path, swapped: str) -> str:
    """The last line that their pytest prints."""
    checkout, python = prepared(project, folder)
    environment = {**os.environ, "SWAPPED": swapped, "PYTHONPATH": str(Path(__file__).parent)}
    command = [str(python), "-m", "pytest", "-q", "-p", "swapped", *project.words]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip().rpartition("\n")[2] or done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "kohort-others")
    folder = parser.parse_args().folder
    for project in PROJECTS:
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
