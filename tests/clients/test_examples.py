"""The session that README shows, with the scripts it names."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.ledger_reading import why
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


def shown_in_the_readme(command: str) -> str:
    """What README says that this prints."""
    text = (ROOT / "README.md").read_text()
    return text.partition(f"$ .venv/bin/{command}\n")[2].partition("```")[0].strip()


def sentences(text: str) -> set[str]:
    """Whatever is said, but for the numbers in it, which of the two it is said of, and what depends on a heartbeat."""
    text = re.sub(r", [\d.]+ s of it for its next heartbeat| since its \w+(?=, its session)", "", text)
    text = re.sub(r"waited [\d.]+ s for [ab] to rejoin; ", "", text)
    text = re.sub(r"\b[ab]\b(?= \(| joined|:)", "MEMBER", re.sub(r"[\d.:]*\d", "N", text))
    return {part.strip() for line in text.splitlines() for part in re.split(r";|  +| \(N to N\)| \(N\)$", line)} - {""}


@pytest.mark.slow
def test_what_the_readme_shows_of_why_is_what_it_says(start_broker: Callable[..., BrokerProcess], example: Callable):
    """Two consumers, one right after the other; one is killed."""
    broker = start_broker({"num.partitions": 6})
    process, said = example("produce", "orders", "1000", broker.address)
    assert process.wait(120) == 0, said()
    (_, a), (b, b_said) = [example("consume", "orders", "billing", name, broker.address) for name in "ab"]
    eventually(lambda: "committed" in a() and "committed" in b_said(), deadline_s=60)
    b.kill()
    eventually(lambda: "has partitions [0, 1, 2, 3, 4, 5]" in a(), deadline_s=60)
    eventually(lambda: "went unread" in why(broker.address, "billing", "--http", broker.http[7:]).stdout, deadline_s=30)
    printed = why(broker.address, "billing", "--http", broker.http[7:]).stdout
    print(printed)
    assert sentences(printed) == sentences(shown_in_the_readme("kohort why billing"))
