"""Restarts in good order and in bad, while clients come and go."""

import itertools
import os
from collections.abc import Callable

import pytest

from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.clients import harness
from tests.clients.harness import Worker
from tests.crash import load
from tests.support.broker_process import QUICK_GROUPS, BrokerProcess, Kohort, eventually
from tests.support.wire import Wire

MANY = int(os.environ.get("KOHORT_RESTARTS", "100"))


@pytest.mark.xdist_group("crash")
def test_sigterm_under_load_ends_cleanly(start_broker: Callable[..., BrokerProcess]):
    """CR07: exit code 0, everything acknowledged is there, and the marker of a clean end is too."""
    broker = start_broker()
    harness.create_topic(broker.address, "load")
    producers, committers = load.Producers(broker.address, "load"), load.Committers(broker.address, "load")
    load.until_resumed(lambda: sum(committers.acknowledged.values()), what="commits")
    load.until_resumed(lambda: sum(producers.acknowledged.values()), what="records")
    committed = dict(committers.acknowledged)

    broker.stop()

    assert (broker.data / ".kafka_cleanshutdown").exists()
    if isinstance(broker, Kohort):
        assert broker.exit_code == 0
    broker.start()
    load.check_commits(broker, committers, committed)
    producers.stop()
    committers.stop()
    assert not producers.errors, producers.errors[:5]
    load.check_records(broker, producers, producers.sent)


class Churn:
    """Members of one group that come and go: at every step one more joins, or the oldest leaves."""

    def __init__(self, spawn: Callable[..., Worker], address: str) -> None:
        self.members: list[Worker] = []
        self.gone: list[Worker] = []
        self._clients = itertools.cycle(("confluent", "aiokafka", "kafka_python", "franz"))
        self._spawn, self._address = spawn, address

    def join(self) -> Worker:
        """One more member, of the next client in turn."""
        member = self._spawn(
            next(self._clients),
            mode="group",
            bootstrap=self._address,
            topic="load",
            group="churn",
            assignor="range",
            session_timeout_ms=15_000,
            rebalance_timeout_ms=30_000,
            commit_every_ms=50,
        )
        self.members.append(member)
        return member

    def step(self, number: int) -> None:
        """Come or go; nobody waits for it to be done."""
        if len(self.members) < 3 or number % 2 == 0:
            self.join()
        else:
            oldest = self.members.pop(0)
            oldest.ask_to_leave()
            self.gone.append(oldest)

    def settled(self) -> list[Worker]:
        """Members whose place in the present generation has been acknowledged, and that are not leaving."""
        last = {member: member.seen("assigned")[-1] for member in self.members if member.seen("assigned")}
        newest = max((event["generation"] for event in last.values()), default=0)
        return [member for member, event in last.items() if event["generation"] == newest and member.alive()]


def members_of(broker: BrokerProcess, group: str) -> set[str]:
    """The member ids that the broker knows."""
    with Wire(broker.address) as wire:

        def told() -> list[set[str]]:
            [described] = wire.call(DescribeGroupsRequest(groups=[group]), 1).groups
            assert described.error_code in (0, *load.NOT_YET), described.error_code
            return [] if described.error_code else [{member.member_id for member in described.members}]

        return eventually(told, deadline_s=90)[0]


@pytest.mark.slow
@pytest.mark.xdist_group("crash")
@pytest.mark.parametrize("restarts", [12, pytest.param(MANY, marks=pytest.mark.long)])
def test_restarts_under_churn_forget_no_member_and_no_offset(
    start_broker: Callable[..., BrokerProcess], spawn: Callable[..., Worker], restarts: int
):
    """CR04: by SIGTERM and SIGKILL in turn. A member is acknowledged when its SyncGroup was answered."""
    broker = start_broker(QUICK_GROUPS)
    harness.create_topic(broker.address, "load")
    churn = Churn(spawn, broker.address)
    for _ in range(3):
        churn.join()
    harness.wait_until_shared(churn.members)
    writer = harness.Writer(broker.address, "load", per_second=200)
    everybody = list(churn.members)

    for number in range(restarts):
        if number % 4 == 3:
            churn.step(number // 4)
            everybody += [member for member in churn.members if member not in everybody]
        load.until_resumed(
            lambda: sum(len(member.seen("committed")) for member in churn.members),
            deadline_s=90,
            what=f"commits after restart {number}: {[(m.name, m.events[-2:]) for m in churn.members]}",
        )
        settled = {member: member.seen("assigned")[-1] for member in churn.settled()}
        committed = load.committed_by(everybody)

        broker.restart(kill=number % 2 == 1)

        known = members_of(broker, "churn")
        for member, event in settled.items():
            assert event["member_id"] in known, f"restart {number}: {member.name} ({event}) is forgotten: {known}"
        load.check_group(broker, "churn", "load", committed)

    written = writer.stop()
    assert not writer.errors, writer.errors[:3]
    harness.wait_until_read(everybody, written, deadline_s=90)
    for member in churn.members:
        member.leave()
    for member in churn.gone:
        member.finish()
    harness.check_reads(everybody, written)
