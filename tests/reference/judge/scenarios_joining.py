"""Scenarios J and M: joining, rebalancing, static members."""

from __future__ import annotations

import time

from protocol.messages.join_group import JoinGroupRequestProtocol
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import (
    BOTH,
    DELAY_MS,
    RANGE,
    SHORT_MS,
    T1,
    T2,
    Member,
    commit,
    leave,
    stable,
    subscription,
    synced,
    together,
)
from tests.reference.judge.play import Script

RR = (("roundrobin", subscription(T1)),)


def protocols(*pairs: tuple[str, bytes]) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in pairs]


@each_version("J-cycle", range(10))
def cycle(s: Script, v: int) -> None:
    """A group of two in one version of every membership API, from the first join to the last leave."""
    sync, beat, gone = min(v, 5), min(v, 4), min(v, 5)
    a, b = Member(s, "a", version=v), Member(s, "b", version=v)
    a.enter()
    a.sync({a.id: b"one"}, version=sync)
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.heartbeat(version=beat)
    together(s, a)
    b.joined()
    a.sync({a.id: b"left", b.id: b"right"}, version=sync)
    b.sync(version=sync)
    for member in (a, b):
        member.heartbeat(version=beat)
    b.leave(version=gone)
    a.heartbeat(version=beat)
    a.leave(version=gone)
    a.heartbeat(version=beat)


@each_version("J-errors", range(10))
def errors(s: Script, v: int) -> None:
    """What JoinGroup refuses, in every version (J04, J12, J13, J29, R09)."""
    a = Member(s, "a", version=v)
    a.join(member_id="nobody")
    a.join(group_id="")
    a.join(session_timeout_ms=299)
    a.join(session_timeout_ms=1_800_001)
    a.join(protocol_type="")
    a.join(protocols=[])
    a.enter()
    Member(s, "b", version=v).join(protocol_type="connect")
    Member(s, "c", version=v).join(protocols=protocols(("other", b"")))
    Member(s, "d", version=v).join(member_id="nobody")


@scenario("J01")
def _(s: Script) -> None:
    a = Member(s, "a")
    for version in (4, 5, 9):
        a.join(version, member_id="")


@scenario("J04-J05")
def _(s: Script) -> None:
    """A pending id is forgotten with its session."""
    a = Member(s, "a", session=900)
    a.join()
    time.sleep(3)  # Nothing shows a pending id; its session must have passed.
    a.join()


@scenario("J06")
def _(s: Script) -> None:
    a = Member(s, "a")
    a.join()
    a.heartbeat(generation_id=0)
    a.sync(generation_id=0, protocol_name="range")
    a.commit(generation=0)
    a.commit(generation=0, version=8)


@scenario("J07")
def _(s: Script) -> None:
    a = Member(s, "a")
    a.join()
    a.join(group_instance_id="i")
    a.join()


@scenario("J12")
def _(s: Script) -> None:
    a = Member(s, "a")
    a.join(protocol_type="")
    a.join(protocols=[])
    a.join(member_id="x", protocols=[])
    a.enter()
    a.join(protocols=[])


@scenario("J13")
def _(s: Script) -> None:
    a, b = Member(s, "a"), Member(s, "b", protocol_type="connect")
    a.enter()
    b.join()
    a.leave()
    b.enter()


@scenario("J14")
def _(s: Script) -> None:
    stable(s, "a")
    Member(s, "b", protocols=RR).join()
    Member(s, "b", protocols=RR, instance="i").join()
    s.note("state", s.described(s.name()).group_state)


@scenario("J15")
def _(s: Script) -> None:
    (a,) = stable(s, "a")
    a.protocols = RR
    a.join()
    a.protocols = (*RR, *RANGE)
    a.join()


@scenario("J16")
def _(s: Script) -> None:
    one, two = b"1", b"2"
    a = Member(s, "a", protocols=(("range", one), ("rr", two)))
    b = Member(s, "b", protocols=(("rr", one), ("range", two)))
    c = Member(s, "c", protocols=(("rr", one),))
    a.enter()
    b.send_enter()
    s.until("PreparingRebalance", 2)
    c.send_enter()
    s.until("PreparingRebalance", 3)
    a.join()
    b.joined()
    c.joined()


@scenario("J16-votes")
def _(s: Script) -> None:
    """Two of three vote for the second of the leader."""
    a = Member(s, "a", protocols=(("range", b"1"), ("rr", b"2")))
    b = Member(s, "b", protocols=(("rr", b"3"), ("range", b"4")))
    c = Member(s, "c", protocols=(("rr", b"5"), ("range", b"6")))
    a.enter()
    for member, count in ((b, 2), (c, 3)):
        member.send_enter()
        s.until("PreparingRebalance", count)
    a.join()
    b.joined()
    c.joined()


@each_version("J17", (0, 4, 5, 7, 9))
def unchanged_follower(s: Script, v: int) -> None:
    a, b = stable(s, "a", "b", version=v)
    b.join()
    a.heartbeat()


@scenario("J18")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.heartbeat()
    b.join()
    a.joined()
    synced(a, b)


@scenario("J19")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b", protocols=BOTH)
    b.protocols = BOTH[::-1]
    b.send_join()
    s.until("PreparingRebalance")
    a.join()
    b.joined()
    synced(a, b)
    b.protocols = (("range", subscription(T2)), BOTH[1])
    b.send_join()
    s.until("PreparingRebalance")
    a.join()
    b.joined()
    synced(a, b)


@scenario("J20")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    a.join()
    b.join()
    a.join(version=4)
    synced(a, b)


@scenario("J20-changed")
def _(s: Script) -> None:
    """A changed join in CompletingRebalance starts again."""
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    a.send_sync({a.id: b"x"}, generation_id=99)
    a.client.answer()
    b.protocols = (("range", subscription(T2)),)
    b.send_join()
    s.until("PreparingRebalance")
    a.join()
    b.joined()
    synced(a, b)


@scenario("J21")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b")
    a.send_join()
    s.until("PreparingRebalance")
    b.join()
    a.joined()
    b.send_sync()
    b.client.parked()
    c = Member(s, "c")
    c.send_enter()
    b.client.answer()
    together(s, a, b)
    c.joined()
    synced(a, b, c)


@scenario("J22")
def _(s: Script) -> None:
    """A silent dynamic member is out when the rebalance timeout has passed."""
    a, b = stable(s, "a", "b", rebalance=SHORT_MS)
    a.join()
    b.heartbeat()
    synced(a)


@scenario("J23")
def _(s: Script) -> None:
    """The longest rebalance timeout counts."""
    a = Member(s, "a", rebalance=2 * SHORT_MS)
    b = Member(s, "b", rebalance=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    b.client.parked(1.5 * SHORT_MS / 1000)
    b.joined()
    a.heartbeat()
    b.sync({b.id: b"b"})


@scenario("J24")
def _(s: Script) -> None:
    """A pending id holds the phase up until it leaves."""
    a, b = stable(s, "a", "b")
    c = Member(s, "c")
    c.join()
    a.send_join()
    s.until("PreparingRebalance")
    b.send_join()
    b.client.parked()
    c.leave()
    b.joined()
    a.joined()
    synced(a, b)


@scenario("J24-expires")
def _(s: Script) -> None:
    """... or expires."""
    a, b = stable(s, "a", "b")
    c = Member(s, "c", session=SHORT_MS)
    c.join()
    a.send_join()
    s.until("PreparingRebalance")
    b.send_join()
    b.client.parked()
    b.joined()
    a.joined()


@scenario("J24-joins")
def _(s: Script) -> None:
    """... or joins."""
    a, b = stable(s, "a", "b")
    c = Member(s, "c")
    c.join()
    a.send_join()
    s.until("PreparingRebalance")
    b.send_join()
    b.client.parked()
    c.join()
    b.joined()
    a.joined()
    synced(a, b, c)


@scenario("J25")
def _(s: Script) -> None:
    """A leader that does not come back is replaced."""
    a, b = stable(s, "a", "b", rebalance=SHORT_MS)
    b.protocols = (("range", subscription(T2)),)
    b.join()
    a.heartbeat()
    a.join()
    synced(b)


@scenario("J26")
def _(s: Script) -> None:
    """Static members are not removed when nobody comes back: a rebalance goes on until they expire."""
    a, b = (Member(s, name, instance=f"i{name}", rebalance=SHORT_MS, session=60_000) for name in "ab")
    a.enter()
    a.sync({a.id: b"a"})
    b.send_join()
    s.until("PreparingRebalance", 2)
    b.client.close()
    a.heartbeat()
    leave(s, s.name(), ("", "ib"))
    s.until("PreparingRebalance", 1)
    time.sleep(SHORT_MS / 1000 + 2)  # One rebalance timeout passes, nothing is to be seen.
    a.heartbeat()
    s.note("still", (s.described(s.name()).group_state, len(s.described(s.name()).members)))
    a.join()


@scenario("J28")
def _(s: Script) -> None:
    """A new member that falls silent after its join is expelled at its session timeout."""
    a = Member(s, "a", session=SHORT_MS)
    a.enter()
    s.until("Empty", 0)
    a.heartbeat()
    a.sync({a.id: b""})
    a.join()


@scenario("J30")
def _(s: Script) -> None:
    """Version 0 has no rebalance timeout: the session timeout counts."""
    a, b = Member(s, "a", version=0, session=SHORT_MS), Member(s, "b", version=0, session=SHORT_MS)
    a.enter()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    b.joined()
    b.sync({b.id: b"b"})
    s.note("members", len(s.described(s.name()).members))


@scenario("J35")
def _(s: Script) -> None:
    (a,) = stable(s, "a")
    a.leave()
    a.id = ""
    a.enter()
    a.sync({a.id: b"x"})


@scenario("J36")
def _(s: Script) -> None:
    """The newer of two joins of one member is the one that is answered."""
    a, b = stable(s, "a", "b")
    b.protocols = (("range", subscription(T2)),)
    b.send_join()
    s.until("PreparingRebalance", 2)
    again = Member(s, "b2", protocols=b.protocols)
    again.id = b.id
    again.send_join()
    again.client.parked()
    a.join()
    again.joined()
    b.client.parked()


@scenario("J-many")
def _(s: Script) -> None:
    """Five members, one after the other, each a rebalance."""
    members = stable(s, "a", "b", "c", "d", "e")
    leave(s, s.name(), *((m.id, None) for m in members[1:3]))
    together(s, members[0], *members[3:])
    synced(members[0], *members[3:])


@scenario("J-own-types")
def _(s: Script) -> None:
    """A group of type connect works like any other."""
    a, b = stable(s, "a", "b", protocol_type="connect", protocols=(("compatible", b"\x00\x01"),))
    a.commit()
    b.leave()


@scenario("J-empty-client-id")
def _(s: Script) -> None:
    """An id is made of the client id, whatever that is."""
    for name in ("", "with space", "ü", "x" * 200):
        Member(s, name, group=s.name(f"g{len(name)}")).join()


@scenario("J-metadata-sizes")
def _(s: Script) -> None:
    """Empty and large metadata and assignments come back as they are."""
    a = Member(s, "a", protocols=(("range", b""), ("big", subscription(T1) + b"x" * 70_000)))
    a.enter()
    a.sync({a.id: b"\x01" * 70_000})
    a.protocols = a.protocols[::-1]
    a.join()
    a.sync({a.id: b""})
    a.sync()


@scenario("J-topics-of-null")
def _(s: Script) -> None:
    """A consumer's metadata that names a null list of topics."""
    a = Member(s, "a", protocols=(("range", b"\x00\x00\xff\xff\xff\xff"),))
    a.join()
    a.send_join()
    a.client.parked(0.5)


# Static members


@each_version("M01-M02", range(5, 10))
def replaced(s: Script, v: int) -> None:
    """A follower's process is replaced: a new id, the same generation, no rebalance (M02, M03)."""
    a = Member(s, "a", version=v, instance="ia")
    b = Member(s, "b", version=v, instance="ib")
    a.join()
    a.sync({a.id: b"a"})
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    again = Member(s, "b2", version=v, instance="ib")
    again.join()
    again.sync()
    again.heartbeat()
    b.heartbeat()
    b.sync()
    b.commit()
    b.heartbeat(group_instance_id=None)
    b.heartbeat(version=2)
    b.commit(version=6)
    b.sync(version=2)
    b.join()
    a.heartbeat()


@each_version("M04-M05", range(5, 10))
def leader_replaced(s: Script, v: int) -> None:
    """The leader's process is replaced (M04 below version 9, M05 from 9 on)."""
    a = Member(s, "a", version=v, instance="ia")
    b = Member(s, "b", version=v)
    a.join()
    a.sync({a.id: b"a"})
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    again = Member(s, "a2", version=v, instance="ia")
    again.join()
    again.sync()
    a.heartbeat()
    b.heartbeat()
    again.send_join()
    s.until("PreparingRebalance", 2)
    b.join()
    again.joined()


@scenario("M06")
def _(s: Script) -> None:
    """Back with protocols that change the choice: a rebalance."""
    a = Member(s, "a", protocols=BOTH)
    b = Member(s, "b", protocols=BOTH, instance="ib")
    a.enter()
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    again = Member(s, "b2", protocols=RR, instance="ib")
    again.send_join()
    s.until("PreparingRebalance", 2)
    b.heartbeat()
    a.join()
    again.joined()
    synced(a, again)


@scenario("M07")
def _(s: Script) -> None:
    """Back with other topics: no rebalance, the new metadata is kept."""
    a = Member(s, "a")
    b = Member(s, "b", instance="ib")
    a.enter()
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    again = Member(s, "b2", instance="ib", protocols=(("range", subscription(T2)),), session=200_000, rebalance=210_000)
    again.join()
    again.sync()
    a.heartbeat()
    a.send_join()
    s.until("PreparingRebalance")
    again.join()
    a.joined()


@scenario("M08")
def _(s: Script) -> None:
    """A static member is replaced while the group waits for assignments."""
    a = Member(s, "a")
    b = Member(s, "b", instance="ib")
    c = Member(s, "c")
    a.enter()
    b.send_join()
    s.until("PreparingRebalance", 2)
    c.send_enter()
    s.until("PreparingRebalance", 3)
    a.join()
    b.joined()
    c.joined()
    c.send_sync()
    c.client.parked()
    again = Member(s, "b2", instance="ib")
    again.send_join()
    c.client.answer()
    together(s, a, c)
    again.joined()
    synced(a, again, c)


@scenario("M09")
def _(s: Script) -> None:
    """A static member parked in its join is fenced by its duplicate."""
    (a,) = stable(s, "a")
    b = Member(s, "b", instance="ib")
    b.send_join()
    s.until("PreparingRebalance", 2)
    again = Member(s, "b2", instance="ib")
    again.send_join()
    b.joined()
    again.client.parked()
    a.join()
    again.joined()
    synced(a, again)


@scenario("M10")
def _(s: Script) -> None:
    """A static member parked in its sync is fenced by its duplicate."""
    a = Member(s, "a")
    b = Member(s, "b", instance="ib")
    a.enter()
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    b.send_sync()
    b.client.parked()
    again = Member(s, "b2", instance="ib")
    again.send_join()
    b.client.answer()
    a.join()
    again.joined()
    synced(a, again)


@scenario("M12")
def _(s: Script) -> None:
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    a.join(member_id="other")
    a.join(group_instance_id="unknown")
    a.heartbeat(member_id="other")
    a.heartbeat(group_instance_id="unknown")
    a.sync(member_id="other")
    a.sync(group_instance_id="unknown")
    a.commit(member="other")
    a.commit(instance="unknown")
    leave(s, s.name(), ("other", "ia"), (a.id, "unknown"), ("", "unknown"), ("", None))
    a.heartbeat()


@scenario("M13")
def _(s: Script) -> None:
    """A static follower misses a rebalance: it stays, with the old generation, until the sync timeout."""
    a = Member(s, "a", rebalance=SHORT_MS)
    b = Member(s, "b", rebalance=SHORT_MS, instance="ib")
    a.enter()
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.joined()
    synced(a, b)
    a.join()
    b.heartbeat()
    a.sync({a.id: b"a", b.id: b"b"})
    s.until("PreparingRebalance", 1)
    b.heartbeat()
    a.join()
    synced(a)


@scenario("M14")
def _(s: Script) -> None:
    """Every restart of an instance gets another id."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b"mine"})
    for name in ("a2", "a3", "a4"):
        a = Member(s, name, instance="ia")
        a.join()
        a.sync()


@scenario("M-leave-and-return")
def _(s: Script) -> None:
    """A static member leaves by its instance id and joins again."""
    a = Member(s, "a", instance="ia")
    a.join()
    a.sync({a.id: b""})
    leave(s, s.name(), ("", "ia"))
    a.heartbeat()
    a.join()
    a.id = ""
    a.join()


@scenario("M-expires")
def _(s: Script) -> None:
    """A static member expires like any other."""
    a = Member(s, "a", instance="ia", session=SHORT_MS)
    a.join()
    a.sync({a.id: b""})
    s.until("Empty", 0)
    a.heartbeat()


# With an initial delay and groups of three at most. In this life a look of every second removes groups without members
# and offsets, also those in which somebody has an id and is about to join with it.


def kept(s: Script) -> None:
    """Let the scenario's group live between two requests, however long they take: it has an offset."""
    commit(s, s.name())


@scenario("J02", stage="later")
def _(s: Script) -> None:
    kept(s)
    a = Member(s, "a")
    a.join()
    a.send_join()
    a.client.parked(DELAY_MS / 2000)
    a.joined()


@scenario("J03", stage="later")
def _(s: Script) -> None:
    a = Member(s, "a", version=3)
    a.send_join()
    a.client.parked(DELAY_MS / 2000)
    a.joined()


@scenario("J09", stage="later")
def _(s: Script) -> None:
    """A second member during the delay makes it longer."""
    kept(s)
    a, b = Member(s, "a"), Member(s, "b")
    b.join()
    a.join()
    a.send_join()
    a.client.parked(DELAY_MS / 2000)
    b.send_join()
    a.client.parked(0.75 * DELAY_MS / 1000)
    a.joined()
    b.joined()


@scenario("J10-J11", stage="later")
def _(s: Script) -> None:
    """With a rebalance timeout no longer than the delay it is not made longer."""
    kept(s)
    a, b = Member(s, "a", rebalance=DELAY_MS), Member(s, "b", rebalance=DELAY_MS)
    b.join()
    a.join()
    began = time.monotonic()
    a.send_join()
    s.until("PreparingRebalance", 1)
    b.send_join()
    a.joined()
    b.joined()
    s.note("twice the delay", time.monotonic() - began > 2 * DELAY_MS / 1000)


@scenario("J05-delay", stage="later")
def _(s: Script) -> None:
    """Whether a pending id that expires during the initial delay ends it."""
    kept(s)
    a, b = Member(s, "a"), Member(s, "b", session=DELAY_MS // 5)
    a.join()
    a.send_join()
    s.until("PreparingRebalance", 1)
    b.join()
    if a.client.parked(0.6 * DELAY_MS / 1000):
        a.joined()


@scenario("J31", stage="later")
def _(s: Script) -> None:
    """A full group turns others away; its members go on."""
    kept(s)
    a, b, c = stable(s, "a", "b", "c")
    d, e = Member(s, "d"), Member(s, "e", instance="i")
    d.join()
    d.join(version=3)
    d.join(member_id="unknown")
    e.join()
    b.join()
    c.heartbeat()
    c.leave()
    d.send_enter()
    s.until("PreparingRebalance", 3)
    together(s, a, b)
    d.joined()


@scenario("J33", stage="later")
def _(s: Script) -> None:
    """Pending ids do not count."""
    kept(s)
    members = [Member(s, f"m{i}") for i in range(5)]
    for member in members:
        member.join()
    for member in members:
        member.send_join()
        if member is not members[-1] and members.index(member) < 3:
            s.until("PreparingRebalance", members.index(member) + 1)
    members[3].joined()
    members[4].joined()
    for member in members[:3]:
        member.joined()


@scenario("J35-delay", stage="later")
def _(s: Script) -> None:
    """A group that became Empty waits again."""
    kept(s)
    (a,) = stable(s, "a")
    a.commit()
    a.leave()
    a.id = ""
    a.join()
    a.send_join()
    a.client.parked(DELAY_MS / 2000)
    a.joined()


@scenario("L07-delay", stage="later")
def _(s: Script) -> None:
    """During the initial delay a leave does not end the phase."""
    kept(s)
    a, b = Member(s, "a"), Member(s, "b")
    b.join()
    a.join()
    a.send_join()
    s.until("PreparingRebalance", 1)
    b.leave()
    a.client.parked(DELAY_MS / 2000)
    a.joined()


@scenario("L08-delay", stage="later")
def _(s: Script) -> None:
    """The only member leaves while it is parked in the initial delay."""
    kept(s)
    a = Member(s, "a")
    a.join()
    a.send_join()
    s.until("PreparingRebalance", 1)
    leave(s, s.name(), (a.id, None))
    a.joined()
    s.until("Empty", 0)
