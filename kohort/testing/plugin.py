"""The pytest plugin: its fixtures, its option, and what it tells of the brokers of a test that has failed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest

from kohort.testing import factories, process
from kohort.testing.broker import Broker, open_brokers
from kohort.testing.chaos import MARKER
from kohort.testing.errors import BrokerDied, Refused

if TYPE_CHECKING:
    from collections.abc import Generator

_SEED = "kohort_seed"
_known_dead: WeakSet[Broker] = WeakSet()

kohort = factories.kohort()
kohort_proc = factories.kohort_proc()
kohort_noproc = factories.kohort_noproc()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where `kohort_noproc` finds its broker."""
    parser.getgroup("kohort").addoption(
        "--kohort-bootstrap-servers",
        dest=factories.OPTION,
        default=os.environ.get("KOHORT_BOOTSTRAP_SERVERS"),
        help="HOST:PORT of a broker that runs already, for the fixture kohort_noproc",
    )
    parser.getgroup("kohort").addoption(
        "--kohort-seed",
        type=int,
        dest=_SEED,
        help="the one seed that tests under kohort.testing.chaos have, instead of all of theirs",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell of the marker."""
    config.addinivalue_line("markers", f"{MARKER}(seeds, kinds): what kohort.testing.chaos sets")


@pytest.fixture
def kohort_seed(request: pytest.FixtureRequest) -> factories.Seed:
    """The seed of a test under `kohort.testing.chaos`, and its kinds of faults."""
    found: factories.Seed = getattr(request, "param", (None, ()))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test under chaos runs once for each seed."""
    marker = metafunc.definition.get_closest_marker(MARKER)
    if marker is None:
        return
    if "kohort_seed" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: chaos needs a broker of its own, the fixture kohort or one of "
            "kohort.testing.factories.kohort"
        )
    one = metafunc.config.getoption(_SEED)
    seeds = marker.kwargs["seeds"] if one is None else (one,)
    pairs = [(seed, marker.kwargs["kinds"]) for seed in seeds]
    metafunc.parametrize("kohort_seed", pairs, indirect=True, ids=[f"seed{seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """A fault that was never hit fails its test; no fault of one test hits the next."""
    try:
        result = yield
    except BaseException:
        for broker in list(open_brokers.values()):
            try:
                broker.forget_faults()
            except BrokerDied:
                _known_dead.add(broker)
        raise
    for broker in list(open_brokers.values()):
        try:
            broker.verify()
        except BrokerDied:
            # One that tests share fails the test in which it died; later ones may do without it.
            if broker not in _known_dead:
                _known_dead.add(broker)
                raise
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """A test that fails, or the set-up of one, is shown what happened to its brokers."""
    report = yield
    if report.failed:
        for broker in list(open_brokers.values()):
            try:
                summary = broker.summary()
            except (BrokerDied, Refused) as error:
                summary = str(error)
            report.sections.append((f"Kohort at {broker.bootstrap_servers}", summary))
    return report


def pytest_unconfigure() -> None:
    """No process outlives the tests."""
    process.end_all()
