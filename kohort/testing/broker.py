"""The broker as a test has it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.testing import configs, process
from kohort.testing.errors import BrokerDied, Refused
from kohort.testing.records import Record, as_bytes, difference, received, sent
from kohort.testing.waiting import Missed, Span, wait, wait_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from kohort.testing.process import Process

__all__ = ["Broker", "Record"]

# What a test wants: nobody is waited for who is not there, and nothing is made fifty times that one has.
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "10",
}
_LAST_LINES = 40

open_brokers: dict[int, Broker] = {}
"""Those of this process, by `id`: what a failing test is told of."""


class Broker:
    """A broker on a directory of its own, from `open` (or the `with` statement) to `close`.

    `settings` are Kafka's, as in `server.properties`; `topics` maps names to their partitions. Time spans are text such
    as `"45s"`, or seconds. Raises: Refused for what it cannot do, BrokerDied when its process has ended unasked.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, topics: Mapping[str, int] | None = None) -> None:
        self._settings = {**_SETTINGS, **{key: _setting(value) for key, value in (settings or {}).items()}}
        self._topics = dict(topics or {})
        self._process: Process | None = None
        self._folder: Path | None = None
        self._address = ""
        self._ended = "has not been opened: use `with Broker() as broker`, or `open`"

    # --- from start to end

    def open(self) -> Self:
        """Start; nothing happens to one that is open. Raises: Refused for settings that are not allowed."""
        if self._process is not None:
            return self
        self._folder = Path(tempfile.mkdtemp(prefix="kohort-"))
        taken = process.take()
        try:
            self._address = self._opened_in(taken)
            for name, partitions in self._topics.items():
                self.create_topic(name, partitions=partitions)
        except Refused:
            self._leave(taken)
            raise
        except BrokerDied:
            self._process = None
            open_brokers.pop(id(self), None)
            taken.end(kill=True)
            self._remove()
            raise
        return self

    def _opened_in(self, taken: Process) -> str:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", **self._settings}
        folder = str(self._folder)
        answer = taken.ask("open", folder=folder, directory=f"{folder}/data", settings=settings)
        self._process = taken
        open_brokers[id(self)] = self
        return str(answer["address"])

    def close(self) -> None:
        """Stop, and remove the directory. The process is kept for the next broker."""
        taken, self._process = self._process, None
        open_brokers.pop(id(self), None)
        if taken is None:
            return
        self._ended = "is closed"
        try:
            taken.ask("close")
        except BrokerDied:
            taken.end(kill=True)
            raise
        else:
            process.give_back(taken)
        finally:
            self._remove()

    def _leave(self, taken: Process) -> None:
        """It could not be opened; whether it was its directory or its topics."""
        if self._process is not None:
            self.close()
        else:
            process.give_back(taken)
            self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Broker {self._address}>" if self._process is not None else f"<Broker that {self._ended}>"

    # --- for clients

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as every client takes it."""
        self._asked()
        return self._address

    def config(self, library: str) -> dict[str, Any]:
        """How a client of `library` is told where the broker is: aiokafka, confluent-kafka, kafka-python, ..."""
        return configs.config(library, self.bootstrap_servers)

    @property
    def pid(self) -> int:
        """The process that serves it."""
        return self._asked().pid

    # --- topics and records

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None) -> None:
        """A topic, which every client sees from now on. `configs` are Kafka's topic settings."""
        given = {key: _setting(value) for key, value in (configs or {}).items()}
        self.ask("create_topic", name=name, partitions=partitions, configs=given)

    @property
    def topics(self) -> dict[str, int]:
        """Topics by name, and how many partitions each has; not Kafka's own."""
        return dict(self.ask("topics"))

    def produce(
        self,
        topic: str,
        *values: Any,
        key: Any = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | str] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[int]:
        """Write records, and return their offsets once they are committed.

        A value is bytes, text, None (a tombstone), or something that JSON has. Without a partition it goes where Java's
        producer would put its key; to partition 0 without a key, too. The topic is made if there is none.
        """
        common = {
            "key": sent(as_bytes(key, "key")),
            "partition": partition,
            "headers": [(name, sent(as_bytes(data, name))) for name, data in (headers or {}).items()],
            "timestamp_ms": timestamp_ms,
        }
        records = [{**common, "value": sent(as_bytes(value, "value"))} for value in values]
        return [offset for _, offset in self.ask("produce", topic=topic, records=records)] if records else []

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """What the topic holds, partition by partition, in the order of offsets.

        `committed` leaves out what is part of a transaction that was aborted or is still open.
        """
        told = self.ask("records", topic=topic, partition=partition, committed=committed)
        return [received(topic, one) for one in told]

    def assert_produced(
        self,
        topic: str,
        *expected: Any,
        partition: int | None = None,
        committed: bool = False,
        within: Span = 5,
    ) -> list[Record]:
        """Wait until the topic holds the expected records and no others; return them.

        Each is a value, or a pair (key, value); text is compared as UTF-8, lists and dicts as JSON. Their order counts
        within a partition. Raises: AssertionError with the difference, when it is still there after `within`.
        """
        return wait(self._produced(topic, expected, partition, committed), within)

    async def aassert_produced(
        self,
        topic: str,
        *expected: Any,
        partition: int | None = None,
        committed: bool = False,
        within: Span = 5,
    ) -> list[Record]:
        """As `assert_produced`, in a coroutine."""
        return await wait_async(self._produced(topic, expected, partition, committed), within)

    def _produced(
        self, topic: str, expected: Sequence[Any], partition: int | None, committed: bool
    ) -> Callable[[], list[Record]]:
        def look() -> list[Record]:
            try:
                found = self.records(topic, partition, committed=committed)
            except Refused as refused:
                raise Missed(str(refused)) from None
            differs = difference(topic, found, expected)
            if differs is not None:
                raise Missed(differs)
            return found

        return look

    # --- the broker itself

    def log(self) -> str:
        """The broker's log lines so far."""
        if self._folder is None:
            raise Refused(f"this broker {self._ended}")
        path = self._folder / "broker.log"
        return path.read_text() if path.exists() else ""

    def story(self) -> str:
        """What there is to know of it when a test has failed: the last lines of its log."""
        return "\n".join(self.log().splitlines()[-_LAST_LINES:]) or "(it has logged nothing)"

    def ask(self, command: str, **words: Any) -> Any:
        """The broker's answer to a command of the control channel."""
        return self._asked().ask(command, **words)

    def _asked(self) -> Process:
        if self._process is None:
            raise Refused(f"this broker {self._ended}")
        return self._process


def _setting(value: object) -> str:
    """As `server.properties` has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return str(value)
