"""Unmodified clients with `group.protocol=consumer` (KIP-848), each kind alone and all in one group.

A cell of the matrix is a scenario, who plays it, and how they subscribe. The whole of it runs in `make test-all`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka.admin
import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients import harness
from tests.clients.harness import Worker
from tests.clients.test_consumer_protocol import QUICK_CONSUMERS
from tests.support.broker_process import KINDS, BrokerProcess, eventually
from tests.support.wire import Wire

CASTS = {
    "confluent": ("confluent",) * 4,
    "java": ("java",) * 4,
    "java_4_3": ("java_4_3",) * 4,
    "franz": ("franz",) * 4,
    "mixed": ("confluent", "java", "franz", "java_4_3"),
}
# A Java client whose topic is deleted would have it made anew.
SETTINGS = {**QUICK_CONSUMERS, "auto.create.topics.enable": "false"}
POLL_INTERVAL_MS = 4_000
LONG_MS = 40_000
"""More than a client takes to start on a busy machine."""
CONSTANT = ("read", "committing", "committed")
Scenario = Callable[["Group"], None]
SCENARIOS: dict[str, Scenario] = {}
# In every run, and in every run of the slow tests; the others in `make test-all`.
QUICK = {("comes-and-goes", "confluent", False), ("comes-and-goes", "java", False), ("comes-and-goes", "franz", True)}
SLOW = {
    ("comes-and-goes", "mixed", False),
    ("deleted-topic", "confluent", False),
    ("fencing", "confluent", False),
    ("static-roll", "confluent", False),
}


@pytest.fixture(scope="module")
def quick(against: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with KINDS[against](tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


class Group:
    """Who plays, in processes of their own; everything that they read is looked at in the end."""

    def __init__(
        self, broker: BrokerProcess, name: str, cast: Sequence[str], regex: bool, spawn: Callable[..., Worker]
    ) -> None:
        self.broker, self.name = broker, name
        self.cast, self.regex, self._spawn = cast, regex, spawn
        self._next = iter(cast)
        self.everybody: list[Worker] = []
        harness.create_topic(broker.address, name)
        self.writer = harness.Writer(broker.address, name)

    def begin(self, **more: Any) -> Worker:
        """One more member, of whichever client is next."""
        return self.again(next(self._next), **more)

    def again(self, client: str, **more: Any) -> Worker:
        """One more member, of this client."""
        options: dict[str, Any] = {
            "mode": "group",
            "bootstrap": self.broker.address,
            "topic": self.name,
            "group": self.name,
            "assignor": "consumer",
            "regex": self.regex,
            "client_id": f"{client}-{len(self.everybody)}",
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 20_000,
            "commit_every_ms": 100,
        }
        self.everybody.append(self._spawn(client, **{**options, **more}))
        return self.everybody[-1]

    def configure(self, **settings: int) -> None:
        """Settings of this group alone."""
        changes = [
            AlterableConfig(name="consumer." + name.replace("_", "."), config_operation=0, value=str(value))
            for name, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=32, resource_name=self.name, configs=changes)
        with Wire(self.broker.address) as wire:
            answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.NONE

    def state(self) -> str:
        """As the broker tells it."""
        with Wire(self.broker.address) as wire:
            [found] = wire.call(ConsumerGroupDescribeRequest(group_ids=[self.name]), 1).groups
        return str(found.group_state)

    def course(self) -> str:
        """What members have told but for what they read, and what the broker has logged of them."""
        lines = [str(event) for one in self.everybody for event in one.events if event["event"] not in CONSTANT]
        logged = [line for line in self.broker.log().splitlines() if self.name in line]
        return "\n".join([*lines[-60:], *logged[-60:]])

    def read(self, workers: Sequence[Any] | None = None) -> dict[int, int]:
        """Write no more, and wait until all is read and committed; returns how much there was."""
        written = self.writer.stop()
        assert not self.writer.errors
        harness.wait_until_read(workers or self.everybody, written)
        return written

    def end(self, workers: Sequence[Any] | None = None) -> None:
        """Everything has been read, nothing twice beyond its committed position; who is left leaves."""
        written = self.read(workers)
        for one in self.everybody:
            if one.alive():
                one.leave()
        harness.check_reads(workers or self.everybody, written)


def scenario(play: Scenario) -> Scenario:
    """Have it played by every cast."""
    SCENARIOS[play.__name__.replace("_", "-")] = play
    return play


@scenario
def comes_and_goes(group: Group) -> None:
    """CT01 to CT05, K01, K02: three members; one leaves, one is killed and expires, one joins late."""
    a, b, c = (group.begin() for _ in "abc")
    harness.wait_until_shared([a, b, c])
    a.leave()
    harness.wait_until_shared([b, c])
    died = time.monotonic()
    b.kill()
    harness.wait_until_shared([c])
    assert time.monotonic() - died > 3, "expired before its session timeout"
    late = group.begin()
    harness.wait_until_shared([c, late])
    group.end()


@scenario
def static_restart(group: Group) -> None:
    """K05: a static member that closes and comes back has what it had, and nobody else notices.

    franz-go 1.22 says that it goes without saying which instance it is, which Apache Kafka refuses as well
    (INVALID_REQUEST): whoever comes next gets the name when the session is over.
    """
    says_it = group.cast[0] != "franz"
    group.configure(session_timeout_ms=LONG_MS if says_it else 4_000)
    a, b = group.begin(instance_id="a"), group.begin(instance_id="b")
    harness.wait_until_shared([a, b])
    had, untouched = a.owned(), len(b.seen("assigned"))
    a.leave()
    again = group.again(a.client, instance_id="a")
    harness.wait_until_shared([again, b])
    if says_it:
        assert again.owned() == had
        assert len(b.seen("assigned")) == untouched
    group.end()


@scenario
def fencing(group: Group) -> None:
    """K06, K37: while its process stands still a static member expires and another takes its name; then it goes on."""
    group.configure(session_timeout_ms=4_000)
    a, b = group.begin(instance_id="a"), group.begin(instance_id="b")
    harness.wait_until_shared([a, b])
    a.stand_still()
    harness.wait_until_shared([b])
    other = group.begin(instance_id="a")
    harness.wait_until_shared([other, b])
    a.go_on()
    eventually(lambda: not a.owned(), what="it is told")
    harness.wait_until_shared([other, b])
    a.kill()
    group.end()


@scenario
def slow_poll(group: Group) -> None:
    """K04: a member that does not poll for longer than it may loses what it had, and joins again.

    franz-go has no poll interval: that it gives nothing up is seen when somebody else comes.
    """
    a, b = group.begin(rebalance_timeout_ms=POLL_INTERVAL_MS, stall_ms=POLL_INTERVAL_MS * 5), group.begin()
    others = [b]
    harness.wait_until_shared([a, b])
    a.stall()
    eventually(lambda: a.seen("stalls"))
    if group.cast[0] == "franz":
        others.append(group.begin())
    harness.wait_until_shared(others)
    harness.wait_until_shared([a, *others])
    group.end()


@scenario
def new_partitions(group: Group) -> None:
    """K08: partitions that a topic gets are dealt out."""
    a, b = group.begin(), group.begin()
    harness.wait_until_shared([a, b])
    more = confluent_kafka.admin.NewPartitions(group.name, 9)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": group.broker.address})
    admin.create_partitions([more])[group.name].result(30)
    harness.wait_until_shared([a, b], partitions=9)
    group.writer.widen(9)
    eventually(lambda: len(group.writer.acknowledged) == 9)
    group.end()


@scenario
def deleted_topic(group: Group) -> None:
    """A topic that is deleted is taken from its members; one of its name is read from its beginning.

    franz-go takes no other topic for the one that it knew, and Java not by an expression, whoever the broker is: others
    come in their place.
    """
    a, b = group.begin(), group.begin()
    harness.wait_until_shared([a, b])
    first = group.read()
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": group.broker.address})
    admin.delete_topics([group.name])[group.name].result(30)
    eventually(lambda: not a.owned() and not b.owned(), what="it is taken from them")
    harness.check_reads(group.everybody, first)
    past = {one.name: len(one.events) for one in group.everybody}
    harness.create_topic(group.broker.address, group.name)
    group.writer = harness.Writer(group.broker.address, group.name)
    members = [a, b]
    for number, one in enumerate(members):
        if one.client == "franz" or (group.regex and one.client in harness.JAVA):
            one.leave()
            members[number] = group.again(one.client)
    harness.wait_until_shared(members)
    group.end([_Since(one, past.get(one.name, 0)) for one in group.everybody])


class _Since:
    """A worker, and what it has told since."""

    def __init__(self, worker: Worker, past: int) -> None:
        self.name, self.killed_at = worker.name, worker.killed_at
        self._worker, self._past = worker, past

    @property
    def events(self) -> list[harness.Event]:
        return self._worker.events[self._past :]

    def seen(self, kind: str) -> list[harness.Event]:
        return [event for event in self.events if event["event"] == kind]


@scenario
def broker_killed(group: Group) -> None:
    """K58: killed while a member still has to give up what another waits for; both are where they were."""
    group.configure(session_timeout_ms=LONG_MS)
    a, b = group.begin(stall_ms=5_000), group.begin()
    harness.wait_until_shared([a, b])
    a.stall()
    eventually(lambda: a.seen("stalls"))
    c = group.begin()
    eventually(lambda: group.state() == "Reconciling", what="one is to give something up")
    group.broker.kill()
    assert not c.owned() or len(a.owned()) + len(b.owned()) + len(c.owned()) < harness.PARTITIONS
    group.broker.start()
    harness.wait_until_shared([a, b, c])
    group.end()


@scenario
def static_roll(group: Group) -> None:
    """K09, K10, K40, K69: static members are rolled to the new protocol and back, each under its own name."""
    group.configure(session_timeout_ms=LONG_MS)

    def begin(client: str, instance: str, assignor: str) -> Worker:
        patience = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS}
        return group.again(client, instance_id=instance, assignor=assignor, **patience)

    members = [begin(client, instance, "range") for client, instance in zip(group.cast, "ab", strict=False)]
    harness.wait_until_shared(members)
    for assignor in ("consumer", "range"):
        for number, instance in enumerate("ab"):
            members[number].leave()
            members[number] = begin(members[number].client, instance, assignor)
            harness.wait_until_shared(members)
    group.end()


ONLY_NAMES = {"static-roll"}
"""In the classic protocol Java has expressions of its own."""


def cells() -> Iterator[Any]:
    """The matrix."""
    whole = pytest.mark.skipif(not os.environ.get("KOHORT_POLICIES"), reason="the whole matrix: make test-all")
    for name in SCENARIOS:
        for cast in CASTS:
            for regex in (False,) if name in ONLY_NAMES else (False, True):
                cell = (name, cast, regex)
                marks = [] if cell in QUICK else [pytest.mark.slow]
                marks += [] if cell in QUICK | SLOW else [whole]
                yield pytest.param(*cell, marks=marks, id=f"{name}-{cast}-{'regex' if regex else 'names'}")


@pytest.mark.parametrize(("name_of", "cast", "regex"), list(cells()))
def test_clients_of_the_consumer_protocol(
    name_of: str, cast: str, regex: bool, quick: BrokerProcess, spawn: Callable[..., Worker], name: str, tmp_path: Any
) -> None:
    """CT01 to CT05, K02, K04 to K10, K40, K58, K69: all is read, and nothing twice beyond its committed position."""
    play = SCENARIOS[name_of]
    with contextlib.ExitStack() as stack:
        broker = quick
        if play is broker_killed:
            broker = stack.enter_context(type(quick)(tmp_path / "own", SETTINGS))
        group = Group(broker, name, CASTS[cast], regex, spawn)
        stack.callback(group.writer.stop)
        try:
            play(group)
        except AssertionError as error:
            error.add_note(group.course())
            raise
