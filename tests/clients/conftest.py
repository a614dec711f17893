"""Fixtures of the client tests: one broker for all tests of a process, names of their own for each."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.broker_process import KINDS, QUICK_GROUPS, BrokerProcess, eventually
from tests.support.wire import Wire


@pytest.fixture(scope="session")
def broker(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests that only need names of their own."""
    # Records carry fixed old timestamps: kept for ever.
    settings = {**QUICK_GROUPS, "num.partitions": 4, "log.retention.ms": -1}
    with KINDS[against](tmp_path_factory.mktemp("broker"), settings) as running:
        with Wire(running.address) as wire:
            # The first who asks has the offsets topic made, and is told to come back; kafka-python's admin does not.
            eventually(lambda: wire.coordinator_error("any") == 0, deadline_s=60)
        yield running


@pytest.fixture
def name() -> str:
    """A name for topics and groups that no other test has."""
    return f"t-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def only_kohort(against: str) -> None:
    """For what only Kohort has."""
    if against != "kohort":
        pytest.skip("Apache Kafka keeps no ledger")
