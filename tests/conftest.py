"""What every test may use: which broker the client tests run against, what a missing tool means, scenario coverage."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, Kafka, Kohort, need
from tests.scenarios import coverage


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
        kind = Kafka if against == "kafka" else Kohort
        broker = kind(tmp_path / f"broker{len(started)}", settings)
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a run of everything: how many scenarios of each family some test cites."""
    if list(config.args) != list(config.getini("testpaths")):
        return
    terminalreporter.section("scenarios cited by tests")
    for line in coverage():
        terminalreporter.write_line(line)
