"""Virtual time, and a partition leader in it that is as simple as can be: a shard, a log in memory, timers.

What happens at one moment happens in random order. Records are appended a moment after they were decided, all of that
moment in one batch, and committed a while after that; answers wait for them. The batch may be refused. A crash loses
what was not appended, and every answer on its way.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coordinator.classic.inputs import GroupLoaded
from coordinator.consumer.assignors import ASSIGNORS
from coordinator.loading import load
from coordinator.outcome import Appended, AppendFailed, CancelTimer, Input, Outcome, SetTimer
from coordinator.shard import Shard
from coordinator.view import ConsumerSettings, GroupSettings
from protocol.errors import ErrorCode
from tests.simulation.shard.log import Log
from tests.support.views import check_views

GROUP = "g"
TOPICS = ("t", "u")
IDS = {name: name.encode().ljust(16, b"\0") for name in TOPICS}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
MOST = 9
"""Partitions that a topic can have."""
SESSION_MS = 3_000
SETTINGS = GroupSettings(min_session_timeout_ms=100, initial_rebalance_delay_ms=200, new_member_join_timeout_ms=10_000)
REFUSALS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)

Call = Callable[[], None]


class Clock:
    """What is to happen, and when."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000_000
        self._due: list[tuple[int, float, Call]] = []

    def after(self, delay_ms: int, call: Call) -> None:
        """Have it happen then; of one moment, whichever comes first."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, self.random.random(), call))

    def run(self, ms: int) -> None:
        """Let so much time pass."""
        end_ms = self.now_ms + ms
        due = self._due
        while due and due[0][0] <= end_ms:
            self.now_ms, _, call = heapq.heappop(due)
            call()
        self.now_ms = end_ms


_FIRST = {topic: 10 * at for at, topic in enumerate(TOPICS)}
_FIRST_OF_ID = {IDS[topic]: first for topic, first in _FIRST.items()}


def numbered(partitions: Mapping[bytes, Iterable[int]]) -> set[int]:
    """Partitions of all topics, each as one number: those of `t` from 0 on, those of `u` from 10 on."""
    numbers: set[int] = set()
    for topic_id, some in partitions.items():
        first = _FIRST_OF_ID[topic_id]
        for partition in some:
            numbers.add(first + partition)
    return numbers


def number(topic: str, partition: int) -> int:
    """The one number of a partition."""
    return _FIRST[topic] + partition


def number_of_id(topic_id: bytes, partition: int) -> int:
    """The same, by the topic's id."""
    return _FIRST_OF_ID[topic_id] + partition


def by_topic(numbers: Iterable[int]) -> dict[str, list[int]]:
    """The partitions with these numbers, ascending."""
    named: dict[str, list[int]] = {}
    for one in sorted(numbers):
        named.setdefault(TOPICS[one // 10], []).append(one % 10)
    return named


class Topics:
    """Two topics, whose partitions may become more. A new value for each moment."""

    created_version = 0

    def __init__(self, counts: Mapping[str, int], version: int) -> None:
        self.counts, self.version = counts, version

    def partition_count(self, name: str) -> int | None:
        return self.counts.get(name)

    def topic_id(self, name: str) -> bytes | None:
        return IDS.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return NAMES.get(topic_id)

    def names(self) -> list[str]:
        return list(TOPICS)

    def all_of(self, names: Iterable[str]) -> set[int]:
        """The numbers of all partitions of these topics."""
        return {number(name, partition) for name in names for partition in range(self.counts[name])}


class Listener(Protocol):
    """Who is told of what happens in the leader."""

    def handled(self, event: Input, outcome: Any) -> None: ...

    def appended(self, key: Any, value: Any) -> None: ...

    def answered(self, request: Request, response: Any) -> None: ...

    def loaded(self) -> None: ...


class Request:
    """Where an answer goes. `input` is what was asked; `noted` is for auditors."""

    __slots__ = ("answers", "input", "noted", "on_answer", "said")

    def __init__(self, on_answer: Callable[[Any], None]) -> None:
        self.on_answer = on_answer
        self.input: Any = None
        self.answers = 0
        self.said: Any = None
        self.noted: Any = None


class Leader:
    """Serves the shard while it is up."""

    def __init__(
        self, clock: Clock, partitions: Mapping[str, int], *, interval_ms: int, policy: str = "bidirectional"
    ) -> None:
        self.clock = clock
        self.random = clock.random
        self.topics = Topics(partitions, 1)
        self.consumer_settings = ConsumerSettings(
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            assignment_interval_ms=interval_ms,
            assignors=ASSIGNORS,
            migration_policy=policy,
        )
        self.listener: Listener
        self.decode: Callable[[bytes], Iterable[int]] = iter  # an assignment of the classic protocol
        self.shard = self._new_shard()
        self.log = Log()
        self._copy: tuple[Any, Shard] | None = None
        self.up = True
        self.refuses = 0  # so many of the next batches
        self.slowness_ms = 0  # of commits
        self._life = 0
        self._timers: dict[tuple[str, ...], SetTimer] = {}
        self._open: list[tuple[Any, Any]] | None = None
        self._batches: list[list[tuple[Any, Any]]] = []  # appended, not committed

    def _new_shard(self) -> Shard:
        return Shard(SETTINGS, self.topics, lambda _: self.consumer_settings)

    @property
    def group(self) -> Any:
        return self.shard.states.get(GROUP)

    @property
    def settled(self) -> bool:
        """Whether all that was decided is committed."""
        return self._open is None and not self._batches

    # Inputs

    def submit(self, event: Any) -> None:
        """One input; not while the leader is down."""
        if event.reads_appended and self._open is not None:
            self._write()
        outcome = self.shard.handle(event, self.clock.now_ms)
        self.listener.handled(event, outcome)
        self._act(event, outcome)

    def _act(self, event: Any, outcome: Any) -> None:
        self.shard.install(GROUP, outcome)
        check_views(self.shard)
        for timer in outcome.timers:
            if isinstance(timer, CancelTimer):
                self._timers.pop(timer.key, None)
            else:
                self._set_timer(timer)
        assert not outcome.work, "targets of small groups need no work"
        if outcome.records and self._open is None:
            self._open = []
            self.clock.after(self.random.choice((0, 0, 1, 20)), self._of_this_life(self._write_open))
        waits_for = self._open if self._open is not None else self._batches[-1] if self._batches else None
        if waits_for is None:
            self._finish(outcome)
        else:
            waits_for.append((event, outcome))

    def _set_timer(self, timer: SetTimer) -> None:
        # One look for each key: set again, it looks again when it is due.
        if timer.key not in self._timers or timer.deadline_ms < self._timers[timer.key].deadline_ms:
            self._look(timer)
        self._timers[timer.key] = timer

    def _look(self, timer: SetTimer) -> None:
        def due() -> None:
            current = self._timers.get(timer.key)
            if current is None or current.deadline_ms > self.clock.now_ms:
                if current is not None:
                    self._look(current)
                return
            del self._timers[timer.key]
            self.submit(current.then)

        self.clock.after(max(timer.deadline_ms - self.clock.now_ms, 0), self._of_this_life(due))

    def _of_this_life(self, call: Call) -> Call:
        life = self._life
        return lambda: call() if life == self._life else None

    # Records

    def _write_open(self) -> None:
        if self._open is not None:
            self._write()

    def _write(self) -> None:
        batch, self._open = self._open, None
        assert batch is not None
        if self.refuses:
            self.refuses -= 1
            self._refused(batch)
            return
        for _, outcome in batch:
            for key, value in outcome.records:
                self.log.append(key, value)
                self.shard.replay(key, value, -1, self.log.end - 1)
                self.listener.appended(key, value)
        self._batches.append(batch)
        delay_ms = self.random.randrange(self.slowness_ms + 1)
        self.clock.after(delay_ms, self._of_this_life(lambda: self._committed(batch)))

    def _committed(self, batch: list[tuple[Any, Any]]) -> None:
        while any(one is batch for one in self._batches):  # with it all before it
            for _, outcome in self._batches.pop(0):
                self._finish(outcome)
                if outcome.token is not None and outcome.token.resumes:
                    self.submit(Appended(GROUP, outcome.token))

    def _refused(self, batch: list[tuple[Any, Any]]) -> None:
        error = self.random.choice(REFUSALS)
        for _, outcome in reversed(batch):
            if outcome.records:
                self.submit(AppendFailed(GROUP, outcome.token, error))
        undone = False
        for event, outcome in batch:
            if outcome.records:
                undone = undone or outcome.token.undoes
                continue  # its rule has answered
            if undone:
                replies = self.shard.taken_back(event, outcome.replies, error)
                self._finish(Outcome(None, replies=tuple(replies)))
                continue
            waits_for = self._open if self._open is not None else self._batches[-1] if self._batches else None
            if waits_for is None:
                self._finish(outcome)
            else:
                waits_for.append((event, outcome))

    def _finish(self, outcome: Any) -> None:
        for reply in outcome.replies:
            request = reply.to
            request.answers += 1
            assert request.answers == 1, f"{request.input} was answered twice"
            self.listener.answered(request, reply.response)
            request.on_answer(reply.response)

    # Ends and beginnings

    def crash(self) -> None:
        """Nobody is told. Of what was decided and not appended, nothing is left, or all of it."""
        if self._open is not None and self.random.random() < 0.5:
            for _, outcome in self._open:
                for key, value in outcome.records:
                    self.log.append(key, value)
        self.up = False
        self._life += 1
        self._timers.clear()
        self._open = None
        self._batches.clear()

    def loaded(self) -> Shard:
        """A shard of what the log says; the same as before, as long as it says the same."""
        if self._copy is None or self._copy[0] != self.log.version:
            copy = self._new_shard()
            load(copy, self.log.chunks)
            self._copy = self.log.version, copy
        return self._copy[1]

    def start(self) -> None:
        """A new shard, of what the log says."""
        self.shard, self._copy = self.loaded(), None
        self.shard.topics = self.topics
        self.up = True
        self.listener.loaded()
        for group_id in list(self.shard.states):
            self.submit(GroupLoaded(group_id, 0, True))

    def compact(self) -> None:
        """Keep the last record of each key; of old tombstones some."""
        last = {(type(key), key): at for at, (key, _) in enumerate(self.log.records)}
        self.log.keep(
            (key, value)
            for at, (key, value) in enumerate(self.log.records)
            if last[type(key), key] == at and (value is not None or self.random.random() < 0.5)
        )

    def grow(self, topic: str) -> None:
        """The topic has one partition more."""
        counts = self.topics.counts
        self.topics = self.shard.topics = Topics({**counts, topic: counts[topic] + 1}, self.topics.version + 1)
