"""What bounds a consumer group: its size, a static member's absence, the age of an expression, the migration policy.

Not here: K21 and K52, which want an authorizer (`tests/reference/test_members_beside_kafka.py`); K61, which keeps Kafka
from loading the partition, and with it the groups of other scenarios (`tests/coordinator/consumer/test_loading.py`).
"""

from __future__ import annotations

import time

from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.reference.judge import members, offsets_log
from tests.reference.judge.catalog import scenario
from tests.reference.judge.members import Member
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_consumer import beat, describe, join
from tests.reference.judge.scenarios_epochs import ALL, LOW, classic, configure, known_topic, look, plan, until_out
from tests.support.broker_process import eventually

REFRESHED_AFTER_S = 10.5  # so old is what an expression stands for before it is looked up again


@scenario("K19-full", stage="later")
def _(s: Script) -> None:
    """K19: a group of the largest size; who is in goes on, and only a static member's place can be taken."""
    join(s, "a")
    join(s, "b", instance_id="i")
    join(s, "c")
    beat(s, "c", 2, owned={})
    beat(s, "c", 2, instance_id="j")
    join(s, "a")
    beat(s, "a", 2, owned=ALL)
    beat(s, "b", -2, instance_id="i")
    join(s, "c", instance_id="j")
    join(s, "d", instance_id="i")
    classic(s, "e", version=3).join()
    describe(s)


@scenario("K38-stays-away", since="4.3.1")
def _(s: Script) -> None:
    """K38: a static member that said that it would be back, and is not."""
    shorter = {"consumer.session.timeout.ms": str(members.SHORT_MS), "consumer.heartbeat.interval.ms": "1000"}
    configure(s, shorter)
    join(s, "a", instance_id="i")
    beat(s, "a", -2, instance_id="i")
    until_out(s, "a")
    describe(s)
    beat(s, "a", 2, instance_id="i")
    join(s, "b", instance_id="i")


@scenario("K49-refreshed")
def _(s: Script) -> None:
    """K49: a topic that matches is found by the first heartbeat ten seconds after the last look."""
    known_topic(s, "pt1", 2)
    join(s, "a", [], subscribed_topic_regex=s.name("pt[12]").replace(".", "[.]"))
    eventually(lambda: offsets_log.has(s.observer(), s.name(), 16), what="it is resolved")
    resolved_at = time.monotonic()
    first = beat(s, "a", 1, owned={})
    known_topic(s, "pt2", 1)
    beat(s, "a", first.member_epoch)
    time.sleep(max(0.0, resolved_at + REFRESHED_AFTER_S - time.monotonic()))
    beat(s, "a", first.member_epoch)
    eventually(lambda: look(s).group_epoch > first.member_epoch, deadline_s=60, what="it is looked up again")
    beat(s, "a", first.member_epoch)
    describe(s)


@scenario("K67-only-up", stage="later")
def _(s: Script) -> None:
    """K67: `upgrade`: the last member of the new protocol leaves, and the group stays what it has become."""
    old = Member(s, "c", version=3)
    old.join()
    old.sync({old.id: plan(ALL)})
    join(s, "a")
    beat(s, "a", -1)
    describe(s)
    old.heartbeat()
    old.join()
    old.sync()
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)
    describe(s)


@scenario("K67-neither-way", stage="killed")
def _(s: Script) -> None:
    """K67: `disabled`: nobody of the other protocol is let in."""
    join(s, "a")
    classic(s, "c", version=3).join()
    classic(s, "c", version=9).join()
    describe(s)
    beat(s, "a", -1)
    old = Member(s, "c", version=3)
    old.join()
    old.sync({old.id: plan(ALL)})
    join(s, "a")
    old.heartbeat()


@scenario("K70-stranger")
def _(s: Script) -> None:
    """K70: an empty group, and somebody who says that he is a classic member of it."""
    join(s, "a")
    beat(s, "a", 2, owned=LOW)
    beat(s, "a", -1)
    describe(s)
    stranger = Member(s, "c", version=5)
    stranger.id = "somebody"
    stranger.join()
    describe(s)
    join(s, "b")
