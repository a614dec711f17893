"""The broker as a test has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.testing import configs, given
from kohort.testing.chaos import KINDS, Chaos
from kohort.testing.clock import Clock
from kohort.testing.errors import Refused
from kohort.testing.faults import Faults
from kohort.testing.groups import Group
from kohort.testing.life import Life
from kohort.testing.records import Record, as_bytes, difference, received, sent
from kohort.testing.requests import Request
from kohort.testing.snapshots import Snapshot
from kohort.testing.waiting import Missed, Span, wait, wait_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self
__all__ = ["Broker", "Record", "Request"]

# What a test wants: nobody is waited for who is not there, and nothing is made fifty times that one has.
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "10",
    "group.consumer.min.session.timeout.ms": "10",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "200",  # members learn with a heartbeat what they are to do
    "max.incremental.fetch.session.cache.slots": "0",  # each fetch names its topics: faults and journal see them
}
_LAST_LINES = 40
_GROUPS_TOLD = 10
_LAST_REQUESTS = 20

open_brokers: dict[int, Broker] = {}
"""Those of this process, by `id`: what a failing test is told of."""


class Broker:
    """A broker on a directory of its own, from `open` (or the `with` statement) to `close`.

    `settings` are Kafka's, as in `server.properties`; `topics` maps names to their partitions; it begins with a copy of
    `load`, a snapshot or a directory of logs, Apache Kafka's too. Time spans are text such
    as `"45s"`, or seconds. Raises: Refused for what it cannot do, BrokerDied when its process has ended unasked.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        topics: Mapping[str, int] | None = None,
        load: Snapshot | Path | str | None = None,
    ) -> None:
        own = {key: _setting(value) for key, value in (settings or {}).items()}
        self._life = Life({**_SETTINGS, **own})
        self._topics = _partitions(topics)
        self._load = load
        if isinstance(load, Snapshot):
            self._life.clock = list(load.clock)
        self._requests: list[Request] = []  # of earlier lives
        self._faults = Faults(self._life, self.recent_requests)
        self._clock = Clock(self._life)
        self._chaos: Chaos | None = None

    # --- from start to end

    def open(self) -> Self:
        """Start; nothing happens to one that is open. Raises: Refused for settings that are not allowed."""
        if self._life.folder is None:
            load = self._load
            self._life.begin(Path(load) if isinstance(load, str) else load)
            open_brokers[id(self)] = self
            try:
                if self._topics:
                    self.ask("create_topics", topics=[_topic(*topic) for topic in self._topics.items()])
            except BaseException:
                self.close()
                raise
        return self

    def close(self) -> None:
        """Stop, and remove the directory. The process is kept for the next broker."""
        open_brokers.pop(id(self), None)
        if self._life.folder is not None:
            self._life.end()

    def verify(self) -> None:
        """Remove all faults; a broker that is paused goes on. Raises: AssertionError when one was never hit, or
        auditors have seen what must not be; BrokerDied."""
        self._life.check()
        if self._life.process is not None:
            self._life.resume()
            if self._chaos is not None:
                self._chaos.end()
            self.faults.verify()
        else:
            self.faults.verify(ended=True)

    def forget_faults(self) -> None:
        """Remove all faults, whether they were hit or not."""
        self._faults = Faults(self._life, self.recent_requests)
        if self._life.process is not None and not self._life.is_paused:
            if self._chaos is not None:
                self._chaos.stop()
            self._life.ask("remove_faults")

    def chaos(self, seed: int, kinds: Iterable[str] = KINDS) -> Chaos:
        """Faults of all kinds, chosen by a seed, and auditors: `with broker.chaos(17):`.

        `kinds` are some of errors, wire, death, power, pause, groups, disk, clock; power only where
        `kohort.durability=always`, since otherwise a power cut may take what was acknowledged.
        """
        chosen = [kind for kind in kinds if kind != "power" or self._life.settings.get("kohort.durability") == "always"]
        self._chaos = Chaos(self._life, seed, chosen, fresh=self._load is None)
        return self._chaos

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.verify()
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Broker that {self._life.state}>"

    # --- what may happen to a broker

    def stop(self) -> None:
        """End it in good order; its directory and its address stay, for `start`."""
        self._put_away()
        self._life.stop()

    def kill(self) -> None:
        """End it by SIGKILL, in the middle of whatever it does; `start` recovers."""
        self._put_away()
        self._life.kill()

    def flush(self) -> None:
        """Flush all logs (fsync): what was written so far outlives a `power_cut`."""
        self.ask("flush")

    def power_cut(self) -> None:
        """End it as a power failure does: what was not flushed (fsync) is gone; `start` recovers.

        With `kohort.durability=os`, the default, that is what was written in the last second or two
        (`log.flush.interval.ms`), or since `flush`; with `always` nothing that was acknowledged.
        """
        self._put_away()
        self._life.power_cut()

    def start(self) -> None:
        """Start it again, on its directory and at its address."""
        if self._life.folder is None or self._life.process is not None:
            raise Refused(f"this broker {self._life.state}")
        self._life.start()
        self.faults.put_back()
        if self._chaos is not None and self._chaos.is_on:
            self._chaos.put_back()

    def restart(self) -> None:
        """`stop` and `start`."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let its process stand still (SIGSTOP): connections stay, and nothing is answered until `resume`."""
        self._life.pause()

    def resume(self) -> None:
        """It goes on where it was."""
        self._life.resume()

    def snapshot(self) -> Snapshot:
        """All that it holds at this moment, for any number of brokers to begin with: `Broker(load=snapshot)`."""
        return self._life.snapshot()

    def fork(self) -> Broker:
        """Another broker, to be opened, that goes on from here on a copy: `with broker.fork() as other`."""
        return Broker(self._life.settings, load=self.snapshot())

    @property
    def faults(self) -> Faults:
        """What happens to requests: `broker.faults.on(API, ...)`."""
        return self._faults

    @property
    def clock(self) -> Clock:
        """The broker's clock: `broker.clock.shift("45s")`."""
        return self._clock

    def disk_full(self) -> None:
        """Nothing can be written any more (ENOSPC), until `disk_freed` or the end of this life."""
        self.ask("disk_full", full=True)

    def disk_freed(self) -> None:
        """There is room on the disk again."""
        self.ask("disk_full", full=False)

    def _put_away(self) -> None:
        self.faults.put_away()
        if self._chaos is not None and self._chaos.is_on:
            self._chaos.put_away()
        self._requests = self.requests()

    # --- for clients

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as every client takes it; the same in all its lives."""
        if self._life.folder is None:
            raise Refused(f"this broker {self._life.state}")
        return self._life.address

    def config(self, library: str) -> dict[str, Any]:
        """How a client of `library` is told where the broker is: aiokafka, confluent-kafka, kafka-python, ..."""
        return configs.config(library, self.bootstrap_servers)

    @property
    def pid(self) -> int:
        """The process that serves it."""
        return self._life.running().pid

    # --- topics and records

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None) -> None:
        """A topic, which every client sees from now on. `configs` are Kafka's topic settings."""
        self.ask("create_topics", topics=[_topic(name, partitions, configs)])

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
        given.text("topic", topic)
        given.number("partition", partition)
        given.number("timestamp_ms", timestamp_ms)
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
        given.number("partition", partition)
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

    # --- groups

    def group(self, group_id: str) -> Group:
        """A group by its id, whether it is there yet or not."""
        return Group(self._life, group_id)

    @property
    def groups(self) -> list[str]:
        """The ids of all groups."""
        return list(self.ask("groups"))

    # --- the broker itself

    def log(self) -> str:
        """The broker's log lines so far."""
        return self._life.log()

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[Request]:
        """What clients have asked, decoded, oldest first: the last 10,000 requests; of one API, of one client."""
        told = self._life.ask("requests", api=api, client_id=client_id)
        before = [
            one
            for one in self._requests
            if (api is None or one.api.lower() == api.lower()) and client_id in (None, one.client_id)
        ]
        return before + [Request(**one) for one in told]

    def recent_requests(self) -> str:
        """The last of them, a line each, for an error."""
        seen = self.requests()[-_LAST_REQUESTS:]
        return (
            "\n".join(["the last requests were:", *(f"  {one}" for one in seen)]) if seen else "nobody asked anything"
        )

    def summary(self) -> str:
        """What there is to know of it when a test has failed: what happened to its groups, and the end of its log."""
        told = []
        if self._life.process is not None and not self._life.is_paused:
            told = [self.group(group_id).why() for group_id in self.groups[:_GROUPS_TOLD]]
            if self._chaos is not None:
                told.insert(0, self._chaos.told())
        lines = self.log().splitlines()[-_LAST_LINES:]
        return "\n\n".join([*told, "\n".join(lines) or "(it has logged nothing)"])

    def ask(self, command: str, **words: Any) -> Any:
        """The broker's answer to a command of the control channel."""
        return self._life.ask(command, **words)


def _partitions(topics: Any) -> dict[str, int]:
    if not isinstance(topics, Mapping | None):
        raise Refused(f'topics={topics!r}: it takes names with their partitions, such as {{"orders": 3}}')
    return dict(topics or {})


def _topic(name: str, partitions: int, configs: Mapping[str, object] | None = None) -> dict[str, Any]:
    given.text("topic", name)
    given.number("partitions", partitions, least=-1)
    settings = {key: _setting(value) for key, value in (configs or {}).items()}
    return {"name": name, "partitions": partitions, "configs": settings}


def _setting(value: object) -> str:
    """As `server.properties` has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return str(value)
