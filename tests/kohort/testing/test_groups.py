"""Groups as a test has them: real members, classic and of KIP-848."""

import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kohort.testing import Broker, Refused
from tests.kohort.testing.test_page import run_pytest
from tests.support.closing import close_or_leave

PROTOCOLS = ("classic", "consumer")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 4}) as one:
        yield one


class Member:
    """A consumer of `orders` in the group `billing`; `poll` drives it."""

    def __init__(self, broker: Broker, name: str, protocol: str = "classic", **settings: object) -> None:
        classic = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 50} if protocol == "classic" else {}
        own = {key.replace("_", "."): value for key, value in settings.items()}
        self.lost = 0
        self.revoked = 0
        self.values: list[bytes] = []
        self.consumer = Consumer(
            {
                **broker.config("confluent-kafka"),
                "group.id": "billing",
                "group.protocol": protocol,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **classic,
                **own,
            }
        )
        self.consumer.subscribe(["orders"], on_revoke=self.on_revoke, on_lost=self.on_lost)

    def on_revoke(self, _: Consumer, partitions: list[Any]) -> None:
        self.revoked += 1

    def on_lost(self, _: Consumer, partitions: list[Any]) -> None:
        self.lost += 1

    def poll(self) -> None:
        message = self.consumer.poll(0.01)
        if message is not None and not message.error():
            self.values.append(message.value() or b"")


@pytest.fixture
def join(broker: Broker) -> Iterator[Callable[..., Member]]:
    joined: list[Member] = []

    def make(name: str, protocol: str = "classic", **settings: object) -> Member:
        joined.append(Member(broker, name, protocol, **settings))
        return joined[-1]

    yield make
    for one in joined:
        close_or_leave(one.consumer)


def drive(until: Callable[[], Any], *members: Member) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        for one in members:
            one.poll()


def stable(broker: Broker, *members: Member) -> None:
    def look() -> bool:
        try:
            broker.group("billing").wait_stable(len(members), within=0)
        except AssertionError:
            return False
        return True

    drive(look, *members)


def test_a_consumer_whose_closing_never_ends_is_left_behind(capsys: pytest.CaptureFixture[str]):
    done: list[str] = []

    class Sound:
        def unsubscribe(self) -> None:
            done.append("unsubscribe")

        def poll(self, _: float) -> None:
            done.append("poll")

        def close(self) -> None:
            done.append("close")

    class Stuck(Sound):
        def close(self) -> None:
            threading.Event().wait()

    assert close_or_leave(Sound())
    assert list(dict.fromkeys(done)) == ["unsubscribe", "poll", "close"]
    assert not close_or_leave(Stuck(), wait_s=0.01)
    assert "Stuck" in capsys.readouterr().err


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_seen_with_its_members_offsets_lag_and_history(
    broker: Broker, join: Callable[..., Member], protocol: str
):
    broker.produce("orders", "a", "b", "c", partition=1)
    group = broker.group("billing")
    one, two = join("one", protocol), join("two", protocol)
    stable(broker, one, two)
    drive(lambda: len(one.values + two.values) == 3, one, two)
    assert {member.client_id for member in group.members} == {"one", "two"}
    owned = [partition for member in group.members for partition in member.partitions]
    assert sorted(owned) == [("orders", index) for index in range(4)]
    (owner,) = [member.client_id for member in group.members if ("orders", 1) in member.partitions]
    (one if owner == "one" else two).consumer.commit(offsets=[TopicPartition("orders", 1, 3)], asynchronous=False)
    group.wait_committed("orders", 3, partition=1)
    broker.produce("orders", "d", "e", partition=1)
    assert group.committed("orders")[("orders", 1)] == 3
    drive(lambda: group.lag("orders") == 2, one, two)
    assert broker.groups == ["billing"]
    assert group.state == "Stable"
    assert group.generation >= 1
    drive(lambda: "one" in group.why() and "two" in group.why() and "->" in group.why(), one, two)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_expires_and_comes_back(broker: Broker, join: Callable[..., Member], protocol: str):
    group = broker.group("billing")
    one, two = join("one", protocol), join("two", protocol)
    stable(broker, one, two)
    before = {member.member_id for member in group.members}
    gone = group.expire("one")
    assert gone in before
    drive(lambda: one.lost == 1, one, two)
    stable(broker, one, two)
    assert "session" in group.why()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_assignment_is_lost(broker: Broker, join: Callable[..., Member], protocol: str):
    group = broker.group("billing")
    with pytest.raises(Refused, match="there is no group 'billing'"):
        group.lose_assignment()
    one, two = join("one", protocol), join("two", protocol)
    stable(broker, one, two)
    assert group.lose_assignment() == {("orders", index) for index in range(4)}
    drive(lambda: (one.lost, two.lost) == (1, 1), one, two)
    stable(broker, one, two)
    assert len(group.lose_assignment("two")) == 2
    drive(lambda: two.lost == 2, one, two)
    assert one.lost == 1
    stable(broker, one, two)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_is_forced(broker: Broker, join: Callable[..., Member], protocol: str):
    group = broker.group("billing")
    one = join("one", protocol)
    stable(broker, one)
    generation = group.generation
    group.rebalance()
    drive(lambda: group.generation > generation, one)
    stable(broker, one)
    if protocol == "classic":
        drive(lambda: one.revoked >= 1, one)
    assert "kohort-testing" in group.why()
    assert [member.client_id for member in group.members] == ["one"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_is_fenced(broker: Broker, join: Callable[..., Member], protocol: str):
    group = broker.group("billing")
    one = join("one", protocol, group_instance_id="till-1")
    stable(broker, one)
    rival = group.fence("till-1")
    with pytest.raises(KafkaException, match=r"FENCED_INSTANCE_ID|_FATAL|UNKNOWN_MEMBER_ID"):
        one.consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    drive(lambda: "is held by" in group.why(), one)
    (member,) = group.members
    assert (member.member_id, member.instance_id, len(member.partitions)) == (rival, "till-1", 4)
    assert group.fence("till-1") != rival
    group.expire("till-1")
    assert group.members == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_coordinator_moves_and_the_group_goes_on(broker: Broker, join: Callable[..., Member], protocol: str):
    group = broker.group("billing")
    broker.produce("orders", "a", partition=0)
    one = join("one", protocol)
    stable(broker, one)
    drive(lambda: one.values, one)
    one.consumer.commit(asynchronous=False)
    group.move_coordinator()
    assert group.committed() == {("orders", 0): 1}
    broker.produce("orders", "b", partition=0)
    drive(lambda: len(one.values) == 2, one)
    one.consumer.commit(asynchronous=False)
    assert group.committed() == {("orders", 0): 2}
    stable(broker, one)


async def test_what_a_group_does_not_do_is_told_with_its_history(broker: Broker, join: Callable[..., Member]):
    one = join("one")
    stable(broker, one)
    group = broker.group("billing")
    with pytest.raises(AssertionError, match=r"(?s)not stable with 2 members.group billing: Stable, generation 1.*one"):
        await group.await_stable(members=2, within="50ms")
    with pytest.raises(AssertionError, match="has committed None of orders-0, not 1"):
        await group.await_committed("orders", 1, within=0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_wrong_is_said(broker: Broker, join: Callable[..., Member], protocol: str):
    one = join("one", protocol)
    stable(broker, one)
    for act, said in (
        (lambda: broker.group("biling").members, "there is no group 'biling'; there are billing"),
        (lambda: broker.group("billing").expire("two"), "client id 'two'; it has one"),
        (lambda: broker.group("billing").fence("till"), "has no static member 'till'; it has none"),
        (lambda: broker.group("biling").rebalance(), "biling is not there"),
        (lambda: broker.group("biling").move_coordinator(), "there is no group 'biling'; there are billing"),
        (lambda: broker.group(b"billing").members, "group=b'billing': it takes text"),
        (lambda: broker.group("billing").wait_stable("two"), "members='two': it takes a whole number from 0 on"),
        (lambda: broker.group("billing").wait_committed("orders", "3"), "offset='3': it takes a whole number"),
    ):
        with pytest.raises(Refused, match=said):
            act()


@pytest.mark.slow
def test_a_failing_test_is_shown_what_the_group_did(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import pytest
            from confluent_kafka import Consumer

            @pytest.fixture
            def till(kohort):
                kohort.create_topic("orders")
                consumer = Consumer({**kohort.config("librdkafka"), "group.id": "billing", "client.id": "till"})
                consumer.subscribe(["orders"])
                while not consumer.assignment():
                    consumer.poll(0.1)
                yield consumer
                consumer.close()

            @pytest.fixture
            def broken(till):
                assert False

            def test_it(till):
                assert False

            def test_its_setup(till, broken):
                pass
        """)
    )
    done = run_pytest(tmp_path)
    assert "1 failed, 1 error" in done.stdout, done.stdout
    summaries = done.stdout.split("Kohort at")[1:]
    assert len(summaries) == 2, done.stdout
    for summary in summaries:
        assert "group billing: Stable" in summary, summary
        assert "till" in summary, summary
