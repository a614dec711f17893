"""Fixtures made to measure: `orders = factories.kohort(topics={"orders": 3})` in a `conftest.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kohort.testing.broker import Broker
from kohort.testing.external import External

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kohort.testing.snapshots import Snapshot

OPTION = "kohort_bootstrap_servers"
Seed = tuple[int | None, tuple[str, ...]]
"""Of a test under `chaos`, with its kinds of faults; (None, ()) of any other."""


def kohort(
    settings: Mapping[str, object] | None = None,
    topics: Mapping[str, int] | None = None,
    load: Snapshot | Path | str | None = None,
) -> Any:
    """A fixture: a fresh broker for each test, with these settings and topics, on a copy of `load`."""

    @pytest.fixture
    def fresh_broker(kohort_seed: Seed) -> Iterator[Broker]:
        """A broker for this test alone, under the faults of the test's seed if it has one."""
        seed, kinds = kohort_seed
        if seed is None:
            with Broker(settings, topics, load) as broker:
                yield broker
        else:
            # Then a power cut takes nothing that was acknowledged.
            with Broker({"kohort.durability": "always", **(settings or {})}, topics, load) as broker:
                broker.chaos(seed, kinds).begin()
                yield broker

    return fresh_broker


def kohort_proc(
    settings: Mapping[str, object] | None = None,
    topics: Mapping[str, int] | None = None,
    load: Snapshot | Path | str | None = None,
) -> Any:
    """A fixture: one broker for all tests of a session (under xdist: of a worker), as `kohort` has it."""

    @pytest.fixture(scope="session")
    def session_broker() -> Iterator[Broker]:
        """A broker that all tests share."""
        with Broker(settings, topics, load) as broker:
            yield broker

    return session_broker


def kohort_noproc(bootstrap_servers: str | None = None) -> Any:
    """A fixture: the address of a broker that is there, this one or that of `--kohort-bootstrap-servers`."""

    @pytest.fixture(scope="session")
    def external_broker(request: pytest.FixtureRequest) -> External:
        """A broker that somebody else has started."""
        address = bootstrap_servers or request.config.getoption(OPTION)
        if not address:
            raise pytest.UsageError(
                "kohort_noproc needs --kohort-bootstrap-servers=HOST:PORT, or KOHORT_BOOTSTRAP_SERVERS"
            )
        return External(address)

    return external_broker
