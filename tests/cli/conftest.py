"""`kohort` as a user calls it, against a broker of the session."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli import main
from tests.support.broker_process import QUICK_GROUPS, ROOT, BrokerProcess, Kohort, eventually
from tests.support.closing import close_or_leave

if TYPE_CHECKING:
    from pathlib import Path


class Ended:
    """What a command left behind: exit code, standard output and error."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        assert "Traceback" not in err, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        assert self.code == 0, self
        return json.loads(self.out)

    def rows(self, first: str = "GROUP") -> list[dict[str, str]]:
        """The rows of the table whose head begins so, by column."""
        lines = [line.split() for line in self.out.splitlines() if line.strip()]
        heads = [line for line in lines if line[0] == first]
        assert heads, self
        return [dict(zip(heads[0], line, strict=False)) for line in lines if line[0] != first]


Run = Callable[..., Ended]


def kohort(*words: str, stdin: str | bytes = "") -> Ended:
    """Call `kohort` with these words, in this process: most tests are about what it prints, not how it starts."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    streams = [io.TextIOWrapper(io.BytesIO(text), write_through=True) for text in (data, b"", b"")]
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        code = main(words)
    except SystemExit as ended:  # after --help
        code = int(ended.code or 0)
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    out, err = (stream.buffer.getvalue().decode(errors="replace") for stream in streams[1:])
    return Ended(code, out, err)


def kohort_process(*words: str, **environment: str) -> Ended:
    """Run `kohort` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kohort", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One Kohort for all tests of this folder; each uses topics and groups of its own."""
    with Kohort(tmp_path_factory.mktemp("cli"), {**QUICK_GROUPS, "num.partitions": 1}) as running:
        yield running


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    """run(word ...) calls `kohort` with the broker's address."""

    def call(*words: str, stdin: str | bytes = "") -> Ended:
        return kohort(*words, "--bootstrap-server", broker.address, stdin=stdin)

    return call


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for this test's topics and groups."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{plain[5:50].strip('-')}-{time.monotonic_ns() % 10**9}"


def fill(address: str, topic: str, partitions: int = 3, records: int = 10) -> None:
    """A topic with so many records in each partition; their timestamps are 1 s apart and end now."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(120)
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    now_ms = int(time.time() * 1000)
    for number in range(records):
        for partition in range(partitions):
            producer.produce(
                topic,
                key=f"k{number}",
                value=f"v{partition}-{number}",
                partition=partition,
                timestamp=now_ms - (records - number) * 1000,
            )
    assert producer.flush(120) == 0


class Member:
    """A real client in a group, polled by whoever waits for something."""

    def __init__(self, address: str, group: str, topic: str, **settings: object) -> None:
        extra = {key.replace("_", "."): value for key, value in settings.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **extra,
            }
        )
        self.consumer.subscribe([topic])
        self.seen = 0

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.seen += 1
            self.consumer.commit(message, asynchronous=False)


def until_owned(members: list[Member], partitions: int, reads: int) -> None:
    """Poll until the members own so many partitions, have read so many records, and committed them."""

    def settled() -> bool:
        for member in members:
            member.poll()
        owned = [len(member.consumer.assignment()) for member in members]
        return sum(owned) == partitions and all(owned) and sum(member.seen for member in members) >= reads

    eventually(settled, deadline_s=60, what="members own all partitions and have read", every_s=0)


def committed_group(address: str, group: str, topic: str, reads: int = 15) -> None:
    """An Empty group that has read and committed so many records of the topic."""
    member = Member(address, group, topic)
    eventually(lambda: member.poll() or member.seen >= reads, deadline_s=60, what="records", every_s=0)
    member.consumer.close()


@pytest.fixture
def members() -> Iterator[Callable[..., Member]]:
    """members(address, group, topic) joins a group; it leaves when the test ends."""
    made: list[Member] = []

    def join(*arguments: str, **settings: object) -> Member:
        made.append(Member(*arguments, **settings))
        return made[-1]

    yield join
    for member in made:
        close_or_leave(member.consumer)


@pytest.fixture
def text_file(tmp_path: Path) -> Callable[[str], str]:
    """text_file(text) is the path of a file that holds it."""

    def write(text: str) -> str:
        path = tmp_path / f"file{len(list(tmp_path.iterdir()))}"
        path.write_text(text)
        return str(path)

    return write
