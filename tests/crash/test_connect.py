"""A source of Kafka Connect with exactly-once support reads a file while its worker and the broker are killed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import harness
from tests.clients.transactional import WORKERS
from tests.crash.applications import Application, committed
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, eventually, free_port
from tests.support.java import jars_of

CONNECT_VERSION = "4.3.1"
LINES_PER_ROUND = 1_000
# Two do not fit into the connector's buffer of 1,024 characters: what is left there behind a full batch it sends only
# when the file has grown.
LINE_LENGTH = 600
SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "topic": "lines",
    "batch.size": "20",
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
}


def worker(address: str, port: int, directory: Path, libraries: str) -> Application:
    """A distributed worker: its configuration, its positions and the lines are all in topics."""
    settings = {
        "bootstrap.servers": address,
        "listeners": f"http://127.0.0.1:{port}",
        "group.id": "connect",
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "session.timeout.ms": 3_000,
        "heartbeat.interval.ms": 500,
        "scheduled.rebalance.max.delay.ms": 0,
    }
    for what in ("config", "offset", "status"):
        settings[f"{what}.storage.topic"] = f"connect-{what}"
        settings[f"{what}.storage.replication.factor"] = 1
    properties = directory / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    return Application(f"{libraries}/*", words, directory / "connect.log")


def put_source(port: int, file: Path) -> bool:
    """Whether the worker has taken it."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/connectors/file/config",
        json.dumps({**SOURCE, "file": str(file)}).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return bool(answer.status in (200, 201))  # 200: it had been taken when the answer was lost
    except (urllib.error.URLError, OSError):  # it is starting
        return False


@pytest.mark.slow
@pytest.mark.xdist_group("crash")
def test_every_line_of_a_file_arrives_exactly_once(start_broker: Callable[..., BrokerProcess], tmp_path: Path):
    """Killed while lines are on their way: the worker, the broker, then both."""
    libraries = jars_of(WORKERS / "connect-pom.xml", CONNECT_VERSION)
    broker = start_broker({**QUICK_GROUPS, "transaction.state.log.num.partitions": 3})
    harness.create_topic(broker.address, SOURCE["topic"], 1)
    file = tmp_path / "lines.txt"
    port = free_port()
    connect = worker(broker.address, port, tmp_path, libraries)
    written: list[bytes] = []

    def arrived() -> list[bytes]:
        return [message.value() or b"" for message in committed(broker.address, SOURCE["topic"], 1)]

    def add_lines() -> None:
        lines = [
            (b"line %d " % number).ljust(LINE_LENGTH, b".")
            for number in range(len(written), len(written) + LINES_PER_ROUND)
        ]
        written.extend(lines)
        with file.open("ab") as opened:
            opened.write(b"".join(line + b"\n" for line in lines))

    def wait_for(count: int) -> None:
        eventually(lambda: len(arrived()) >= count, deadline_s=180, every_s=0.2, what=f"it goes on: {connect.log}")

    try:
        file.touch()
        connect.start()
        eventually(lambda: put_source(port, file), deadline_s=120, every_s=0.5, what=f"a source: {connect.log}")
        for victims in ([connect], [broker], [connect, broker]):
            before = len(written)
            add_lines()
            wait_for(before + 100)
            for one in victims:
                one.kill()
            for one in reversed(victims):
                one.start()
        add_lines()
        wait_for(len(written))
    finally:
        connect.kill()

    assert arrived() == written
