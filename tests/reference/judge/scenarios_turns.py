"""Turns that a group may take and tests of single rules do not: several things at once, members of every age."""

from __future__ import annotations

from protocol.messages.describe_groups import DescribeGroupsRequest
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
