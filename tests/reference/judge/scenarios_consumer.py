"""Groups of the new consumer protocol (KIP-848), request by request: scenarios K of docs/scenarios."""

from __future__ import annotations

from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.reference.judge import offsets_log
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import T1, T2
from tests.reference.judge.play import Script
from tests.support.broker_process import eventually

TIMEOUT = {"rebalance_timeout_ms": 60_000}


def beat(s: Script, member: str, epoch: int, *, owned: dict[str, list[int]] | None = None, **more: Any) -> Any:
    """A heartbeat over the member's own connection."""
    said = more.pop("version", 1)
    if owned is not None:
        more["topic_partitions"] = [
            TopicPartitions(topic_id=s.topic_id(topic), partitions=held) for topic, held in owned.items()
        ]
    request = ConsumerGroupHeartbeatRequest(group_id=s.name(), member_id=member, member_epoch=epoch, **more)
    return s.client(member if len(member) < 3 else "nobody").call(request, said)


def join(s: Script, member: str, names: list[str] | None = None, **more: Any) -> Any:
    """A first heartbeat."""
    named = {"subscribed_topic_names": [T1] if names is None else names}
    return beat(s, member, 0, owned={}, **{**TIMEOUT, **named, **more})


def describe(s: Script, version: int = 1) -> None:
    """What the group looks like."""
    s.client("admin").call(ConsumerGroupDescribeRequest(group_ids=[s.name()]), version)


@each_version("K01-K17-join", (0, 1))
def _first(s: Script, v: int) -> None:
    """K01, K17, K18: a first member, alone; then less and more than all."""
    member = join(s, "m1" if v else "", version=v).member_id
    beat(s, member, 2, version=v)
    beat(s, member, 2, owned={T1: [0]}, subscribed_topic_names=[T1], version=v, **TIMEOUT)
    beat(s, member, 2, owned={T1: [0, 1, 2, 3]}, version=v)
    describe(s, v)
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 6)
    s.client("admin").call(ListGroupsRequest(types_filter=["consumer"]), 5)
    s.client("admin").call(DeleteGroupsRequest(groups_names=[s.name()]), 2)
    beat(s, member, -1, version=v)
    describe(s, v)
    s.client("admin").call(DeleteGroupsRequest(groups_names=[s.name()]), 2)
    describe(s, v)


@scenario("K13-K14-K15-shape")
def _(s: Script) -> None:
    """K13, K14, K15: what a heartbeat must say."""
    for epoch in (0, 1, -1, -2):
        beat(s, "", epoch, owned={}, subscribed_topic_names=[T1], **TIMEOUT)
    beat(s, " ", 0, owned={}, subscribed_topic_names=[T1], **TIMEOUT)
    beat(s, "a", 0, owned={}, subscribed_topic_names=[T1])
    beat(s, "a", 0, subscribed_topic_names=[T1], **TIMEOUT)
    join(s, "a", **{"topic_partitions": [TopicPartitions(topic_id=s.topic_id(T1), partitions=[0])]})
    beat(s, "a", 0, owned={}, **TIMEOUT)
    join(s, "a", instance_id="")
    join(s, "a", rack_id=" ")
    beat(s, "a", -2)
    beat(s, "a", -3, instance_id="i")
    join(s, "a", server_assignor="foo")
    join(s, "a", [])
    beat(s, "a", 1)
    describe(s)


@scenario("K16-K22-fencing")
def _(s: Script) -> None:
    """K16, K22, K07, K03: strangers, wrong epochs, a member that begins anew."""
    beat(s, "a", 5)
    beat(s, "a", -1)
    join(s, "a")
    beat(s, "b", 5)
    beat(s, "b", -1)
    beat(s, "a", 3)
    beat(s, "a", 1)
    beat(s, "a", 1, owned={})
    beat(s, "a", 2)
    join(s, "a")
    join(s, "b", [])
    join(s, "c", [])
    beat(s, "a", 2, owned={T1: [0, 1, 2, 3]})
    join(s, "a")
    describe(s)


@scenario("K27-K33-two-members")
def _(s: Script) -> None:
    """K27 to K33, and the worked example: a second member comes."""
    join(s, "a")
    join(s, "b")
    beat(s, "a", 2)
    describe(s)
    beat(s, "a", 2, owned={T1: [0, 1, 2, 3]})
    beat(s, "b", 3)
    beat(s, "b", 3)
    beat(s, "a", 2, owned={T1: [0, 1]})
    beat(s, "b", 3)
    beat(s, "a", 2, owned={T1: [0, 1]})
    beat(s, "a", 2)
    join(s, "a")
    describe(s)
    beat(s, "b", -1)
    beat(s, "a", 3)
    beat(s, "a", 4)
    describe(s)


@scenario("K32-K17-subscriptions")
def _(s: Script) -> None:
    """K32: a member wants other topics, less, more, none, and such as do not exist."""
    join(s, "a", [T1])
    beat(s, "a", 2, owned={T1: [0, 1, 2, 3]}, subscribed_topic_names=[T2, T1, "nosuch"])
    beat(s, "a", 3, owned={T1: [0, 1, 2, 3], T2: [0, 1]}, subscribed_topic_names=[T1])
    beat(s, "a", 3, owned={T1: [0, 1, 2, 3]})
    beat(s, "a", 4, owned={T1: [0, 1, 2, 3]}, subscribed_topic_names=[])
    beat(s, "a", 4, owned={})
    describe(s)


@scenario("K05-K36-K38-static")
def _(s: Script) -> None:
    """K05, K06, K36, K37: a static member leaves for a while, and comes back under another id."""
    i = {"instance_id": "i"}
    join(s, "a", **i)
    join(s, "b", **i)
    beat(s, "a", -2, **i)
    beat(s, "a", -2, **i)
    beat(s, "a", 2, **i)
    beat(s, "b", 2, **i)
    beat(s, "a", -2, instance_id="j")
    describe(s)
    join(s, "b", **i)
    beat(s, "a", 2, **i)
    describe(s)
    beat(s, "b", -1, **i)
    describe(s)


@scenario("K39-static-again")
def _(s: Script) -> None:
    """K39: a living static member joins again under its own id."""
    join(s, "a", instance_id="i")
    join(s, "a", instance_id="i")
    join(s, "a")
    join(s, "a", instance_id="j")


@scenario("K42-K43-leave-group")
def _(s: Script) -> None:
    """K41, K42, K43: an administrator takes members out."""
    for member in ("a", "b", "c"):
        join(s, member)
    leavers = [MemberIdentity(member_id=member) for member in ("nobody", "a")]
    s.client("admin").call(LeaveGroupRequest(group_id=s.name(), members=leavers), 5)
    describe(s)
    s.client("admin").call(LeaveGroupRequest(group_id=s.name(), members=[MemberIdentity(member_id="b")]), 5)
    describe(s)
    join(s, "d")


@scenario("K45-K46-regexes")
def _(s: Script) -> None:
    """K45, K46: expressions that are none."""
    for regex in ("(a", "a(?!b)", r"(a)\1", "(?<=a)b", "a++", "a**", "(?x)a", r"\Z", "a{1001}", "[", "\\"):
        beat(s, "a", 0, owned={}, subscribed_topic_regex=regex, **TIMEOUT)
    describe(s)
    for number, regex in enumerate((r"(?i)A[[:digit:]]\.v\d+", "", "nothing", "(?P<n>x)")):
        beat(s, f"m{number}", 0, owned={}, subscribed_topic_regex=regex, **TIMEOUT)
        # It is resolved aside; the others have to wait 10 s for theirs.
        eventually(lambda: offsets_log.has(s.observer(), s.name(), 16), what="the first expression is resolved")


@each_version("K63-K65-commit", (8, 9, 10))
def _commit(s: Script, v: int) -> None:
    """K11, K63, K65: who may commit."""

    def commit(member: str, epoch: int, *partitions: int) -> None:
        said = [OffsetCommitRequestPartition(partition_index=one, committed_offset=7) for one in partitions]
        request = OffsetCommitRequest(
            group_id=s.name(),
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=T1, topic_id=s.topic_id(T1), partitions=said)],
        )
        s.client(member or "nobody").call(request, v)

    join(s, "a")
    join(s, "b")
    beat(s, "a", 2, owned={T1: [0, 1, 2, 3]})
    commit("a", 2, 0, 1, 2, 3)
    beat(s, "a", 2, owned={T1: [0, 1]})
    commit("a", 3, 0)
    commit("a", 2, 0)
    commit("a", 2, 0, 2)
    commit("a", 4, 0)
    commit("a", 1, 0)
    commit("nobody", 3, 0)
    commit("", -1, 0)
    beat(s, "a", -1)
    beat(s, "b", -1)
    commit("", -1, 0)
    commit("a", 3, 0)


@each_version("K64-fetch", (9, 10))
def _fetch(s: Script, v: int) -> None:
    """K64: who may read offsets."""
    join(s, "a")
    topics = [OffsetFetchRequestTopics(name=T1, topic_id=s.topic_id(T1), partition_indexes=[0])]
    for member, epoch in ((None, -1), ("", -1), ("a", 2), ("a", 1), ("a", 3), ("a", -1), ("b", 2), (None, 2)):
        asked = OffsetFetchRequestGroup(group_id=s.name(), member_id=member, member_epoch=epoch, topics=topics)
        s.client().call(OffsetFetchRequest(groups=[asked]), v)


@scenario("K71-describe-others")
def _(s: Script) -> None:
    """K71: groups that are none, or of another kind."""
    s.client("admin").call(ConsumerGroupDescribeRequest(group_ids=["", s.name("nobody")]), 1)
