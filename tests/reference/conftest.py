"""Both brokers, for all tests that ask one and the other the same."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.reference.beside import Folder, Side, kafka_of, kohort_of
from tests.support.broker_process import BrokerDiedError, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.broker_process import BrokerProcess


class Sides(NamedTuple):
    """Kohort, Apache Kafka, and the keys that both have read."""

    ours: Side
    theirs: Side
    folder: Folder


@contextmanager
def started(
    make: Callable[[], tuple[BrokerProcess, dict[str, str]]],
) -> Iterator[tuple[BrokerProcess, dict[str, str]]]:
    """A broker with many ports; made again when somebody else has taken one by the time that it listens."""
    made, addresses = make()
    try:
        made.start()
    except BrokerDiedError:
        made, addresses = make()
        made.start()
    try:
        yield made, addresses
    finally:
        made.close()


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Kohort and Apache Kafka, with the same listeners and the same rule."""
    need("java", "mvn")
    folder = Folder(tmp_path_factory.mktemp("beside"))
    with started(partial(kohort_of, folder)) as ours, started(partial(kafka_of, folder)) as theirs:
        yield Sides(Side(*ours), Side(*theirs), folder)


@pytest.fixture
def sides(both: Sides) -> tuple[Side, Side]:
    """Ours and theirs."""
    return both.ours, both.theirs
