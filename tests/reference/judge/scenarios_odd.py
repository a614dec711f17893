"""What no client does and every broker must survive: ids that do not fit, things named twice, less than zero."""

from __future__ import annotations

from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest, ReassignableTopic
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.types import ZERO_UUID
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import (
    BOTH,
    T1,
    T2,
    Member,
    commit,
    delete_offsets,
    fetch_offsets,
    leave,
    stable,
    subscription,
    synced,
)
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import fetch, produce, records, topic

ROUNDROBIN_FIRST = tuple(reversed(BOTH))
ODD_NAMES = ("", " ", "ü☃😀", "a\nb", "\x00zero", "x" * 300)


# Identities that do not fit


@scenario("L-pending-leaves")
def _(s: Script) -> None:
    """An id that was given out leaves a stable group: whether that is a reason to rebalance."""
    a, b = stable(s, "a", "b")
    p = Member(s, "p")
    p.join()
    p.leave()
    a.heartbeat()
    b.heartbeat()
    p.join()


@scenario("L-the-same-twice")
def _(s: Script) -> None:
    """One batch names a static member by its instance, by its id, and again."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    leave(s, s.name(), ("", "ia"), (a.id, "ia"), (a.id, None), ("", "ia"))
    leave(s, s.name(), (a.id, "ia"))


@scenario("J-empty-instance")
def _(s: Script) -> None:
    """The empty instance id is one like any other."""
    a = Member(s, "a", instance="")
    a.join()
    a.sync({a.id: b"1"})
    a.heartbeat()
    a.commit()
    b = Member(s, "b", instance="")
    b.join()
    a.heartbeat()
    a.commit()
    b.sync()
    leave(s, s.name(), ("", ""))
    b.heartbeat()


@scenario("J-other-type")
def _(s: Script) -> None:
    """The only member comes back with another protocol type; a newcomer has another one."""
    (a,) = stable(s, "a")
    a.join(protocol_type="connect")
    a.join(protocol_type="")
    Member(s, "b", protocol_type="connect").join()
    Member(s, "c", protocol_type="connect", version=3).join()
    a.heartbeat()


@scenario("J-reordered")
def _(s: Script) -> None:
    """A follower comes back with the same protocols in another order."""
    a, b = stable(s, "a", "b", protocols=BOTH)
    b.protocols = ROUNDROBIN_FIRST
    b.send_join()
    b.client.parked()
    a.heartbeat()
    a.join()
    b.joined()
    synced(a, b)


@scenario("J-one-protocol-twice")
def _(s: Script) -> None:
    """A member lists one protocol twice, with other bytes: which of them the leader is shown."""
    twice = (("range", subscription(T1)), ("range", subscription(T2)))
    a = Member(s, "a", protocols=twice)
    a.enter()
    synced(a)
    a.join()
    a.sync({a.id: b""})
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)
    a.commit({T1: [(0, 1)], T2: [(0, 1)]})
    delete_offsets(s, s.name(), {T1: [0], T2: [0]})


@scenario("J-timeouts-below-zero")
def _(s: Script) -> None:
    """Session and rebalance timeouts that are none."""
    a = Member(s, "a", rebalance=-1)
    a.join(session_timeout_ms=-1)
    a.join(session_timeout_ms=0)
    a.enter()
    b = Member(s, "b", rebalance=-5)
    b.enter()
    a.heartbeat()


@scenario("J-strangers")
def _(s: Script) -> None:
    """Ids that nobody gave out, with and without an instance id that somebody has."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    p = Member(s, "p")
    p.join()
    strangers = [("made-up", None), ("made-up", "ia"), ("made-up", "none"), (a.id, None), (a.id, "none"), (p.id, "ia")]
    for member, instance in strangers:
        known = {"group_id": s.name(), "member_id": member, "group_instance_id": instance, "generation_id": 1}
        s.client("x").call(HeartbeatRequest(**known), 4)
        s.client("x").call(SyncGroupRequest(**known, protocol_type="consumer", protocol_name="range"), 5)
    Member(s, "z").join(member_id="made-up", group_instance_id="ia")
    Member(s, "z").join(member_id="made-up", group_instance_id="none")
    p.join(group_instance_id="ip")
    a.heartbeat()


@scenario("O-identities")
def _(s: Script) -> None:
    """Who may commit to a stable group of a static member, and to the one that is left Empty."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    everybody = [
        ("", None),
        ("", "ia"),
        ("", "none"),
        (a.id, None),
        (a.id, "ia"),
        (a.id, "none"),
        ("m", None),
        ("m", "ia"),
    ]
    for generation in (-1, 0, 1, 2, -7):
        for member, instance in everybody:
            commit(s, s.name(), {T1: [(0, generation)]}, 8, generation=generation, member=member, instance=instance)
    leave(s, s.name(), ("", "ia"))
    for generation in (-1, 0, 2):
        for member, instance in everybody:
            commit(s, s.name(), {T1: [(1, generation)]}, 8, generation=generation, member=member, instance=instance)
    fetch_offsets(s, s.name(), None)


# Things named twice


@each_version("O-topics-twice", (2, 8, 9))
def topics_twice(s: Script, v: int) -> None:
    """A commit that names topics again and again, some of their partitions unknown."""

    def one(topic: str, *partitions: int) -> OffsetCommitRequestTopic:
        rows = [OffsetCommitRequestPartition(partition_index=p, committed_offset=p) for p in partitions]
        return OffsetCommitRequestTopic(name=topic, partitions=rows)

    def send(*topics: OffsetCommitRequestTopic) -> None:
        s.client().call(
            OffsetCommitRequest(group_id=s.name(), generation_id_or_member_epoch=-1, topics=list(topics)), v
        )

    send(one(T1, 0), one(T1, 0), one(T1, 1))
    send(one(T2, 0), one(T1, 0, 99), one(T1, 1), one(T2, 1), one("judge-none", 0), one(T2, -1), one("judge-none", 1))
    send(one(T1), one(T1, 99), one(T1, 0))
    fetch_offsets(s, s.name(), None)


@scenario("O16-topics-twice")
def _(s: Script) -> None:
    """As much of OffsetDelete."""
    commit(s, s.name(), {T1: [(0, 1), (1, 1)], T2: [(0, 1)]})

    def one(topic: str, *partitions: int) -> OffsetDeleteRequestTopic:
        rows = [OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
        return OffsetDeleteRequestTopic(name=topic, partitions=rows)

    topics = [one(T2, 0), one(T1, 0, 99), one(T1, 1), one("judge-none", 0), one(T2, 1), one("judge-none", 1)]
    s.client().call(OffsetDeleteRequest(group_id=s.name(), topics=topics), 0)
    s.client().call(OffsetDeleteRequest(group_id=s.name(), topics=[one(T1, 0), one(T1, 0)]), 0)
    fetch_offsets(s, s.name(), None)


@scenario("DeleteTopics-by-both")
def _(s: Script) -> None:
    """One request names a topic by its name and by its id, in either order; another gives neither."""
    for suffix, name_first in (("a", True), ("b", False)):
        name = topic(s, suffix)
        states = [DeleteTopicState(name=name), DeleteTopicState(name=None, topic_id=s.topic_id(name))]
        if not name_first:
            states.reverse()
        s.client().call(DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
    s.client().call(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=ZERO_UUID)], timeout_ms=1_000), 6)


@scenario("Groups-named-twice")
def _(s: Script) -> None:
    """Describing and deleting groups under one name twice, under odd names, and none."""
    stable(s, "a")
    c = s.client()
    c.call(DescribeGroupsRequest(groups=[s.name(), s.name(), ""]), 5)
    c.call(DescribeGroupsRequest(groups=[]), 5)
    c.call(DeleteGroupsRequest(groups_names=[s.name(), s.name(), s.name("none")]), 2)
    c.call(DeleteGroupsRequest(groups_names=[]), 2)
    for states, types in (
        ([" stable "], []),
        (["STABLE", "Nothing"], []),
        (["Nothing"], []),
        ([""], []),
        ([], ["Classic"]),
        ([], [" classic"]),
        ([], ["nothing"]),
        ([], ["CONSUMER", "classic"]),
        ([], [""]),
    ):
        c.call(ListGroupsRequest(states_filter=states, types_filter=types), 5)


@scenario("Odd-names-of-groups")
def _(s: Script) -> None:
    """Whatever is a text is a group's name."""
    for name in ODD_NAMES[1:]:
        group = s.name(name)
        commit(s, group, {T1: [(0, 3)]}, 8)
        fetch_offsets(s, group, None)
        s.client().call(DescribeGroupsRequest(groups=[group]), 6)
        s.client().call(DeleteGroupsRequest(groups_names=[group]), 2)


@each_version("Produce-twice", (3, 9, 11))
def produce_twice(s: Script, v: int) -> None:
    """One request with two batches for one partition, within a topic and in two entries of it."""
    name = topic(s)

    def entry(*values: bytes) -> TopicProduceData:
        batches = [PartitionProduceData(index=0, records=records(value)) for value in values]
        return TopicProduceData(name=name, partition_data=batches)

    for topics in ([entry(b"a", b"b")], [entry(b"c"), entry(b"d")]):
        s.client().call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), v)
    fetch(s, 11, {(name, 0): 0})


# Numbers below zero


def filled(s: Script) -> str:
    """A topic with one batch of three records in its first partition."""
    name = topic(s)
    produce(s, 9, {(name, 0): records(b"a", b"b", b"c")})
    return name


@each_version("O-numbers", (2, 6, 8, 9))
def numbers(s: Script, v: int) -> None:
    """Offsets, epochs, retention times below zero; no metadata."""
    commit(s, s.name(), {T1: [(0, -1, -1, None)]}, v)
    commit(s, s.name(), {T1: [(0, -9, -9, "")]}, v)
    commit(s, s.name(), {T1: [(1, 2**63 - 1, 2**31 - 1, "\x00")]}, v)
    commit(s, s.name(), {T1: [(2, 5)]}, v, retention_ms=-2 if v <= 4 else -1)
    fetch_offsets(s, s.name(), None)
    fetch_offsets(s, s.name(), {T1: [-1, 0, 0, 99], "": [0], "no/name": [1]})
    fetch_offsets(s, s.name(), {T1: []})
    fetch_offsets(s, s.name(), {})


@each_version("OffsetFetch-groups", (8, 9))
def fetch_groups(s: Script, v: int) -> None:
    """No group, the empty group, a topic named twice."""
    commit(s, s.name(), {T1: [(0, 4)]})
    c = s.client()
    c.call(OffsetFetchRequest(groups=[]), v)
    twice = [
        OffsetFetchRequestTopics(name=T1, partition_indexes=[0, 0]),
        OffsetFetchRequestTopics(name=T1, partition_indexes=[0]),
    ]
    for group in ("", s.name()):
        for stable_only in (False, True):
            asked = [OffsetFetchRequestGroup(group_id=group, topics=topics) for topics in (twice, [], None)]
            for one in asked:
                c.call(OffsetFetchRequest(groups=[one], require_stable=stable_only), v)


@scenario("Fetch-numbers")
def _(s: Script) -> None:
    """Limits and offsets below zero, one partition twice, nothing at all."""
    name = filled(s)
    for fields, partition in (
        ({"max_bytes": 0}, {}),
        ({"max_bytes": -1}, {}),
        ({"min_bytes": -1}, {}),
        ({"max_wait_ms": -1}, {}),
        ({}, {"partition_max_bytes": 0}),
        ({}, {"partition_max_bytes": -1}),
        ({}, {"fetch_offset": -1}),
        ({}, {"fetch_offset": -2}),
        ({}, {"fetch_offset": 2**63 - 1}),
        ({}, {"partition": -1}),
        ({}, {"current_leader_epoch": -2}),
        ({"isolation_level": 7}, {}),
    ):
        asked = {
            "partition": 0,
            "fetch_offset": 0,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": -1,
        } | partition
        whole = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1} | fields
        s.client().call(
            FetchRequest(replica_id=-1, topics=[FetchTopic(topic=name, partitions=[FetchPartition(**asked)])], **whole),
            11,
        )


@each_version("ListOffsets-numbers", (1, 5, 9))
def list_numbers(s: Script, v: int) -> None:
    """Marks that nobody knows, partitions below zero, nothing at all."""
    name = filled(s)
    for rows in ([(0, -7)], [(0, -(2**63))], [(-1, -1)], [(0, 0)], [(0, 2**63 - 1)], []):
        asked = [ListOffsetsPartition(partition_index=p, timestamp=t) for p, t in rows]
        s.client().call(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)]), v)
    s.client().call(ListOffsetsRequest(replica_id=-1, topics=[]), v)


# Empty lists, and what else is named twice


@each_version("Empty-lists", (3, 9, 11))
def empty_lists(s: Script, v: int) -> None:
    """Topics without partitions, requests without topics, in each API that has them."""
    name = filled(s)
    c = s.client()
    for topics in ([], [TopicProduceData(name=name, partition_data=[])], [TopicProduceData(name="none")]):
        c.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), v)
    for asked in ([], [FetchTopic(topic=name, partitions=[])], [FetchTopic(topic="none", partitions=[])]):
        c.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=99, topics=asked), max(v, 4))
    for rows in ([], [DeleteRecordsTopic(name=name, partitions=[])], [DeleteRecordsTopic(name="none", partitions=[])]):
        c.call(DeleteRecordsRequest(topics=rows, timeout_ms=1_000), min(v, 2))
    for rows in ([], [OffsetForLeaderTopic(topic=name, partitions=[])]):
        c.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=rows), min(v, 4))
    commit(s, s.name(), {name: [(0, 1)]})
    unknown = OffsetDeleteRequestTopic(name="none", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    for rows in ([], [OffsetDeleteRequestTopic(name=name, partitions=[])], [unknown]):
        for group in (s.name(), s.name("none"), ""):
            c.call(OffsetDeleteRequest(group_id=group, topics=rows), 0)
    for rows in ([], [OffsetCommitRequestTopic(name=name, partitions=[])]):
        c.call(OffsetCommitRequest(group_id=s.name(), generation_id_or_member_epoch=-1, topics=rows), min(v, 9))
    for rows in ([], [DescribableLogDirTopic(topic=name, partitions=[])]):
        c.call(DescribeLogDirsRequest(topics=rows), 4)
    for rows in ([], [TopicPartitions(topic=name, partitions=[])]):
        c.call(ElectLeadersRequest(election_type=0, topic_partitions=rows, timeout_ms=1_000), 2)
    for rows in ([], [ReassignableTopic(name=name, partitions=[])]):
        c.call(AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=1_000), 0)
    for rows in ([], [ListPartitionReassignmentsTopics(name=name, partition_indexes=[])]):
        c.call(ListPartitionReassignmentsRequest(topics=rows, timeout_ms=1_000), 0)


@each_version("Partitions-twice", (4, 11))
def partitions_twice(s: Script, v: int) -> None:
    """One partition twice in a topic, one topic twice in a request: reading, looking up, deleting."""
    name = filled(s)
    c = s.client()
    one = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    two = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)
    for topics in (
        [FetchTopic(topic=name, partitions=[one, two])],
        [FetchTopic(topic=name, partitions=[one]), FetchTopic(topic=name, partitions=[two])],
    ):
        c.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics), v)
    marks = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in (0, 0, 1)]
    for rows in (
        [ListOffsetsTopic(name=name, partitions=marks)],
        [ListOffsetsTopic(name=name, partitions=marks[:1]), ListOffsetsTopic(name=name, partitions=marks[1:])],
    ):
        c.call(ListOffsetsRequest(replica_id=-1, topics=rows), min(v, 9))
    epochs = [OffsetForLeaderPartition(partition=i, leader_epoch=0) for i in (0, 0, 1)]
    for rows in (
        [OffsetForLeaderTopic(topic=name, partitions=epochs)],
        [
            OffsetForLeaderTopic(topic=name, partitions=epochs[:1]),
            OffsetForLeaderTopic(topic=name, partitions=epochs[1:]),
        ],
    ):
        c.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=rows), 4)
    ends = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (3, 0)]
    for rows in (
        [DeleteRecordsTopic(name=name, partitions=ends)],
        [DeleteRecordsTopic(name=name, partitions=ends[:1]), DeleteRecordsTopic(name=name, partitions=ends[1:])],
    ):
        c.call(DeleteRecordsRequest(topics=rows, timeout_ms=1_000), 2)


@scenario("Fetch-session-odd")
def _(s: Script) -> None:
    """Sessions that nobody has, epochs that cannot be, partitions forgotten that were never asked for."""
    name = filled(s)
    made = fetch(s, 11, {(name, 0): 0}, session_epoch=0)
    for id_, epoch in ((0, 1), (0, 2**31 - 1), (0, -2), (-1, 0), (-1, -1), (-1, 1), (made.session_id, -5)):
        fetch(s, 11, {(name, 1): 0}, session_id=id_, session_epoch=epoch)
    fetch(s, 11, {}, session_id=made.session_id, session_epoch=1, forgotten={name: [7, -1], "none": [0]})
    fetch(s, 11, {(name, 0): 0, (name, 99): 0}, session_id=made.session_id, session_epoch=2)
    fetch(s, 11, {}, session_id=made.session_id, session_epoch=3)
    fetch(s, 11, {}, session_id=made.session_id, session_epoch=4, forgotten={name: [0, 99]})
    fetch(s, 11, {(name, 0): 0}, session_id=made.session_id, session_epoch=5)


@scenario("J-odd-protocols")
def _(s: Script) -> None:
    """No protocols, a protocol without a name, a type without a name; assignments named twice."""
    a = Member(s, "a", protocols=())
    a.join()
    a.join(protocol_type="")
    a.protocols = (("", b"m"),)
    a.enter()
    a.send_sync()
    a.client.answer()
    b = Member(s, "b", protocols=(("", b"n"), ("range", b"")))
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    twice = [SyncGroupRequestAssignment(member_id=a.id, assignment=each) for each in (b"1", b"2")]
    a.client.call(
        SyncGroupRequest(
            group_id=s.name(),
            generation_id=a.generation,
            member_id=a.id,
            protocol_type="consumer",
            protocol_name="",
            assignments=twice,
        ),
        5,
    )
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)


@each_version("ConsumerGroupHeartbeat", (0, 1))
def new_protocol(s: Script, v: int) -> None:
    """The new consumer protocol: a stranger's heartbeat, and a first one."""
    stranger = {"group_id": s.name(), "member_id": "x", "member_epoch": 5}
    s.client().call(ConsumerGroupHeartbeatRequest(**stranger), v)
    first = ConsumerGroupHeartbeatRequest(
        group_id=s.name(),
        member_id="AAAAAAAAAAAAAAAAAAAAAQ" if v else "",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[T1],
        topic_partitions=[],
    )
    s.client().call(first, v)


@scenario("ApiVersions-odd")
def _(s: Script) -> None:
    """Names of software that are none."""
    for name, version in (
        ("", "1"),
        ("ok", ""),
        ("a b", "1"),
        ("-a", "1"),
        ("a", "1-"),
        ("ü", "1"),
        ("a.b-c", "1.0-x"),
    ):
        s.client().call(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
