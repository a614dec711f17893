"""Scenarios R, S, H, L and P: lookup, sync, heartbeat, leave, restarts; describing, listing and deleting groups."""

from __future__ import annotations

import time

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.registry import APIS
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import (
    BOTH,
    LONG_MS,
    RANGE,
    SHORT_MS,
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
    together,
)
from tests.reference.judge.play import Script


def describe(s: Script, version: int, *groups: str, operations: bool = False, by: str = "admin") -> None:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)
    s.client(by).call(request, version)


def list_groups(s: Script, version: int, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> None:
    s.client("admin").call(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), version)


def delete_groups(s: Script, version: int, *groups: str) -> None:
    s.client("admin").call(DeleteGroupsRequest(groups_names=list(groups)), version)


# Lookup and the coordinator's shell


@scenario("R04", first=True)
def _(s: Script) -> None:
    """The first lookup of all finds no coordinator, and makes the topic."""
    s.client().call(FindCoordinatorRequest(key=s.name(), key_type=0), 1)


@each_version("R12", range(7))
def find(s: Script, v: int) -> None:
    """FindCoordinator in every version: groups, unknown key types, no key, the same key twice (R03, R05, R12)."""
    c = s.client()
    for key in (s.name(), ""):
        c.call(FindCoordinatorRequest(key=key, key_type=0, coordinator_keys=[key]), v)
    if v:
        c.call(FindCoordinatorRequest(key="k", key_type=7, coordinator_keys=["k", "l"]), v)
        c.call(FindCoordinatorRequest(key="k", key_type=2, coordinator_keys=["k"]), v)
        c.call(FindCoordinatorRequest(key="k", key_type=-1, coordinator_keys=["k"]), v)
    if v >= 4:
        c.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b", "a"]), v)
        c.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[]), v)


@scenario("R-other-coordinators")
def _(s: Script) -> None:
    """Coordinators of transactions and of share groups."""
    c = s.client()
    c.call(FindCoordinatorRequest(key="tid", key_type=1), 3)
    c.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["tid"]), 4)
    c.call(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]), 6)


@each_version("R08-join", range(10))
def no_group_join(s: Script, v: int) -> None:
    """The group id "" is none for membership."""
    a = Member(s, "a", group="")
    a.join(v)
    a.sync(version=min(v, 5), protocol_name="range")
    a.heartbeat(version=min(v, 4))
    a.leave(version=min(v, 5))


@scenario("R08-offsets")
def _(s: Script) -> None:
    delete_offsets(s, "", {T1: [0]})
    fetch_offsets(s, "", {T2: [1]})
    fetch_offsets(s, "", {T2: [1]}, 7)
    describe(s, 6, "never-" + s.name())


@each_version("R09", (0, 3, 6, 9))
def session_limits(s: Script, v: int) -> None:
    for session in (299, 300, 1_800_000, 1_800_001, -1, 0):
        Member(s, "a", group=s.name(f"g{session}"), version=v, session=session).join()


# API key -> the versions next to those that Kafka 4.3 serves.
UNSERVED = {
    0: (2, 14), 1: (3, 19), 2: (0, 12), 3: (-1, 14), 8: (1, 11), 9: (0, 11), 10: (-1, 7), 11: (-1, 10), 12: (-1, 5),
    13: (-1, 6), 14: (-1, 6), 15: (-1, 7), 16: (-1, 6), 17: (-1, 2), 19: (1, 8), 20: (0, 7), 21: (-1, 3), 22: (-1, 7),
    23: (1, 5), 32: (0, 5), 33: (-1, 3), 35: (0, 6), 36: (-1, 3), 37: (-1, 4), 42: (-1, 3), 43: (-1, 3), 44: (-1, 2),
    45: (-1, 2), 46: (-1, 1), 47: (-1, 1), 60: (-1, 3), 75: (-1, 1), 4: (0, 7), 7: (0, 3), 82: (0, 0), 999: (0, 0),
    -1: (0, 0),
}  # fmt: skip


@scenario("R13")
def _(s: Script) -> None:
    """Versions and keys that nobody serves close the connection."""
    for api_key, versions in UNSERVED.items():
        name = APIS[api_key].name if api_key in APIS else f"key {api_key}"
        for version in versions:
            s.client(name).raw(api_key, version, b"\0" * 40, api=name)


@scenario("R-cut-off")
def _(s: Script) -> None:
    """A message that ends too early closes the connection."""
    for api_key, version, name in (
        (11, 5, "JoinGroup"),
        (14, 3, "SyncGroup"),
        (12, 3, "Heartbeat"),
        (13, 3, "LeaveGroup"),
        (8, 7, "OffsetCommit"),
        (9, 5, "OffsetFetch"),
        (10, 1, "FindCoordinator"),
        (15, 4, "DescribeGroups"),
        (42, 1, "DeleteGroups"),
        (47, 0, "OffsetDelete"),
        (1, 11, "Fetch"),
        (2, 5, "ListOffsets"),
        (3, 8, "Metadata"),
        (19, 4, "CreateTopics"),
        (20, 3, "DeleteTopics"),
        (22, 1, "InitProducerId"),
    ):
        s.client(name).raw(api_key, version, b"\0\x05ab", api=name)


# Sync


@each_version("S01-S04", range(6))
def syncs(s: Script, v: int) -> None:
    """The leader first, then a follower; one member left out, one unknown (S01, S03, S04)."""
    a, b, c = stable(s, "a", "b", "c")
    a.send_join()
    s.until("PreparingRebalance")
    together(s, b, c)
    a.joined()
    a.sync({a.id: b"A", b.id: b"B", "nobody": b"N"}, v)
    b.sync(version=v)
    c.sync(version=v)
    b.sync(version=v)
    b.sync({b.id: b"ignored"}, version=v)


@each_version("S-errors", range(6))
def sync_errors(s: Script, v: int) -> None:
    """What SyncGroup refuses (S14, S08)."""
    a = Member(s, "a")
    a.sync({}, v, member_id="x", generation_id=1, protocol_name="range")
    a.enter()
    a.sync({}, v, member_id="x")
    a.sync({}, v, generation_id=0)
    a.sync({}, v, generation_id=2)
    a.sync({}, v, group_id="")
    a.sync({a.id: b"1"}, v)


@each_version("S02", range(6))
def followers_first(s: Script, v: int) -> None:
    a, b, c = stable(s, "a", "b", "c")
    a.send_join()
    s.until("PreparingRebalance")
    together(s, b, c)
    a.joined()
    b.send_sync(version=v)
    c.send_sync(version=v)
    b.client.parked()
    c.client.parked()
    a.sync({b.id: b"B", c.id: b"C"}, v)
    b.client.answer()
    c.client.answer()


@scenario("S07-S08")
def _(s: Script) -> None:
    (a,) = stable(s, "a")
    a.sync(protocol_name=None)
    a.sync(protocol_type=None)
    a.sync(protocol_name="other")
    a.sync(protocol_type="connect")
    a.sync(protocol_name="other", generation_id=7)
    a.sync(protocol_name="other", member_id="x")
    a.sync(version=4, protocol_name=None)
    a.sync(group_id="", protocol_name=None)


@scenario("S-preparing")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.sync()
    b.sync(generation_id=1)
    b.join()
    a.joined()


@scenario("S09")
def _(s: Script) -> None:
    """Nobody syncs: everybody is out when the rebalance timeout has passed, even if they heartbeat."""
    a = Member(s, "a", rebalance=SHORT_MS)
    b = Member(s, "b", rebalance=SHORT_MS)
    a.enter()
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    a.heartbeat()
    b.heartbeat()
    s.until("Empty", 0)
    a.heartbeat()
    b.sync()


@scenario("S10")
def _(s: Script) -> None:
    """Only the leader syncs: the silent follower is expelled."""
    a, b = stable(s, "a", "b", rebalance=SHORT_MS)
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    a.sync({a.id: b"a", b.id: b"b"})
    s.until("PreparingRebalance", 1)
    a.heartbeat()
    b.heartbeat()
    a.join()
    synced(a)


@scenario("S11")
def _(s: Script) -> None:
    """Only the follower syncs: the leader is expelled."""
    a, b = stable(s, "a", "b", rebalance=SHORT_MS)
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.sync()
    a.heartbeat()
    b.join()
    synced(b)


@scenario("S12")
def _(s: Script) -> None:
    """Everybody synced: the old deadline means nothing."""
    a, b = stable(s, "a", "b", rebalance=SHORT_MS)
    time.sleep(SHORT_MS / 1000 + 2)  # The deadline passes; nothing is to be seen.
    a.heartbeat()
    b.heartbeat()
    s.note("state", s.described(s.name()).group_state)


@scenario("S-keeps-alive")
def _(s: Script) -> None:
    """Whether syncs in Stable restart the session timer."""
    a = Member(s, "a", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    for _i in range(5):
        time.sleep(1.5)
        a.sync()
    a.heartbeat()


@scenario("S13")
def _(s: Script) -> None:
    """The leader dies before it syncs."""
    a = Member(s, "a", session=SHORT_MS)
    b = Member(s, "b")
    a.enter()
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    b.send_sync()
    b.client.answer()
    b.join()
    synced(b)
    a.heartbeat()


@scenario("S-repeated")
def _(s: Script) -> None:
    """A parked sync that is sent again over another connection."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.send_sync()
    b.client.parked()
    again = Member(s, "again")
    again.id, again.generation, again.protocol = b.id, b.generation, b.protocol
    again.send_sync()
    again.client.parked()
    a.sync({a.id: b"a", b.id: b"b"})
    again.client.answer()
    b.client.parked()


@scenario("S-leaves-parked")
def _(s: Script) -> None:
    """A member leaves while its sync is parked."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.send_sync()
    b.client.parked()
    b.leave(by="admin")
    b.client.parked()
    a.join()
    synced(a)


@scenario("S-connection-lost")
def _(s: Script) -> None:
    """The answer to a leader's sync is lost; it asks again over a new connection."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    a.send_sync({a.id: b"a1", b.id: b"b1"})
    s.until("Stable")
    a.client.close()
    a.sync({a.id: b"a2", b.id: b"b2"})
    b.sync()


@scenario("S-join-lost")
def _(s: Script) -> None:
    """The connection of a parked join is lost; the member joins again."""
    a, b = stable(s, "a", "b")
    b.protocols = (("range", subscription(T2)),)
    b.send_join()
    s.until("PreparingRebalance")
    b.client.close()
    b.send_join()
    a.join()
    b.joined()
    synced(a, b)


# Heartbeat and leave


@each_version("H01-H03", range(5))
def heartbeats(s: Script, v: int) -> None:
    a = Member(s, "a")
    a.heartbeat(v, member_id="x", generation_id=1)
    a.join()
    a.heartbeat(v, generation_id=0)
    a.join()
    a.heartbeat(v)
    a.sync({a.id: b""})
    a.heartbeat(v)
    a.heartbeat(v, generation_id=0)
    a.heartbeat(v, generation_id=2)
    a.heartbeat(v, generation_id=-1)
    a.heartbeat(v, member_id="x", generation_id=7)
    a.heartbeat(v, member_id="")
    a.heartbeat(v, group_id="")
    b = Member(s, "b")
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.heartbeat(v)
    a.join()
    b.joined()
    a.heartbeat(v, generation_id=1)
    a.heartbeat(v)


@scenario("H02")
def _(s: Script) -> None:
    """A heartbeat with the old generation during a rebalance extends the session."""
    a = Member(s, "a", session=SHORT_MS)
    b = Member(s, "b")
    a.enter()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    for _i in range(4):
        b.client.parked(1.2)
        a.heartbeat()
    a.join()
    b.joined()


@scenario("H04")
def _(s: Script) -> None:
    """Heartbeats keep a member; without them it is out at its session timeout."""
    a = Member(s, "a", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    for _i in range(5):
        time.sleep(1.2)
        a.heartbeat()
    b = Member(s, "b")
    b.send_enter()
    s.until("PreparingRebalance", 2)
    began = time.monotonic()
    b.joined()
    s.note("after its session", time.monotonic() - began > SHORT_MS / 2000)
    a.heartbeat()


@scenario("H05")
def _(s: Script) -> None:
    """A member parked in its join does not expire."""
    a = Member(s, "a")
    b = Member(s, "b", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    b.client.parked(SHORT_MS / 1000 + 1)
    a.join()
    b.joined()


@scenario("H06")
def _(s: Script) -> None:
    """The last member expires."""
    a = Member(s, "a", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    a.commit()
    s.until("Empty", 0)
    describe(s, 5, a.group)
    list_groups(s, 5)
    a.heartbeat()
    fetch_offsets(s, a.group, {T1: [0]})


@scenario("H-commits-keep-alive")
def _(s: Script) -> None:
    """Commits restart the session timer as heartbeats do."""
    a = Member(s, "a", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    for _i in range(5):
        time.sleep(1.2)
        a.commit()
    a.heartbeat()


@scenario("H-two-expire")
def _(s: Script) -> None:
    """A follower expires and the others rejoin; then the leader expires too."""
    a = Member(s, "a")
    b = Member(s, "b", session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    s.until("PreparingRebalance", 1)
    a.heartbeat()
    a.session = SHORT_MS
    a.join()
    synced(a)
    s.until("Empty", 0)


@each_version("L01-L02", range(6))
def leaves(s: Script, v: int) -> None:
    a, b = stable(s, "a", "b")
    b.leave(v)
    a.heartbeat()
    b.leave(v)
    a.join()
    synced(a)
    a.leave(v)
    a.leave(v)
    describe(s, 5, a.group)
    Member(s, "x", group=s.name("unknown")).leave(v)
    leave(s, "", ("x", None), version=v)


@each_version("L03", range(3, 6))
def batch_leave(s: Script, v: int) -> None:
    a, b = stable(s, "a", "b")
    c = Member(s, "c")
    c.join()
    leave(s, s.name(), (b.id, None), ("unknown", None), (c.id, None), ("", None), (b.id, None), version=v)
    a.heartbeat()
    a.join()
    synced(a)


@each_version("L04-L05", range(3, 6))
def leave_by_instance(s: Script, v: int) -> None:
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    leave(s, s.name(), ("x", "ia"), ("x", "none"), ("", "none"), ("", "ia"), version=v)
    leave(s, s.name(), ("", "ia"), version=v)
    a.heartbeat()


@scenario("L-nobody")
def _(s: Script) -> None:
    """An empty batch."""
    stable(s, "a")
    from protocol.messages.leave_group import LeaveGroupRequest

    s.client("admin").call(LeaveGroupRequest(group_id=s.name(), members=[]), 5)
    s.client("admin").call(LeaveGroupRequest(group_id=s.name("unknown"), members=[]), 5)


@scenario("L07")
def _(s: Script) -> None:
    """The last one that was waited for leaves: the phase is over."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    a.client.parked()
    b.leave()
    a.joined()
    synced(a)


@scenario("L08")
def _(s: Script) -> None:
    """A parked joiner is removed."""
    a, b = stable(s, "a", "b")
    b.protocols = BOTH
    b.send_join()
    s.until("PreparingRebalance")
    b.leave(by="admin")
    b.joined()
    a.join()


@scenario("L-leader-leaves")
def _(s: Script) -> None:
    """Of two members the leader leaves."""
    a, b = stable(s, "a", "b")
    a.leave()
    b.heartbeat()
    b.join()
    synced(b)
    a.heartbeat()
    a.join()


@scenario("L-completing")
def _(s: Script) -> None:
    """A member leaves while the group waits for assignments."""
    a, b, c = stable(s, "a", "b", "c")
    a.send_join()
    s.until("PreparingRebalance")
    together(s, b, c)
    a.joined()
    c.send_sync()
    c.client.parked()
    b.leave()
    c.client.answer()
    a.heartbeat()
    together(s, a, c)
    synced(a, c)


@scenario("L-all")
def _(s: Script) -> None:
    """Everybody in one batch."""
    a, b, c = stable(s, "a", "b", "c")
    leave(s, s.name(), (a.id, None), (b.id, None), (c.id, None))
    describe(s, 5, s.name())


# Administration


@each_version("O19", range(7), since="4.3.1")
def described(s: Script, v: int) -> None:
    """DescribeGroups in every state (O19, O24)."""
    group = s.name()
    describe(s, v, group, "")
    a = Member(s, "a", group=group, rebalance=300_000)
    a.join()
    describe(s, v, group)
    a.join()
    describe(s, v, group)
    a.sync({a.id: b"mine"})
    describe(s, v, group, group, s.name("none"))
    describe(s, v, group, operations=True)
    b = Member(s, "b", instance="ib")
    b.send_join()
    s.until("PreparingRebalance", 2)
    describe(s, v, group)
    a.join()
    b.joined()
    describe(s, v, group)
    synced(a, b)
    describe(s, v, group)
    a.leave()
    leave(s, group, ("", "ib"))
    describe(s, v, group)
    describe(s, v)


@each_version("O20", range(6), since="4.3.1")
def listing(s: Script, v: int) -> None:
    """ListGroups with every filter (O20, O01)."""
    list_groups(s, v)
    commit(s, s.name("simple"))
    a, _b = stable(s, "a", "b", group=s.name("live"))
    Member(s, "c", group=s.name("pending")).join()
    Member(s, "d", group=s.name("connect"), protocol_type="connect").enter()
    list_groups(s, v)
    if v >= 4:
        for states in ((" stable ",), ("EMPTY",), ("Stable", "Dead"), ("nonsense",), ("CompletingRebalance",)):
            list_groups(s, v, states)
        a.send_join()
        s.until("PreparingRebalance", 2, a.group)
        list_groups(s, v, ("PreparingRebalance",))
    if v >= 5:
        for types in (("CLASSIC",), ("consumer",), ("foo",), ("classic", "share"), (" classic",)):
            list_groups(s, v, (), types)
        list_groups(s, v, ("empty",), ("Classic",))


@each_version("O17", range(3))
def deleting(s: Script, v: int) -> None:
    """DeleteGroups of every kind of group."""
    empty, simple, pending = s.name("empty"), s.name("simple"), s.name("pending")
    (a,) = stable(s, "a", group=empty)
    a.commit({T1: [(0, 1), (1, 2)], T2: [(0, 3)]})
    a.leave()
    commit(s, simple)
    Member(s, "p", group=pending).join()
    (live,) = stable(s, "live", group=s.name("live"))
    delete_groups(s, v, empty, live.group, s.name("unknown"), simple, simple, pending)
    fetch_offsets(s, empty, None)
    describe(s, 5, empty, simple, pending)
    delete_groups(s, v, empty)
    live.heartbeat()
    delete_groups(s, v)
    delete_groups(s, v, "")
    a.id = ""
    a.enter()


@scenario("O17-rebalancing")
def _(s: Script) -> None:
    """Groups that rebalance are not empty."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    delete_groups(s, 2, a.group)
    b.join()
    a.joined()
    delete_groups(s, 2, a.group)


# Restarts


@scenario("P01")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b", session=200_000)
    a.commit({T1: [(0, 10, 0, "note"), (1, 20)]})
    s.kept = a, b


@scenario("P01", stage="later")
def _(s: Script) -> None:
    """A stable group goes on after a restart: members, generation, leader, assignments, offsets."""
    a, b = s.kept
    describe(s, 5, a.group)
    a.heartbeat()
    b.sync()
    fetch_offsets(s, a.group, None)
    a.commit({T1: [(0, 11)]})
    b.join()
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.join()
    a.joined()


@scenario("P02")
def _(s: Script) -> None:
    s.kept = stable(s, "a", "b", session=3_000)


@scenario("P02", stage="later")
def _(s: Script) -> None:
    """Who stays silent after a restart is expelled."""
    a, b = s.kept
    s.until("Dead", 0)  # Empty, and a second later expired
    a.heartbeat()
    b.heartbeat()


@scenario("P03")
def _(s: Script) -> None:
    s.kept = stable(s, "a", "b", protocols=BOTH, session=200_000)


@scenario("P03", stage="later")
def _(s: Script) -> None:
    """Only one protocol is kept: an unchanged follower that offers two starts a rebalance."""
    a, b = s.kept
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.heartbeat()
    a.join()
    b.joined()
    synced(a, b)


@scenario("P04")
def _(s: Script) -> None:
    # With a retention of their own: the next life keeps offsets for a minute, and may be further away than that.
    commit(s, s.name("simple"), {T1: [(0, 5, -1, "m")]}, 4, retention_ms=LONG_MS * 100)
    (a,) = stable(s, "a", group=s.name("left"))
    a.commit(version=4, retention_ms=LONG_MS * 100)
    a.leave()
    commit(s, s.name("deleted"))
    delete_groups(s, 2, s.name("deleted"))
    Member(s, "p", group=s.name("pending")).join()


@scenario("P04", stage="later")
def _(s: Script) -> None:
    """Simple, empty, deleted and pending groups after a restart."""
    groups = [s.name(suffix) for suffix in ("simple", "left", "deleted", "pending")]
    for group in groups[:3]:
        fetch_offsets(s, group, None)


@scenario("P05")
def _(s: Script) -> None:
    """A group that rebalances when the broker stops."""
    a, b = stable(s, "a", "b", session=200_000)
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    s.kept = a, b


@scenario("P05", stage="later")
def _(s: Script) -> None:
    """It is at its last written generation; the lost one is illegal."""
    a, b = s.kept
    a.heartbeat()
    b.heartbeat(generation_id=b.generation - 1)
    b.sync()
    describe(s, 5, a.group)


@scenario("P06")
def _(s: Script) -> None:
    a, b = (Member(s, name, instance=f"i{name}", session=200_000) for name in "ab")
    a.join()
    a.sync({a.id: b"a"})
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    again = Member(s, "b2", instance="ib", session=200_000)
    again.join()
    again.sync()
    s.kept = a, b, again


@scenario("P06", stage="later")
def _(s: Script) -> None:
    """Static members after a restart; who was replaced before it stays fenced."""
    a, b, again = s.kept
    a.heartbeat()
    b.heartbeat()
    again.heartbeat()
    third = Member(s, "b3", instance="ib", session=200_000)
    third.join()
    third.sync()
    again.heartbeat()
    describe(s, 5, a.group)


@scenario("P-too-large")
def _(s: Script) -> None:
    s.kept = stable(s, "a", "b", "c", "d", session=200_000)


@scenario("P-too-large", stage="later")
def _(s: Script) -> None:
    """A group of four under a limit of three rebalances at once; the slowest is turned away (J32)."""
    members = s.kept
    s.until("PreparingRebalance", 4)
    members[0].heartbeat()
    for member in members[:3]:
        member.send_join()
        member.client.parked()
    members[3].join()
    s.note("protocols", RANGE[0][0])
