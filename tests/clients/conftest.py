"""Fixtures of the client tests: one broker for all tests of a process, names of their own for each."""

import uuid
from collections.abc import Iterator

import pytest

from tests.broker_process import QUICK_GROUPS, BrokerProcess, Kafka, Kohort


@pytest.fixture(scope="session")
def broker(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests that only need names of their own."""
    kind = Kafka if against == "kafka" else Kohort
    # Records carry fixed old timestamps: kept for ever.
    settings = {**QUICK_GROUPS, "num.partitions": 4, "log.retention.ms": -1}
    with kind(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture
def name() -> str:
    """A name for topics and groups that no other test has."""
    return f"t-{uuid.uuid4().hex[:10]}"
