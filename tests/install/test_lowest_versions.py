"""The lower bounds of `pyproject.toml`: broker and command line with the oldest versions that others may resolve to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.broker_process import QUICK_GROUPS, ROOT, Kohort, eventually
from tests.support.environments import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("install")]
UV = Path(sys.executable).with_name("uv")


class Lowest(Kohort):
    """A broker of the environment whose `bin` is named, not of the checkout."""

    def __init__(self, programs: Path, folder: Path, settings: Mapping[str, object]) -> None:
        super().__init__(folder, settings, environment={"PYTHONPATH": "", "PYTHONSAFEPATH": "1"})
        self.root = folder
        self._python = programs / "python"

    def command(self) -> list[str]:
        return [str(self._python), *super().command()[1:]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with `kohort[cli]` and the oldest of each package that it names."""
    folder = tmp_path_factory.mktemp("lowest")
    for words in (
        ["venv", "--python", sys.executable, folder],
        ["pip", "install", "--python", folder / "bin" / "python", "--resolution", "lowest-direct", f"{ROOT}[cli]"],
    ):
        done = subprocess.run([UV, *words], env=clean_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_groups_form_and_are_told_of_with_the_oldest_versions(programs: Path, tmp_path: Path) -> None:
    """Groups of both protocols, which read records of every codec, and the verbs that tell of them."""
    with Lowest(programs, tmp_path, {**QUICK_GROUPS, "num.partitions": 2}) as broker:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = Producer({"bootstrap.servers": broker.address, "compression.type": codec})
            producer.produce("orders", b"x" * 1_000)
            assert producer.flush(60) == 0
        for protocol in ("classic", "consumer"):
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.address,
                    "group.id": protocol,
                    "group.protocol": protocol,
                    "auto.offset.reset": "earliest",
                }
            )
            consumer.subscribe(["orders"])
            read: list[bytes | None] = []

            def all_read(read: list[bytes | None] = read, consumer: Consumer = consumer) -> bool:
                message = consumer.poll(0.5)
                if message is not None and not message.error():
                    read.append(message.value())
                return len(read) == 5

            eventually(all_read, what="five records")
            consumer.commit(asynchronous=False)
            consumer.close()

        told = {
            verb: _run(programs, broker, tmp_path, verb, *words)
            for verb, words in {
                "groups": ("list",),
                "topics": ("describe", "orders"),
                "why": ("classic",),
            }.items()
        }
    assert {"classic", "consumer"} <= set(told["groups"].split())
    assert "orders" in told["topics"]
    assert "joined" in told["why"]


def test_a_certificate_is_made_and_used_with_the_oldest_versions(programs: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    printed = _run_words([programs / "kohort", "certificates", keys], tmp_path)
    settings = dict(line.split("=", 1) for line in printed.splitlines() if line.startswith("ssl."))
    broker = Lowest(programs, tmp_path / "broker", settings)
    broker.settings["listeners"] = f"SSL://127.0.0.1:{broker.port}"
    with broker:
        client = {"bootstrap.servers": broker.address, "security.protocol": "SSL"}
        producer = Producer({**client, "ssl.ca.location": str(keys / "authority.crt")})
        producer.produce("secret", b"x")
        assert producer.flush(60) == 0


def _run(programs: Path, broker: Kohort, folder: Path, verb: str, *words: str) -> str:
    return _run_words([programs / "kohort", verb, "--bootstrap-server", broker.address, *words], folder)


def _run_words(words: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
