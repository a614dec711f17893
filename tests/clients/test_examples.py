"""The session that README shows, with the scripts it names."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.broker_process import QUICK_GROUPS, ROOT, BrokerProcess, eventually


@pytest.fixture
def example(tmp_path: Path):
    """example("consume", ...) starts a script of examples/; returns it and a call that reads what it said so far."""
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str, *words: str) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
        output = tmp_path / f"{script}-{len(started)}"
        with output.open("wb") as file:
            command = [sys.executable, str(ROOT / "examples" / "session" / f"{script}.py"), *words]
            # A run in the background of a shell has SIGINT ignored, and Python would inherit that.
            started.append(
                subprocess.Popen(
                    command,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
                )
            )
        return started[-1], output.read_text

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_the_session_of_the_readme(start_broker: Callable[..., BrokerProcess], example: Callable):
    """P01, CR01: two consumers share a topic, the broker is killed and started, they go on where they were."""
    broker = start_broker({**QUICK_GROUPS, "num.partitions": 6})

    def produce(count: int) -> None:
        process, said = example("produce", "orders", str(count), broker.address)
        assert process.wait(120) == 0, said()
        assert f"{count} records acknowledged" in said()

    def read_by(consumers: list) -> int:
        lines = [[line for line in said().splitlines() if "records read" in line] for _, said in consumers]
        return sum(int(of_one[-1].split()[1]) for of_one in lines if of_one)

    produce(1000)
    consumers = [example("consume", "orders", "billing", name, broker.address) for name in "ab"]
    eventually(lambda: read_by(consumers) >= 1000, deadline_s=60)
    eventually(lambda: all("has partitions" in said() for _, said in consumers), deadline_s=60)

    broker.restart(kill=True)
    before = read_by(consumers)
    produce(500)
    eventually(lambda: read_by(consumers) == before + 500, deadline_s=60)
    for process, said in consumers:
        process.send_signal(2)
        process.wait(120)
        assert said().rstrip().endswith("left"), said()
