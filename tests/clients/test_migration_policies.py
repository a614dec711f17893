"""`group.consumer.migration.policy` in its four values, with members of both protocols that live."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka import ConsumerGroupType

from tests.clients import harness
from tests.clients.test_consumer_protocol import QUICK_CONSUMERS, Member, shared
from tests.support.broker_process import KINDS, eventually

CLASSIC = {"group_protocol": "classic", "session_timeout_ms": 6_000, "partition_assignment_strategy": "range"}


def group_type(address: str, group: str) -> ConsumerGroupType | None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    found = admin.list_consumer_groups().result(30).valid
    return next((one.type for one in found if one.group_id == group), None)


POLICIES = pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades", "takes_classic"),
    [
        ("bidirectional", True, True, True),
        ("upgrade", True, False, True),
        ("downgrade", False, True, True),
        ("disabled", False, False, False),
    ],
)
IN_FULL = pytest.mark.skipif(not os.environ.get("KOHORT_POLICIES"), reason="half a minute of Java: make test-all")


@pytest.mark.slow
@POLICIES
def test_members_that_live_move_a_group_as_the_policy_allows(
    against: str, tmp_path: Path, policy: str, upgrades: bool, downgrades: bool, takes_classic: bool
):
    """K09, K10, K12, K67: a newcomer of the other protocol is let in or told, and whoever is there reads on."""
    members: list[Member] = []
    with KINDS[against](tmp_path / "broker", {**QUICK_CONSUMERS, "group.consumer.migration.policy": policy}) as broker:
        harness.create_topic(broker.address, "orders", 4)

        def begin(group: str, **settings: Any) -> Member:
            members.append(Member(broker.address, group, ["orders"], **settings))
            return members[-1]

        try:
            _up(begin, broker.address, upgrades=upgrades)
            _down(begin, broker.address, downgrades=downgrades, takes_classic=takes_classic)
        finally:
            for member in members:
                member.close()


def _up(begin: Callable[..., Member], address: str, *, upgrades: bool) -> None:
    classic = begin("up", **CLASSIC)
    eventually(lambda: len(classic.owned) == 4)
    newcomer = begin("up")
    if upgrades:
        eventually(lambda: shared(classic, newcomer))
        assert group_type(address, "up") is ConsumerGroupType.CONSUMER
    else:
        eventually(lambda: newcomer.errors, what="it is told that there is no such group")
        assert group_type(address, "up") is ConsumerGroupType.CLASSIC
        assert len(classic.owned) == 4 and not newcomer.owned


def _down(begin: Callable[..., Member], address: str, *, downgrades: bool, takes_classic: bool) -> None:
    first = begin("down")
    eventually(lambda: len(first.owned) == 4)
    classic = begin("down", **CLASSIC)
    if not takes_classic:
        eventually(lambda: classic.errors, what="it is told that the protocol is another")
        assert classic.errors[0].code() == confluent_kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL
        assert len(first.owned) == 4 and not classic.owned
        return
    eventually(lambda: shared(first, classic))
    first.close()
    eventually(lambda: len(classic.owned) == 4)
    wanted = ConsumerGroupType.CLASSIC if downgrades else ConsumerGroupType.CONSUMER
    eventually(lambda: group_type(address, "down") is wanted)


@pytest.mark.slow
@POLICIES
@pytest.mark.parametrize("client", ["franz", pytest.param("java", marks=IN_FULL)])
def test_java_and_franz_go_move_a_group_as_the_policy_allows(
    against: str,
    tmp_path: Path,
    spawn: Any,
    client: str,
    policy: str,
    upgrades: bool,
    downgrades: bool,
    takes_classic: bool,
):
    """K09, K10, K67: as above, with processes of theirs."""
    with KINDS[against](tmp_path / "broker", {**QUICK_CONSUMERS, "group.consumer.migration.policy": policy}) as broker:
        harness.create_topic(broker.address, "orders")

        def begin(group: str, assignor: str) -> harness.Worker:
            worker: harness.Worker = spawn(
                client,
                mode="group",
                bootstrap=broker.address,
                topic="orders",
                group=group,
                assignor=assignor,
                client_id=f"{group}-{assignor}",
                session_timeout_ms=6_000,
                rebalance_timeout_ms=10_000,
                commit_every_ms=100,
            )
            return worker

        def refused(worker: harness.Worker) -> None:
            eventually(lambda: worker.seen("fatal") or worker.seen("fetch_failed"), what="it is told", deadline_s=60)
            assert not worker.owned()

        classic = begin("up", "range")
        harness.wait_until_shared([classic])
        newcomer = begin("up", "consumer")
        if upgrades:
            harness.wait_until_shared([classic, newcomer])
        else:
            refused(newcomer)
            harness.wait_until_shared([classic])
        wanted = ConsumerGroupType.CONSUMER if upgrades else ConsumerGroupType.CLASSIC
        assert group_type(broker.address, "up") is wanted

        first = begin("down", "consumer")
        harness.wait_until_shared([first])
        classic = begin("down", "range")
        if not takes_classic:
            refused(classic)
            harness.wait_until_shared([first])
            return
        harness.wait_until_shared([first, classic])
        first.leave()
        harness.wait_until_shared([classic])
        wanted = ConsumerGroupType.CLASSIC if downgrades else ConsumerGroupType.CONSUMER
        eventually(lambda: group_type(broker.address, "down") is wanted)
