"""What every test may use: which broker the client tests run against, what a missing tool means, scenario coverage."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from broker.loop import logs
from protocol.schema.ahead import TREE
from tests.support.broker_process import KINDS, BrokerProcess, need
from tests.support.scenarios import coverage

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

    from tests.clients.harness import Worker

# The broker processes of these tests run what the tests themselves import: not what `make compiled` may have made.
if TREE == "pure":
    os.environ["KOHORT_PURE"] = "1"

# How long an example takes says how busy the machine is, and nothing else.
settings.register_profile("kohort", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kohort")


@pytest.fixture(autouse=True)
def _log_lines_to_standard_error() -> Iterator[None]:
    """A whole broker in a test keeps its log lines; the tests behind it in the same process see theirs again."""
    yield
    logs.configure()


@pytest.fixture(scope="module")
def parser_alone() -> Iterator[None]:
    """For tests that parse Python: the parser of CPython 3.11 does not bear to be called inside itself.

    A collection while a tree is made runs the finalizers of what earlier tests left, whose exceptions are logged with
    tracebacks, for whose marks lines are parsed: "AST constructor recursion depth mismatch".
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    """With `--dist loadgroup`, tests that share what is dear to make run in one process."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.support.units import UnitScheduling

    return UnitScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("loadgroup", default=False):  # what `--dist loadgroup` is in a process that runs tests
        from tests.support.units import quick_ones_last

        quick_ones_last(items)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--against",
        choices=("kohort", "kafka"),
        default=os.environ.get("KOHORT_AGAINST", "kohort"),
        help="the broker that tests of real clients start: this repository's, or Apache Kafka (tools/kafka)",
    )


@pytest.fixture(scope="session")
def against(request: pytest.FixtureRequest) -> str:
    """`kohort`, or `kafka` with `--against kafka`."""
    choice = str(request.config.getoption("--against"))
    if choice == "kafka":
        need("java", "mvn")
    return choice


@pytest.fixture
def start_broker(against: str, tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """start_broker({"key": value}) starts a broker of this test's own, on a fresh directory; ended after the test."""
    started: list[BrokerProcess] = []

    def start(settings: Mapping[str, object] | None = None) -> BrokerProcess:
        broker = KINDS[against](tmp_path / f"broker{len(started)}", settings)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.close()


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The class path of a scripted Java client, by its name, made when the first test asks."""
    # The folder that all test processes of this run share.
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "popen" in shared.name else shared

    def make(client: str) -> str:
        from tests.clients import harness

        return harness.java_classes(shared, client)

    return make


@pytest.fixture
def spawn(tmp_path: Path, class_path: Callable[[str], str]) -> "Iterator[Callable[..., Worker]]":
    """spawn("aiokafka", mode="group", ...) starts a scripted client in a process of its own; ended after the test."""
    from tests.clients import harness

    yield from harness.spawner(tmp_path, class_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a run of everything: how many scenarios of each family some test cites."""
    if list(config.args) != list(config.getini("testpaths")):
        return
    terminalreporter.section("scenarios cited by tests")
    for line in coverage():
        terminalreporter.write_line(line)
