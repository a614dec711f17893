"""Scenarios O and E: committing, fetching, deleting and expiring offsets."""

from __future__ import annotations

import time

from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.reference.judge.catalog import each_version, scenario
from tests.reference.judge.members import (
    T1,
    T2,
    Member,
    commit,
    delete_offsets,
    fetch_offsets,
    leave,
    stable,
    subscription,
)
from tests.reference.judge.play import Script
from tests.reference.judge.scenarios_admin import settled
from tests.reference.judge.scenarios_data import topic as made_topic
from tests.reference.judge.scenarios_groups import delete_groups, describe, list_groups

EVERY_COMMIT, EVERY_FETCH = range(2, 10), range(1, 10)


@each_version("O01", EVERY_COMMIT)
def simple(s: Script, v: int) -> None:
    """A simple consumer commits and commits again (O01, O11)."""
    commit(s, s.name(), {T1: [(0, 5), (1, 6, 4, "note"), (3, 0, -1, None)], T2: [(0, 2**62)]}, v)
    commit(s, s.name(), {T1: [(0, 4, 0, "")]}, v)
    commit(s, s.name(), {T1: [(0, -1), (1, -5)]}, v)
    list_groups(s, 5)
    for version in (1, 5, 9):
        fetch_offsets(s, s.name(), {T1: [0, 1, 2, 3], T2: [0, 1]}, version)


@each_version("O02", EVERY_COMMIT)
def refused_commits(s: Script, v: int) -> None:
    """Generation or member without a group; unknown topics and partitions (O02, O08)."""
    commit(s, s.name(), None, v, generation=3)
    commit(s, s.name(), None, v, generation=3, member="m")
    commit(s, s.name(), None, v, member="m")
    commit(s, s.name(), {"judge-none": [(0, 1)]}, v, generation=3, member="m")
    commit(s, s.name(), {T1: [(0, 1), (99, 1), (-1, 1)], "judge-none": [(0, 1)], T2: [(0, 9)]}, v)
    commit(s, s.name(), {T1: [(99, 1)]}, v, generation=9)
    commit(s, s.name(), {"": [(0, 1)]}, v)
    fetch_offsets(s, s.name(), None)


@each_version("O03-O06", EVERY_COMMIT)
def member_commits(s: Script, v: int) -> None:
    """Members commit in every state of their group (O03, O04, O05, O06)."""
    group = s.name()
    a = Member(s, "a")
    a.enter()
    a.commit(version=v)
    a.commit(version=v, generation=9)
    a.commit(version=v, member="x")
    a.sync({a.id: b""})
    a.commit(version=v)
    commit(s, group, None, v)
    a.commit(version=v, generation=-1)
    a.commit(version=v, generation=2)
    a.commit(version=v, member="x")
    a.commit(version=v, member="")
    b = Member(s, "b")
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.commit({T1: [(1, 3)]}, v)
    commit(s, group, None, v)
    a.join()
    b.joined()
    a.commit(version=v, generation=1)
    a.commit(version=v)
    leave(s, group, (a.id, None), (b.id, None))
    a.commit(version=v)
    commit(s, group, {T1: [(2, 8)]}, v, member="any", instance="any")
    commit(s, group, {T1: [(2, 8)]}, v, generation=1)
    fetch_offsets(s, group, None)


@each_version("O07", (2, 6, 8, 9))
def long_metadata(s: Script, v: int) -> None:
    """4096 characters are taken, 4097 are not; characters outside the BMP count twice."""
    rows = [(0, 1, -1, "m" * 4096), (1, 1, -1, "m" * 4097), (2, 1, -1, "\U0001f600" * 2048), (3, 1, -1, "é" * 4096)]
    commit(s, s.name(), {T1: rows}, v)
    commit(s, s.name(), {T1: [(0, 1, -1, "\U0001f600" * 2049), (1, 1, -1, "é" * 4097)], T2: [(0, 1)]}, v)
    fetch_offsets(s, s.name(), {T1: [1], T2: [0]})


@each_version("O09", EVERY_COMMIT)
def retention_time(s: Script, v: int) -> None:
    """A retention time of the commit's own makes another record (versions 2 to 4)."""
    commit(s, s.name(), {T1: [(0, 5, 3, "x")]}, v, retention_ms=3_600_000)
    commit(s, s.name(), {T1: [(1, 5)]}, v, retention_ms=0)
    commit(s, s.name(), {T1: [(2, 5)]}, v, retention_ms=-1)
    fetch_offsets(s, s.name(), None)


@each_version("O10", EVERY_FETCH)
def nothing_there(s: Script, v: int) -> None:
    """Fetching what was never committed, of unknown groups and topics."""
    group = s.name()
    fetch_offsets(s, group, {T1: [0, 7], "judge-none": [0]}, v)
    if v > 1:
        fetch_offsets(s, group, None, v)
    commit(s, group, {T1: [(0, 1, 2, "m"), (1, 2)], T2: [(1, 3)]})
    fetch_offsets(s, group, {T1: [0, 1, 2, 0], "judge-none": [0], T2: []}, v)
    fetch_offsets(s, group, {}, v)
    if v > 1:
        fetch_offsets(s, group, None, v)
    if v >= 7:
        fetch_offsets(s, group, {T1: [0, 3]}, v, stable_only=True)
        fetch_offsets(s, group, None, v, stable_only=True)


@each_version("O14", (8, 9))
def several_groups(s: Script, v: int) -> None:
    """Several groups in one request, one of them twice."""
    one, two = s.name("one"), s.name("two")
    commit(s, one)
    commit(s, two, {T2: [(0, 3)]})
    asked = [
        OffsetFetchRequestGroup(group_id=one, topics=[OffsetFetchRequestTopics(name=T1, partition_indexes=[0, 1])]),
        OffsetFetchRequestGroup(group_id=two, topics=None),
        OffsetFetchRequestGroup(group_id=s.name("none"), topics=None),
        OffsetFetchRequestGroup(group_id=one, topics=[]),
        OffsetFetchRequestGroup(group_id="", topics=[]),
    ]
    s.client().call(OffsetFetchRequest(groups=asked, require_stable=False), v)
    s.client().call(OffsetFetchRequest(groups=asked, require_stable=True), v)
    s.client().call(OffsetFetchRequest(groups=[]), v)


@scenario("O14-member")
def _(s: Script) -> None:
    """A classic group takes any member and epoch for a fetch."""
    (a,) = stable(s, "a")
    a.commit()
    for member, epoch in ((None, -1), ("", -1), (a.id, 1), ("x", 9), (a.id, 99)):
        fetch_offsets(s, a.group, {T1: [0]}, 9, member=member, epoch=epoch)


@scenario("O10-twice")
def _(s: Script) -> None:
    """A topic that is named twice."""
    commit(s, s.name(), {T1: [(0, 1), (1, 2)]})
    twice = [OffsetFetchRequestTopic(name=T1, partition_indexes=[p]) for p in (0, 1)]
    s.client().call(OffsetFetchRequest(group_id=s.name(), topics=twice), 5)


@scenario("O08-twice")
def _(s: Script) -> None:
    """A partition that is committed twice in one request: the last one stands."""
    commit(s, s.name(), {T1: [(0, 1), (0, 2)]})
    fetch_offsets(s, s.name(), {T1: [0]})
    commit(s, s.name(), {T1: []})
    from protocol.messages.offset_commit import OffsetCommitRequest

    s.client().call(OffsetCommitRequest(group_id=s.name(), member_id="", topics=[]), 8)
    s.client().call(OffsetCommitRequest(group_id=s.name("other"), member_id="", topics=[]), 8)
    s.client().call(
        OffsetCommitRequest(group_id=s.name("other"), member_id="", generation_id_or_member_epoch=4, topics=[]), 9
    )
    list_groups(s, 5)


@scenario("O15")
def _(s: Script) -> None:
    """Offsets of a live group: those of subscribed topics stay."""
    (a,) = stable(s, "a")
    a.commit({T1: [(0, 1)], T2: [(0, 2), (1, 3)]})
    delete_offsets(s, a.group, {T1: [0, 1], T2: [0]})
    fetch_offsets(s, a.group, None)
    delete_offsets(s, a.group, {T2: [0, 1, 9], "judge-none": [0]})
    delete_offsets(s, a.group, {"judge-none": [0]})
    a.leave()
    delete_offsets(s, a.group, {T1: [0, 1, 2]})
    fetch_offsets(s, a.group, None)


@scenario("O15-rebalancing")
def _(s: Script) -> None:
    a, b = stable(s, "a", "b")
    a.commit({T2: [(0, 1)], T1: [(0, 1)]})
    a.send_join()
    s.until("PreparingRebalance")
    delete_offsets(s, a.group, {T1: [0], T2: [0]})
    b.join()
    a.joined()
    delete_offsets(s, a.group, {T1: [0], T2: [0]})


@scenario("O16")
def _(s: Script) -> None:
    """Groups of another type, and consumers that cannot be understood."""
    a = Member(s, "a", group=s.name("connect"), protocol_type="connect")
    a.enter()
    a.sync({a.id: b""})
    a.commit()
    delete_offsets(s, a.group, {T1: [0]})
    b = Member(s, "b", group=s.name("odd"), protocols=(("range", b"\x00"),))
    b.enter()
    b.sync({b.id: b""})
    b.commit({T1: [(0, 1)], T2: [(0, 1)]})
    delete_offsets(s, b.group, {T1: [0], T2: [0]})
    c = Member(s, "c", group=s.name("none"), protocols=(("range", subscription()),))
    c.enter()
    c.sync({c.id: b""})
    c.commit()
    delete_offsets(s, c.group, {T1: [0]})
    delete_offsets(s, s.name("unknown"), {T1: [0]})
    commit(s, s.name("simple"), {T1: [(0, 1), (1, 1)]})
    delete_offsets(s, s.name("simple"), {T1: [0, 0]})
    delete_offsets(s, s.name("simple"), {})
    delete_offsets(s, s.name("simple"), {T1: [1]})
    list_groups(s, 5)


@scenario("O18")
def _(s: Script) -> None:
    """The offsets of a deleted topic go with it; what was committed for others stays."""
    topic = made_topic(s)
    commit(s, s.name(), {topic: [(0, 1), (1, 2)], T1: [(0, 3)]})
    s.client().call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    end = time.monotonic() + 60
    while time.monotonic() < end and s.observer().committed(s.name(), topic, [0])[1][0] != -1:
        time.sleep(0.05)
    settled(s)
    fetch_offsets(s, s.name(), None)
    commit(s, s.name(), {topic: [(0, 1)]})


@scenario("O-simple-becomes-consumer")
def _(s: Script) -> None:
    """A simple group gets members, and is left with its offsets."""
    commit(s, s.name(), {T1: [(0, 9)]})
    a = Member(s, "a", protocol_type="consumer")
    a.enter()
    a.sync({a.id: b""})
    fetch_offsets(s, s.name(), None)
    a.leave()
    list_groups(s, 5)
    commit(s, s.name(), {T1: [(0, 10)]})
    delete_groups(s, 1, s.name())
    fetch_offsets(s, s.name(), None)


@scenario("O-many-partitions")
def _(s: Script) -> None:
    """A commit of all there is, again and again."""
    for round_ in range(3):
        commit(s, s.name(), {T1: [(p, round_) for p in range(4)], T2: [(p, round_) for p in range(2)]})
    fetch_offsets(s, s.name(), None)


# Expiry, with a retention of one minute that is looked at every second. The look removes groups that have nothing, also
# those in which somebody has an id and is about to join with it: members join as before there were such ids.
NO_ID_FIRST = 3


@scenario("E01", stage="later")
def _(s: Script) -> None:
    """A simple group's offsets go one by one, the last one takes the group along."""
    commit(s, s.name(), {T1: [(0, 1)]})
    time.sleep(4)
    commit(s, s.name(), {T1: [(1, 1)]})
    _gone(s, s.name(), T1, 0)
    s.note("the later one is still there", s.observer().committed(s.name(), T1, [1])[1])
    _gone(s, s.name(), T1, 1)
    s.until("Dead", 0)


@scenario("E02", stage="later")
def _(s: Script) -> None:
    """All offsets of a group without members go together, by the time it lost the last one."""
    (a,) = stable(s, "a", version=NO_ID_FIRST)
    a.commit()
    a.leave()
    time.sleep(4)
    commit(s, s.name(), {T1: [(1, 1)]})
    _gone(s, s.name(), T1, 0)
    s.note("the later one", s.observer().committed(s.name(), T1, [1])[1])
    s.until("Dead", 0)


@scenario("E04", stage="later")
def _(s: Script) -> None:
    """Of a live consumer group the topics expire that nobody subscribes."""
    (a,) = stable(s, "a", session=200_000, version=NO_ID_FIRST)
    a.commit({T1: [(0, 1)], T2: [(0, 1)]})
    _gone(s, s.name(), T2, 0)
    fetch_offsets(s, s.name(), None)
    a.heartbeat()


@scenario("E05", stage="later")
def _(s: Script) -> None:
    """Nothing expires of live groups of another type, nor while a group rebalances."""
    a = Member(s, "a", group=s.name("connect"), protocol_type="connect", session=200_000, version=NO_ID_FIRST)
    a.enter()
    a.sync({a.id: b""})
    a.commit({T1: [(0, 1)], T2: [(0, 1)]})
    b, c = stable(s, "b", "c", group=s.name("rebalancing"), session=200_000, rebalance=180_000, version=NO_ID_FIRST)
    b.commit({T1: [(0, 1)], T2: [(0, 1)]})
    b.send_join()
    s.until("PreparingRebalance", 2, b.group)
    commit(s, s.name("witness"))
    _gone(s, s.name("witness"), T1, 0)
    time.sleep(2)  # Two more looks.
    fetch_offsets(s, a.group, None)
    fetch_offsets(s, b.group, None)
    c.heartbeat()


@each_version("E06", (2, 3, 4), stage="later")
def expire_timestamp(s: Script, v: int) -> None:
    """An expiry of the commit's own comes before any retention."""
    commit(s, s.name(), {T1: [(0, 1)]}, v, retention_ms=500)
    commit(s, s.name(), {T1: [(1, 1)]}, v, retention_ms=3_600_000)
    _gone(s, s.name(), T1, 0)
    fetch_offsets(s, s.name(), None)


@scenario("E08", stage="later")
def _(s: Script) -> None:
    """A group without members and offsets is gone at the next look, pending ids or not."""
    (a,) = stable(s, "a", version=NO_ID_FIRST)
    a.leave()
    Member(s, "b", group=s.name("pending")).join()
    s.until("Dead", 0)
    s.until("Dead", 0, s.name("pending"))
    describe(s, 6, s.name())


def _gone(s: Script, group: str, topic: str, partition: int) -> None:
    end = time.monotonic() + 120
    while s.observer().committed(group, topic, [partition])[1][partition] != -1:
        if time.monotonic() > end:
            s.note("not expired", (topic, partition))
            return
        time.sleep(0.1)
