"""Turns that a group may take and tests of single rules do not: several things at once, members of every age."""

from __future__ import annotations

from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.reference.judge.catalog import scenario
from tests.reference.judge.members import (
    T1,
    T2,
    Member,
    commit,
    fetch_offsets,
    leave,
    stable,
    subscription,
    synced,
)
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_data import fetch, produce, records, topic


@scenario("L-mixed-while-joining")
def _(s: Script) -> None:
    """One batch takes out a parked member, a pending id and one that is awaited, while the others join again."""
    a, b, c, d = stable(s, "a", "b", "c", "d")
    a.send_join()
    s.until("PreparingRebalance")
    b.send_join()
    b.client.parked()
    p = Member(s, "p")
    p.join()
    leave(s, s.name(), (b.id, None), (p.id, None), (c.id, None), (p.id, None))
    b.joined()
    d.join()
    a.joined()
    synced(a, d)


@scenario("J-another-instance")
def _(s: Script) -> None:
    """A static member names itself without its instance, with another's, and a dynamic one with an instance."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b"1"})
    a.join(group_instance_id=None)
    a.join(group_instance_id="other")
    a.sync(group_instance_id="other")
    b = Member(s, "b")
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    b.join(group_instance_id="ib")
    b.heartbeat(group_instance_id="ia")
    b.commit(instance="ia")
    a.heartbeat()
    b.heartbeat()


@scenario("M-replaced-twice")
def _(s: Script) -> None:
    """Two processes take an instance over, one after the other, while the group rebalances."""
    a, b = stable(s, "a", "b", instance=None)
    x = Member(s, "x", instance="ix")
    x.send_join()
    s.until("PreparingRebalance", 3)
    y = Member(s, "y", instance="ix")
    y.send_join()
    x.joined()
    z = Member(s, "z", instance="ix")
    z.send_join()
    y.joined()
    a.send_join()
    b.send_join()
    for member in (a, b, z):
        member.joined()
    x.heartbeat()
    y.sync()
    synced(a, b, z)
    y.leave()
    z.heartbeat()


@scenario("M-replaced-unsynced")
def _(s: Script) -> None:
    """A static follower is replaced when the others have their assignments and it has not asked for its own."""
    a = Member(s, "a", instance="ia")
    a.join()
    b = Member(s, "b", instance="ib")
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    a.sync({a.id: b"A", b.id: b"B"})
    c = Member(s, "c", instance="ib")
    c.join()
    c.sync()
    b.sync()
    a.heartbeat()
    s.client("admin").call(DescribeGroupsRequest(groups=[s.name()]), 5)


@scenario("S-changed-while-parked")
def _(s: Script) -> None:
    """A follower whose sync is parked joins again with other topics; the leader's plan comes too late."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.send_sync()
    b.client.parked()
    other = Member(s, "b2", protocols=(("range", subscription(T2)),))
    other.id, other.generation = b.id, b.generation
    other.send_join()
    b.client.answer()
    a.sync({a.id: b"late", b.id: b"late"})
    a.join()
    other.joined()
    synced(a, other)


@scenario("J-versions-mixed")
def _(s: Script) -> None:
    """Members of every age in one group: what each is told of protocol and leader."""
    old, middle, new = Member(s, "old", version=1), Member(s, "middle", version=5), Member(s, "new", version=9)
    old.enter()
    old.sync({old.id: b""})
    middle.send_enter()
    s.until("PreparingRebalance", 2)
    old.join()
    middle.joined()
    new.send_enter()
    s.until("PreparingRebalance", 3)
    old.send_join()
    middle.send_join()
    for member in (old, middle, new):
        member.joined()
    synced(old, middle, new)
    leave(s, s.name(), (old.id, None), version=3)
    middle.heartbeat(3)
    middle.join(8)


@scenario("O-between-generations")
def _(s: Script) -> None:
    """Commits by members of the last generation while the next one forms, and of it before it is synced."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    # Over a connection of its own: Kafka looks at nothing that comes behind a parked join.
    commit(s, s.name(), {T1: [(0, 1)]}, 8, client="a2", generation=a.generation, member=a.id)
    b.commit({T1: [(1, 1)]}, 8)
    b.commit({T1: [(1, 2)]}, 8, generation=b.generation + 1)
    b.join()
    a.joined()
    b.commit({T1: [(1, 3)]}, 8, generation=b.generation - 1)
    b.commit({T1: [(1, 4)]}, 8)
    commit(s, s.name(), {T1: [(1, 5)]}, 8)
    fetch_offsets(s, s.name(), None, stable_only=True)
    synced(a, b)
    b.commit({T1: [(1, 6)]}, 8)
    fetch_offsets(s, s.name(), None)


# Several requests on one connection, sent without waiting for answers: what is begun when (D7)


@scenario("Order-behind-a-join")
def _(s: Script) -> None:
    """A commit and a heartbeat behind a join that waits: looked at when it is answered, in the next generation."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    for request, version in ((commit_of(a, 1), 8), (heartbeat_of(a), 4), (commit_of(a, 2, generation=-1), 8)):
        a.client.send(request, version)
    a.client.parked()
    commit(s, s.name(), {T1: [(0, 3)]}, 8, client="other", generation=a.generation, member=a.id)
    b.join()
    a.joined()
    for _i in range(3):
        a.client.answer()
    fetch_offsets(s, s.name(), None)


@scenario("Order-behind-a-sync")
def _(s: Script) -> None:
    """A leave and a join of its member behind a sync that waits: the sync is answered first."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.send_sync()
    b.client.send(heartbeat_of(b), 4)
    b.client.send(LeaveGroupRequest(group_id=b.group, members=[MemberIdentity(member_id=b.id)]), 5)
    b.client.send(heartbeat_of(b), 4)
    b.client.parked()
    a.heartbeat()
    a.sync({a.id: b"a", b.id: b"b"})
    for _i in range(4):
        b.client.answer()
    a.heartbeat()


@scenario("Order-behind-a-fetch")
def _(s: Script) -> None:
    """What is produced behind a fetch that waits does not end its wait."""
    t = topic(s)
    fetch(s, 12, {(t, 0): 0}, max_wait_ms=1_500, min_bytes=1, heard=False)
    produce(s, 9, {(t, 0): records(b"a")}, heard=False)
    fetch(s, 12, {(t, 0): 0}, max_wait_ms=1_500, min_bytes=1, heard=False)
    produce(s, 9, {(t, 0): records(b"b")}, heard=False)
    fetch(s, 12, {(t, 0): 1}, max_wait_ms=0, heard=False)
    for _i in range(5):
        s.client().answer()


@scenario("Order-produces-and-reads")
def _(s: Script) -> None:
    """Everything on the way at once: each read sees all that was sent before it."""
    t = topic(s)
    for number in range(3):
        for acks in (1, -1):
            produce(s, 9, {(t, 0): records(b"%d" % number)}, acks=acks, heard=False)
        fetch(s, 12, {(t, 0): 2 * number}, heard=False)
        s.client().send(commit_to(s.name(), 2 * number), 8)
        s.client().send(commit_to(s.name(), 2 * number + 1), 8)
        s.client().send(offsets_of(s.name()), 7)
    for _i in range(18):
        s.client().answer()


def heartbeat_of(member: Member) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.id)


def commit_of(member: Member, offset: int, generation: int | None = None) -> OffsetCommitRequest:
    request = commit_to(member.group, offset)
    request.generation_id_or_member_epoch = member.generation if generation is None else generation
    request.member_id = member.id if generation is None else ""
    return request


def commit_to(group: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=T1, partitions=[partition])])


def offsets_of(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name=T1, partition_indexes=[0])])
