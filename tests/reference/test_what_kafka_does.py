"""What Apache Kafka does with directories that Kohort never leaves behind: evidence for decisions.

Each test prints what it saw (`-s`), and holds that nothing is lost. Needs Java and Maven, and minutes in which Kafka
waits: `make test-all` runs them, CI does not.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.records import batch
from protocol.records import metadata_records as m
from protocol.types import uuid_text
from tests.broker.partitions.test_startup_epochs import FOOTER, HEADER, LOG, batches
from tests.reference import graduation as g
from tests.support.broker_process import eventually, free_port, need

STARTS = int(os.environ.get("KOHORT_BOOTSTRAP_STARTS", "0"))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not STARTS, reason="three minutes of Kafka's own: make test-all")]
VALUES = [b"1", b"2", b"3"]


@pytest.fixture
def tidy() -> Iterator[Callable[[Any], Any]]:
    """tidy(broker) -> broker, which is killed after the test if it still runs."""
    need("java", "mvn")
    yield from g.ending([])


def _written_by_kohort(tmp_path: Path, tidy: Any, port: int) -> Path:
    kohort = tidy(g.kohort_on(tmp_path / "kohort", port))
    kohort.start()
    g.create(kohort.address, "kept", 1)
    g.write(kohort.address, "kept", *VALUES)
    kohort.stop()
    data: Path = kohort.data
    return data


def _values(address: str) -> list[bytes]:
    return [value for _, value in g.records(address, "kept", 0)]


def _served(address: str) -> bool:
    try:
        return _values(address) == VALUES
    except AssertionError:  # no leader for a whole minute
        return False


def _as_bootstrap(log: Path) -> bytes:
    """What a metadata log says of topics and features, as the `bootstrap.checkpoint` of a directory without a log."""
    data, values = log.read_bytes(), []
    for position, header in batch.iterate_headers(data):
        if not header.is_control:
            values += [(None, record.value or b"") for record in batch.iterate_records(data, position)]
    kept = [pair for pair in values if not isinstance(m.decode_frame(pair[1]), m.RegisterBrokerRecord)]
    return batches((True, [HEADER]), (False, kept), (True, [FOOTER]), epoch=0)


def test_topics_that_stand_in_the_bootstrap_file_only(tmp_path: Path, tidy: Any) -> None:
    """DD40: whether Kafka sets a folder aside, in so many starts on copies (`KOHORT_BOOTSTRAP_STARTS=50`).

    It may publish an empty first image, by which every folder is a stray (KAFKA-15389). Kohort writes the log instead.
    """
    port = free_port()
    source = _written_by_kohort(tmp_path, tidy, port)
    bootstrap = _as_bootstrap(source / LOG)
    shutil.rmtree(source / "__cluster_metadata-0")
    (source / "bootstrap.checkpoint").write_bytes(bootstrap)
    set_aside = 0
    for number in range(STARTS):
        data = tmp_path / f"copy{number}"
        shutil.copytree(source, data)
        kafka = tidy(g.kafka_on(tmp_path / f"kafka{number}", data, port))
        kafka.start()
        eventually(lambda kafka=kafka: "kept" in g.topics(kafka.address), deadline_s=120)
        strays = g.strays(data)
        set_aside += bool(strays)
        if not strays:
            assert _values(kafka.address) == VALUES
        kafka.stop()
        assert (data / "kept-0").exists() or any(name.startswith("kept-0") for name in strays)
    print(f"{set_aside} of {STARTS} starts set folders aside")


@pytest.mark.parametrize("by_kafka", [False, True], ids=["leader_1", "leader_none"])
def test_a_directory_under_another_id(tmp_path: Path, tidy: Any, by_kafka: bool) -> None:
    """DD42: how long a partition has no leader when `directory.id` has changed.

    Kohort leaves leader 1 in the metadata, Kafka's own clean stop leaves none. With the first, 4.3.1 under load
    had none for 200 s. `kohort graduate` tells of it beforehand, and a start of Kohort mends it.
    """
    port = free_port()
    data = _written_by_kohort(tmp_path, tidy, port)
    kohort = tidy(g.kohort_on(tmp_path / "again", port, data))
    kafka = tidy(g.kafka_on(tmp_path / "kafka", data, port))
    if by_kafka:
        kafka.start()
        assert _values(kafka.address) == VALUES
        kafka.stop()
    properties = data / "meta.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("directory.id")]
    properties.write_text("\n".join([*lines, f"directory.id={uuid_text(bytes(range(16)))}", ""]))

    refused = g.graduate(kohort, "--check")
    assert refused.returncode == 1
    assert "its directory.id is not the one" in refused.stderr
    kafka.start()
    began = time.monotonic()
    served = _served(kafka.address)
    print(f"{'served' if served else 'no leader'} {time.monotonic() - began:.1f} s after the start")
    kafka.stop()
    assert g.strays(data) == []

    kohort.start()
    assert _values(kohort.address) == VALUES
    kohort.stop()
    assert g.graduate(kohort, "--check").returncode == 0
    kafka.start()
    assert _values(kafka.address) == VALUES
