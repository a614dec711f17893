"""Fixtures of the client tests: one broker for all tests of a process, workers that end with their test."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_process import QUICK_GROUPS, BrokerProcess, Kafka, Kohort
from tests.clients import harness


@pytest.fixture(scope="session")
def broker(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests that only need names of their own."""
    kind = Kafka if against == "kafka" else Kohort
    # Records carry fixed old timestamps: kept for ever.
    settings = {**QUICK_GROUPS, "num.partitions": 4, "log.retention.ms": -1}
    with kind(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """The Java worker's class path, made when the first test asks."""
    # The folder that all test processes of this run share.
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "popen" in shared.name else shared
    return lambda: harness.java_classes(shared)


@pytest.fixture
def spawn(tmp_path: Path, class_path: Callable[[], str]) -> Iterator[Callable[..., harness.Worker]]:
    """spawn("aiokafka", mode="group", ...) starts a scripted client."""
    yield from harness.spawner(tmp_path, class_path)


@pytest.fixture
def name() -> str:
    """A name for topics and groups that no other test has."""
    return f"t-{uuid.uuid4().hex[:10]}"
