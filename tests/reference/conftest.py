"""Both brokers, for all tests that ask one and the other the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.reference.beside import Folder, Side, kafka_of, kohort_of
from tests.support.broker_process import need

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sides(NamedTuple):
    """Kohort, Apache Kafka, and the keys that both have read."""

    ours: Side
    theirs: Side
    folder: Folder


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Kohort and Apache Kafka, with the same listeners and the same rule."""
    need("java", "mvn")
    folder = Folder(tmp_path_factory.mktemp("beside"))
    (ours, our_addresses), (theirs, their_addresses) = kohort_of(folder), kafka_of(folder)
    with ours, theirs:
        yield Sides(Side(ours, our_addresses), Side(theirs, their_addresses), folder)


@pytest.fixture
def sides(both: Sides) -> tuple[Side, Side]:
    """Ours and theirs."""
    return both.ours, both.theirs
