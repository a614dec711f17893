"""Groups of the new consumer protocol at length: reconciliation, subscriptions, assignors, and changes of protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.records.consumer_protocol import encode_assignment
from tests.reference.judge import members, offsets_log
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import T1, T2, Member
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_consumer import beat, describe, join
from tests.support.broker_process import eventually
from tests.support.consumer_protocol import subscription

ALL = {T1: [0, 1, 2, 3]}
LOW, HIGH = {T1: [0, 1]}, {T1: [2, 3]}


def look(s: Script) -> Any:
    """What the group looks like, unrecorded."""
    return s.observer().call(ConsumerGroupDescribeRequest(group_ids=[s.name()]), 1).groups[0]


def known_topic(s: Script, name: str, partitions: int) -> str:
    """A topic of the scenario's own, of which coordinators know: Kafka's hear of it later than who made it."""
    topic = s.name(name)
    s.observer().create_topic(topic, partitions)
    probe = ConsumerGroupHeartbeatRequest(
        group_id=f"probe-{topic}",
        member_id="p",
        rebalance_timeout_ms=members.LONG_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    eventually(lambda: s.observer().call(probe, 1).assignment.topic_partitions, deadline_s=60, what="they know of it")
    return topic


def configure(s: Script, settings: Mapping[str, str]) -> None:
    """Give the group settings of its own, and wait until they are known."""
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=32, resource_name=s.name(), configs=changes)
    s.client("admin").call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    asked = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=32, resource_name=s.name())])

    def are_so() -> bool:
        found = {one.name: one.value for one in s.observer().call(asked, 4).results[0].configs}
        return settings.items() <= found.items()

    eventually(are_so, deadline_s=60, what=f"the settings are {settings}")


def until_out(s: Script, member: str) -> None:
    """Wait until the member is out."""
    eventually(lambda: member not in [one.member_id for one in look(s).members], what=f"{member} is out")


def classic(s: Script, name: str, *, version: int = 9, **more: Any) -> Member:
    """A member of the classic protocol under an id of its own choice: one made up would decide who gets what."""
    member = Member(s, name, version=version, **more)
    member.id = "" if member.instance is not None else name
    return member


def plan(partitions: dict[str, list[int]]) -> bytes:
    return encode_assignment(1, partitions)


def _says(owned: dict[str, list[int]]) -> dict[str, Any]:
    """What a classic member says when it joins with so much."""
    return {"protocols": [members.JoinGroupRequestProtocol(name="range", metadata=subscription(T1, owned=owned))]}


@scenario("K02-K55-third-member")
def _(s: Script) -> None:
    """K02, K55: a third member; what must be given up is given on only when its owner no longer reports it."""
    join(s, "a")
    join(s, "b")
    beat(s, "a", 2, owned=ALL)
    beat(s, "a", 2, owned=LOW)
    beat(s, "b", 3, owned={})
    join(s, "c")
    beat(s, "a", 3, owned=LOW)
    beat(s, "b", 3, owned=HIGH)
    beat(s, "c", 4, owned={})
    describe(s)
    for partition in (2, 3):
        beat(s, "b", 3, owned={T1: [partition]})
    beat(s, "c", 4, owned={})
    describe(s)


@scenario("K04-K34-revokes-too-late")
def _(s: Script) -> None:
    """K04, K34: who keeps what it must give up is put out; who gave it up in time is not."""
    join(s, "a", rebalance_timeout_ms=members.SHORT_MS)
    join(s, "b")
    beat(s, "a", 2, owned=ALL)
    until_out(s, "a")
    beat(s, "a", 2, owned=ALL)
    beat(s, "b", 3, owned={})
    describe(s)
    join(s, "c", rebalance_timeout_ms=members.SHORT_MS)
    beat(s, "b", 4, owned=ALL)
    beat(s, "b", 4, owned=LOW)
    describe(s)


@scenario("K28-K30-given-back")
def _(s: Script) -> None:
    """K28, K29, K30: a target that gives back what its member has given up already, or not yet."""
    join(s, "a")
    join(s, "b")
    beat(s, "a", 2, owned=ALL)
    beat(s, "a", 2)
    beat(s, "a", 2, owned=ALL)
    beat(s, "b", -1)
    beat(s, "a", 2, owned=ALL)
    beat(s, "a", 2, owned=LOW)
    beat(s, "a", 4, owned=ALL)
    describe(s)


@scenario("K31-waits-no-more")
def _(s: Script) -> None:
    """K31: a new target drops what a member waited for."""
    join(s, "a")
    join(s, "b")
    beat(s, "b", 3, owned={}, subscribed_topic_names=[T2])
    beat(s, "b", 4, owned={T2: [0, 1]})
    beat(s, "a", 2, owned=ALL)
    describe(s)


@scenario("K08-grows")
def _(s: Script) -> None:
    """K08: a subscribed topic gets partitions, and the epoch rises with the next heartbeat."""
    topic = known_topic(s, "t", 2)
    join(s, "a", [topic])
    asked = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)], timeout_ms=10_000, validate_only=False
    )
    s.client("admin").call(asked, 3)
    say = ConsumerGroupHeartbeatRequest(group_id=s.name(), member_id="a", member_epoch=2)
    eventually(lambda: s.observer().call(say, 1).member_epoch != 2, what="it is told of the third")
    beat(s, "a", 3, owned={topic: [0, 1, 2]})
    describe(s)


@scenario("K23-other-client")
def _(s: Script) -> None:
    """K23: a member with another client id is the same one."""
    join(s, "a")
    beat(s, "a", 2, owned=ALL)
    s.client("b").call(ConsumerGroupHeartbeatRequest(group_id=s.name(), member_id="a", member_epoch=2), 1)
    describe(s)


@scenario("K24-K26-interval", since="4.3.1")
def _(s: Script) -> None:
    """K24, K25, K26: within the interval nothing is computed; with none it is at once."""
    configure(s, {"consumer.assignment.interval.ms": "15000"})
    join(s, "a")
    for other in ("b", "c", "d"):
        join(s, other)
    beat(s, "a", 2, owned=ALL)
    describe(s)
    configure(s, {"consumer.assignment.interval.ms": "0"})
    join(s, "e")
    describe(s)


@scenario("K54-range")
def _(s: Script) -> None:
    """K54: static members first, by instance id."""
    topic = known_topic(s, "seven", 7)
    range_ = {"server_assignor": "range"}
    join(s, "x", [topic], instance_id="b", **range_)
    join(s, "y", [topic], instance_id="a", **range_)
    join(s, "z", [topic], **range_)
    describe(s)


@scenario("K56-different")
def _(s: Script) -> None:
    """K56: balance with different subscriptions."""
    topic = known_topic(s, "two", 2)
    join(s, "a", [T2])
    join(s, "b", [T2, topic])
    describe(s)


@scenario("K57-preferences")
def _(s: Script) -> None:
    """K57: what most prefer."""
    for name, assignor in (("a", "uniform"), ("b", "range"), ("c", "range"), ("d", None)):
        join(s, name, server_assignor=assignor)
        describe(s)


@scenario("K47-K53-regexes")
def _(s: Script) -> None:
    """K47, K48, K50, K51, K53: the whole name; known and unknown expressions; with a name beside them."""
    for number, partitions in ((1, 2), (2, 2)):
        known_topic(s, f"pt{number}", partitions)
    wide = {"subscribed_topic_regex": s.name("pt[12]").replace(".", "[.]")}
    join(s, "a", [], **wide)
    eventually(lambda: offsets_log.has(s.observer(), s.name(), 16), what="it is resolved")
    beat(s, "a", 1, owned={})
    join(s, "b", [T1], **wide)
    beat(s, "b", 3, owned={})
    members.delete_offsets(s, s.name(), {T1: [0], T2: [0]})
    beat(s, "b", -1)
    beat(s, "a", -1)
    describe(s)


@scenario("K58-restarts", stage="main")
def _(s: Script) -> None:
    """K58: before; who has to give partitions up keeps them through the restart, however long this life lasts."""
    join(s, "a", rebalance_timeout_ms=1_200_000)
    join(s, "b", instance_id="i", rebalance_timeout_ms=1_200_000)
    beat(s, "a", 2, owned=ALL)
    describe(s)


@scenario("K58-restarts", stage="later")
def _(s: Script) -> None:
    """K58: and after."""
    describe(s)
    beat(s, "a", 2, owned=LOW)
    beat(s, "b", 3, owned={}, instance_id="i")
    describe(s)


@scenario("K44-expires", stage="later")
def _(s: Script) -> None:
    """K44: an empty group without offsets is gone with the next look."""
    join(s, "a")
    beat(s, "a", -1)
    eventually(lambda: look(s).error_code != 0, deadline_s=60, what="it is gone")
    describe(s)


@scenario("E10-expires", stage="later")
def _(s: Script) -> None:
    """E10: what an empty group has committed expires by its own age, however late the group became empty."""
    join(s, "a")
    members.commit(s, s.name(), {T1: [(0, 1)]}, client="a", generation=2, member="a")
    time.sleep(4)
    members.commit(s, s.name(), {T1: [(1, 1)]}, client="a", generation=2, member="a")
    beat(s, "a", -1)

    def stored() -> list[int]:
        found = s.observer().committed(s.name(), T1, [0, 1])[1]
        return [partition for partition in (0, 1) if found[partition] != -1]

    eventually(lambda: 0 not in stored(), deadline_s=120, what="the first is gone")
    s.note("the later one is still there", stored())
    eventually(lambda: look(s).error_code != 0, deadline_s=120, what="the group is gone")
    s.note("with all it had", stored())
    describe(s)


@scenario("K09-K10-K68-moves")
def _(s: Script) -> None:
    """K09, K68, K10: a classic group is upgraded while it runs, and goes back."""
    old = Member(s, "c", version=3)
    old.join()
    old.sync({old.id: plan(ALL)})
    join(s, "a")
    old.heartbeat()
    old.sync()
    old.join(**_says(ALL))
    old.sync()
    old.heartbeat()
    old.join(**_says(HIGH))
    old.sync()
    old.heartbeat()
    beat(s, "a", 2, owned={})
    describe(s)
    beat(s, "a", -1)
    old.heartbeat()
    old.join(**_says(HIGH))
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)


@scenario("K12-empty-moves")
def _(s: Script) -> None:
    """K12: an empty group changes its kind with whoever comes, and keeps its offsets."""
    old = Member(s, "c", version=3)
    old.join()
    old.sync({old.id: plan(ALL)})
    old.commit({T1: [(0, 7)]})
    old.leave()
    join(s, "a")
    members.fetch_offsets(s, s.name(), {T1: [0]})
    beat(s, "a", -1)
    again = Member(s, "e", version=3)
    again.join()
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)


@scenario("K40-static-moves")
def _(s: Script) -> None:
    """K40: a process of the new protocol takes the place of a classic static member."""
    join(s, "a", instance_id="i")
    Member(s, "c", instance="j", version=5).join()
    join(s, "b", instance_id="j")
    describe(s)
    beat(s, "b", -1, instance_id="j")
    beat(s, "a", 2, owned=ALL, instance_id="i")
    describe(s)


@scenario("K69-static-moves")
def _(s: Script) -> None:
    """K69: a classic static process takes the place of the only member of the new protocol."""
    join(s, "a", instance_id="i")
    beat(s, "a", -2, instance_id="i")
    heir = Member(s, "d", instance="i", version=5)
    heir.join()
    heir.sync()
    heir.heartbeat()
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)


@scenario("K66-user-data")
def _(s: Script) -> None:
    """K66: what an assignor of the clients' own has written would be lost."""
    old = Member(s, "c", version=3)
    old.join()
    old.sync({old.id: plan(ALL)[:-4] + b"\0\0\0\1x"})
    join(s, "a")
    old.heartbeat()


@scenario("K72-does-not-sync")
def _(s: Script) -> None:
    """K72: a classic member that joins and never asks what it may read is put out."""
    join(s, "a")
    slow = classic(s, "c", rebalance=members.SHORT_MS, version=3)
    slow.join()
    until_out(s, "c")
    slow.heartbeat()
    beat(s, "a", 2, owned=ALL)
    describe(s)


GARBAGE = (("range", b"\0"),)
OTHER = (("other", b"\0"),)  # what nobody there speaks, and cannot be read


def _asks(s: Script, *, version: int = 9, member_id: str = "", instance: str | None = None, **more: Any) -> None:
    """A JoinGroup of somebody who is no member."""
    stranger = Member(s, "x", version=version, instance=instance, **{"protocols": GARBAGE, **more})
    stranger.id = member_id
    stranger.join()


@scenario("JoinGroup-wrong-in-many-ways")
def _(s: Script) -> None:
    """A JoinGroup to a consumer group that is wrong in one way and in all that are looked at after it."""
    join(s, "a")
    join(s, "b", instance_id="i")
    classic(s, "c").join()
    _asks(s, protocols=OTHER, session=1)
    _asks(s, protocols=OTHER)
    _asks(s)
    _asks(s, member_id="x", instance="i")
    _asks(s, member_id="x", instance="nobody's")
    _asks(s, version=3)
    describe(s)


@scenario("JoinGroup-full-and-wrong", stage="later")
def _(s: Script) -> None:
    """The same of a group that is full."""
    join(s, "a")
    join(s, "b")
    _asks(s, protocols=OTHER, session=1)
    _asks(s, protocols=OTHER)
    _asks(s, member_id="x", instance="nobody's")
    describe(s)


@scenario("JoinGroup-unwelcome-and-wrong", stage="killed")
def _(s: Script) -> None:
    """The same of a full group in which no classic member is wanted: that is answered first."""
    join(s, "a")
    join(s, "b")
    _asks(s, protocols=OTHER, session=1)
    _asks(s)
    _asks(s, member_id="x", instance="nobody's")
    describe(s)


@each_version("K20-switched-off", (0, 1), stage="classic")
def _off(s: Script, v: int) -> None:
    """K20: the protocol is switched off, and still told to be there."""
    join(s, "a", version=v)
    beat(s, "a", 1, version=v)
    describe(s, v)
    old = Member(s, "c", version=3)
    old.join()
