"""Members of the classic protocol in a consumer group, and groups that change their protocol. Ids of docs/scenarios."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from coordinator.classic import inputs as classic
from coordinator.classic.tokens import AssignmentToken, NewGroupToken
from coordinator.consumer.classic_members import ClassicAgain
from coordinator.group import Group, GroupState, Member
from coordinator.outcome import Appended, AppendFailed
from coordinator.values import altered
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.records.consumer_protocol import assigned_partitions
from tests.coordinator.consumer.driver import REBALANCE, Driver, Request

E = ErrorCode
CLASSIC_SESSION = 10_000


def said(topics: Iterable[str] = ("t",), owned: Mapping[str, Iterable[int]] | None = None, version: int = 1) -> bytes:
    """A subscription."""
    parts = [struct.pack(">h", version)]
    names = list(topics)
    parts.append(struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(n)) + n.encode() for n in names))
    parts.append(struct.pack(">i", -1))
    held = {topic: list(partitions) for topic, partitions in (owned or {}).items()}
    parts.append(struct.pack(">i", len(held)))
    for topic, partitions in held.items():
        parts.append(
            struct.pack(">h", len(topic))
            + topic.encode()
            + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
        )
    return b"".join(parts)


def assignment(partitions: Mapping[str, Iterable[int]], user_data: bytes | None = None) -> bytes:
    from protocol.records.consumer_protocol import encode_assignment

    plain = encode_assignment(1, partitions)
    return plain if user_data is None else plain[:-4] + struct.pack(">i", len(user_data)) + user_data


class Mixed(Driver):
    """A driver that speaks the classic protocol too."""

    def classic_join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        owned: Mapping[str, Iterable[int]] | None = None,
        topics: Iterable[str] = ("t",),
        version: int = 3,
        protocols: tuple[str, ...] = ("range",),
        new_id: str = "new",
    ) -> Request:
        request = Request()
        self.feed(
            classic.Join(
                "g",
                member_id,
                instance_id,
                "consumer",
                tuple((name, said(topics, owned)) for name in protocols),
                CLASSIC_SESSION,
                REBALANCE,
                version,
                new_id,
                "c",
                "/127.0.0.1",
                request,
            )
        )
        return request

    def classic_sync(
        self, member_id: str, generation: int, plan: Mapping[str, bytes] | None = None, **more: Any
    ) -> tuple[ErrorCode, dict[str, list[int]]]:
        request = Request()
        self.feed(classic.Sync("g", member_id, None, generation, None, None, plan or {}, 4, request, **more))
        answer = request.response
        found: dict[str, list[int]] = {}
        if answer is not None and answer.assignment:
            for topic, partition in sorted(assigned_partitions(answer.assignment)):
                found.setdefault(topic, []).append(partition)
        return ErrorCode(answer.error_code), found

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        return ErrorCode(self.ask(classic.Heartbeat("g", member_id, None, generation, None)).error_code)

    def classic_group(self, *names: str, user_data: bytes | None = None) -> Group:
        """A Stable classic group of these members, generation 1; the first leads, and has everything."""
        joins = [self.classic_join(new_id=name) for name in names]
        self.advance(6_000)
        assert all(join.response for join in joins)
        plan = {name: assignment({"t": [0, 1, 2, 3]} if name == names[0] else {}, user_data) for name in names}
        for name in names:
            self.classic_sync(name, 1, plan if name == names[0] else None)
        group = self.shard.groups["g"]
        assert group.state is GroupState.STABLE
        return group


def test_k09_k10_a_classic_group_is_upgraded_while_it_runs_and_goes_back():
    """K09, K68, K10: the whole way, with one classic member that gives up half and gets it back."""
    broker = Mixed()
    broker.classic_group("old")

    assert broker.join("a") == (2, {})

    assert broker.log[-1][0][0].record_type == 2
    assert broker.log[-1][0][1] is None
    assert broker.written() == ["-2", "5", "3", "7", "6", "8", "5", "3", "7", "7", "6", "8"]
    assert (broker.group.epoch, broker.member("old").epoch, broker.group.classic_count) == (2, 1, 1)
    assert broker.held("old") == {"t": [0, 1, 2, 3]}
    # The classic member hears of it, and joins with what it owns: the old generation, and what is left.
    assert broker.classic_beat("old", 1) is E.REBALANCE_IN_PROGRESS
    assert broker.classic_sync("old", 1)[0] is E.REBALANCE_IN_PROGRESS
    joined = broker.classic_join("old", owned={"t": [0, 1, 2, 3]}).response
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (E.NONE, 1, "", [])
    # It has a rebalance timeout for its SyncGroup, and another one for the JoinGroup after that.
    timers = ("sync", "join", "rebalance")
    assert [broker.timer_in(name, "old") for name in timers] == [REBALANCE, None, None]
    broker.advance(5_000)
    assert broker.classic_sync("old", 1) == (E.NONE, {"t": [2, 3]})
    assert broker.classic_beat("old", 1) is E.REBALANCE_IN_PROGRESS
    assert [broker.timer_in(name, "old") for name in timers] == [None, REBALANCE, None]
    # It joins once more, owning only that: the new generation, and what it gave up is free.
    assert broker.classic_join("old", owned={"t": [2, 3]}).response.generation_id == 2
    assert broker.classic_sync("old", 2) == (E.NONE, {"t": [2, 3]})
    assert broker.classic_beat("old", 2) is E.NONE
    assert broker.beat("a", owned={}) == (2, {"t": [0, 1]})
    assert broker.state == "Stable"
    assert broker.commit("old", 2, {"t": {2: 5}}, version=8) == {E.NONE}
    assert broker.commit("old", 1, {"t": {0: 5}}, version=8) == {E.ILLEGAL_GENERATION}
    assert broker.fetch("old", 1) is E.ILLEGAL_GENERATION

    assert broker.leave("a") == (-1, None)

    back = broker.shard.groups["g"]
    assert (back.state, back.generation, list(back.members)) == (GroupState.PREPARING_REBALANCE, 2, ["old"])
    assert not broker.shard.consumer_groups
    assert broker.written()[-1] == "2"
    assert broker.fetch(None, -1, partitions=[2]) == [5]
    again = broker.classic_join("old", owned={"t": [2, 3]}).response
    assert (again.generation_id, again.leader) == (3, "old")


def test_what_waits_in_the_classic_group_is_told_to_ask_again():
    """11.8: parked joins get REBALANCE_IN_PROGRESS; a group in its first join phase is upgraded, too."""
    broker = Mixed()
    waiting = broker.classic_join(new_id="old")
    assert waiting.response is None
    assert broker.join("a").error is E.NONE
    assert waiting.response.error_code == E.REBALANCE_IN_PROGRESS
    assert set(broker.group.members) == {"old", "a"}
    assert ("join", "g") not in broker.timers
    assert broker.timer_in("heartbeat", "old") == CLASSIC_SESSION


def test_a_refused_upgrade_leaves_the_classic_group_and_who_waits_in_it():
    """D3."""
    broker = Mixed()
    waiting = broker.classic_join(new_id="old")
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert broker.join("a") == E.NOT_COORDINATOR
    assert waiting.response is None
    assert broker.shard.groups["g"].state is GroupState.PREPARING_REBALANCE
    broker.advance(60_000)
    assert waiting.response.error_code == E.NONE


def test_a_refused_upgrade_leaves_time_to_those_who_have_not_synced():
    """D3."""
    broker = Mixed()
    for name in ("old", "late"):
        broker.classic_join(new_id=name)
    broker.advance(6_000)
    broker.classic_sync("old", 1, {"old": assignment({"t": [0]})})
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert broker.join("a") == E.NOT_COORDINATOR
    assert [member.member_id for member in broker.shard.groups["g"].pending_sync()] == ["late"]
    assert ("sync", "g") in broker.timers
    broker.classic_sync("late", 1)
    assert ("sync", "g") not in broker.timers
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert broker.join("a") == E.NOT_COORDINATOR
    assert ("sync", "g") not in broker.timers


def test_k66_a_custom_assignor_s_group_stays_classic():
    """K66: its user data would be lost."""
    broker = Mixed()
    broker.classic_group("old", user_data=b"mine")
    answer = broker.join("a")
    assert answer == E.GROUP_ID_NOT_FOUND
    assert "assignor" in (answer.message or "")
    assert set(broker.shard.groups) == {"g"}


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades", "classic_joins"),
    [
        ("bidirectional", True, True, True),
        ("upgrade", True, False, True),
        ("downgrade", False, True, True),
        ("disabled", False, False, False),
    ],
)
def test_k67_the_policy_says_who_may_move(policy: str, upgrades: bool, downgrades: bool, classic_joins: bool):
    """K67: all four values."""
    broker = Mixed(migration_policy=policy)
    broker.classic_group("old")
    answer = broker.join("a")
    assert (answer.error is E.NONE) == upgrades
    if not upgrades:
        assert answer.error is E.GROUP_ID_NOT_FOUND

    other = Mixed(migration_policy=policy)
    other.stable("a")
    joined = other.classic_join(new_id="old").response
    assert (joined.error_code == E.NONE) == classic_joins
    if not classic_joins:
        assert (joined.error_code, joined.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")
        return
    other.leave("a")
    assert (set(other.shard.groups) == {"g"}) == downgrades
    if not downgrades:
        assert set(other.group.members) == {"old"}


def test_classic_members_without_a_downgrade_share_what_the_last_of_the_new_protocol_had():
    """K67: nobody is left whose heartbeat finds a target, so they are asked to join again."""
    broker = Mixed(migration_policy="upgrade")
    broker.stable("a")
    broker.classic_join(new_id="old")
    broker.advance(5_000)
    broker.classic_sync("old", broker.group.members["old"].epoch)
    broker.leave("a")
    assert broker.group.epoch > broker.group.target_epoch
    assert broker.classic_beat("old", broker.group.members["old"].epoch) is E.REBALANCE_IN_PROGRESS
    broker.advance(5_000)
    generation = broker.classic_join("old").response.generation_id
    assert generation == broker.group.epoch == broker.group.target_epoch
    assert broker.classic_beat("old", generation) is E.NONE


def test_classic_members_without_a_downgrade_find_new_partitions():
    """K67: nobody is left whose heartbeat looks at the topics, so theirs does, and they are asked to join again."""
    broker = Mixed({"t": 2}, migration_policy="upgrade")
    broker.stable("a")
    broker.classic_join(new_id="old")
    broker.leave("a")
    broker.advance(5_000)
    generation = broker.classic_join("old").response.generation_id
    assert broker.classic_sync("old", generation) == (E.NONE, {"t": [0, 1]})
    assert broker.classic_beat("old", generation) is E.NONE
    broker.with_topics({"t": 3})
    assert broker.classic_beat("old", generation) is E.REBALANCE_IN_PROGRESS
    broker.advance(5_000)
    generation = broker.classic_join("old", owned={"t": [0, 1]}).response.generation_id
    assert broker.classic_sync("old", generation) == (E.NONE, {"t": [0, 1, 2]})
    assert broker.classic_beat("old", generation) is E.NONE


def test_an_upgrade_by_a_static_member_in_the_middle_of_a_rebalance_raises_the_epoch():
    """11.8: what the members have is of before the rebalance, and those who joined in it have nothing."""
    broker = Mixed()
    broker.classic_join(new_id="old", instance_id="i")
    broker.advance(6_000)
    broker.classic_sync("old", 1, {"old": assignment({"t": [0, 1, 2, 3]})})
    broker.classic_join(new_id="late")
    assert broker.shard.groups["g"].state is GroupState.PREPARING_REBALANCE

    assert broker.join("new", instance_id="i").epoch == broker.group.epoch == broker.group.target_epoch == 2

    broker.classic_beat("late", broker.group.members["late"].epoch)
    broker.classic_join("late", owned={})
    broker.settle("new")
    broker.classic_join("late", owned={})
    assert broker.held("new").keys() == broker.held("late").keys() == {"t"}


def test_an_upgrade_by_a_static_member_deals_out_partitions_that_the_topic_got_meanwhile():
    """11.8: the leader of the classic group had not seen them, and now nobody else would."""
    broker = Mixed()
    broker.classic_join(new_id="old", instance_id="i")
    broker.advance(6_000)
    broker.classic_sync("old", 1, {"old": assignment({"t": [0, 1, 2, 3]})})
    broker.with_topics({"t": 6})

    assert broker.join("new", instance_id="i").epoch == broker.group.epoch == 2

    assert broker.held("new") == {"t": [0, 1, 2, 3, 4, 5]}


def test_a_classic_member_joins_a_consumer_group():
    """11.8: it needs an id first, and a protocol that the other classic members have."""
    broker = Mixed()
    broker.stable("a")
    asked = broker.classic_join(version=4, new_id="id").response
    assert (asked.error_code, asked.member_id) == (E.MEMBER_ID_REQUIRED, "id")
    assert set(broker.group.members) == {"a"}
    assert broker.classic_join("id", version=4).response.generation_id == 3
    assert broker.classic_join(protocols=("other",), new_id="x").response.error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert broker.classic_join("id", protocols=("other", "range")).response.error_code == E.NONE
    assert broker.classic_join("nobody", instance_id="i").response.error_code == E.UNKNOWN_MEMBER_ID
    assert broker.classic_sync("a", 3)[0] is E.UNKNOWN_MEMBER_ID
    assert broker.classic_beat("id", 9) is E.ILLEGAL_GENERATION
    assert broker.classic_beat("nobody", 3) is E.UNKNOWN_MEMBER_ID


def test_k72_who_does_not_join_again_or_does_not_sync_is_removed():
    """K72: within its rebalance timeout; the join timer is not set anew by each heartbeat."""
    broker = Mixed(session_timeout_ms=1_000_000)
    broker.stable("a")
    broker.classic_join(new_id="old")
    for _ in range(5):
        broker.advance(5_999)
        broker.classic_beat("old", 3)
    assert "old" in broker.group.members
    broker.advance(5)
    assert set(broker.group.members) == {"a"}  # it never asked for its assignment

    broker.classic_join(new_id="late")
    broker.beat("a", owned=broker.held("a"))
    broker.beat("a", owned=broker.held("a"))
    epoch = broker.member("late").epoch
    broker.classic_sync("late", epoch)
    broker.join("b")
    for _ in range(5):
        assert broker.classic_beat("late", epoch) is E.REBALANCE_IN_PROGRESS
        broker.advance(5_999)
    assert "late" in broker.group.members
    broker.advance(5)
    assert "late" not in broker.group.members


def test_k40_a_new_process_takes_a_classic_static_member_s_place_at_once():
    """K40."""
    broker = Mixed()
    broker.stable("a")
    broker.classic_join(instance_id="i", new_id="old")
    assert broker.join("b", instance_id="i").error is E.NONE
    assert broker.group.static_members == {"i": "b"}
    assert broker.group.classic_count == 0


def test_k69_a_classic_static_process_replaces_the_only_member_of_the_new_protocol():
    """K69: target up to date: a Stable classic group, no rebalance, the predecessor's partitions."""
    broker = Mixed()
    broker.stable("a", instance_id="i")
    broker.leave("a", "i", epoch=-2)
    joined = broker.classic_join(instance_id="i", new_id="old").response
    assert (joined.error_code, joined.generation_id, joined.member_id) == (E.NONE, 2, "old")
    group = broker.shard.groups["g"]
    assert group.state is GroupState.STABLE
    assert assigned_partitions(group.members["old"].assignment) == {("t", number) for number in range(4)}
    assert broker.classic_sync("old", 2) == (E.NONE, {"t": [0, 1, 2, 3]})
    assert broker.classic_beat("old", 2) is E.NONE


def _about_to_be_classic(*, settled: bool) -> Mixed:
    """Two members: `x` of the classic protocol, and of the new one `a`, which has the instance id `i` and is away."""
    broker = Mixed()
    broker.stable("a", instance_id="i")
    broker.classic_join("x", new_id="x", owned={})
    broker.beat("a", owned=broker.held("a"))
    if settled:
        broker.beat("a", owned=broker.held("a"))
        broker.classic_join("x", owned={})
        broker.classic_sync("x", broker.member("x").epoch)
    broker.leave("a", "i", epoch=-2)
    return broker


@pytest.mark.parametrize(
    ("settled", "topics", "rebalances"), [(True, ["t"], False), (False, ["t"], True), (True, ["t", "u"], True)]
)
def test_who_replaces_the_last_of_the_new_protocol_has_all_join_again_if_somebody_waits(
    settled: bool, topics: list[str], rebalances: bool
):
    """K69: somebody has not come to the target yet, or the newcomer reads other topics than its predecessor."""
    broker = _about_to_be_classic(settled=settled)
    joined = broker.classic_join(instance_id="i", new_id="b", topics=topics)
    group = broker.shard.groups["g"]
    assert (group.state is GroupState.PREPARING_REBALANCE, not joined.responses) == (rebalances, rebalances)
    if rebalances:
        assert group.members["b"].joined_at_ms == broker.now_ms
        [began] = [
            event.facts
            for event in broker.events
            if event.kind == "rebalance_began" and not event.facts.get("group_type")
        ]
        told = {"trigger": "migrated", "old": "consumer", "new": "classic", "because": "static_replaced"}
        assert {name: began[name] for name in told} == told
    # A crash does not leave them waiting: who has not got what the record would say is not in it.
    assert broker.loaded().groups["g"].members.keys() == ((set()) if rebalances else {"x", "b"})


def test_who_waits_in_a_downgrade_that_is_refused_is_told_once():
    """D3: its JoinGroup is parked in the classic group that does not come to be."""
    broker = _about_to_be_classic(settled=False)
    broker.fail_appends(E.NOT_ENOUGH_REPLICAS)
    joined = broker.classic_join(instance_id="i", new_id="b")
    assert joined.response.error_code == E.COORDINATOR_NOT_AVAILABLE
    assert len(joined.responses) == 1
    assert set(broker.group.members) == {"a", "x"}


@pytest.mark.parametrize("lives", [False, True])
def test_a_classic_group_that_lives_is_not_taken_back_with_its_first_record(lives: bool):
    """A consumer group without members became a classic one, which may have been through a join phase meanwhile."""
    broker = Mixed()
    broker.stable("a")
    broker.leave("a")
    before = broker.group
    waits = broker.classic_join(new_id="x")
    if lives:
        broker.advance(6_000)
    classic_group = broker.shard.groups["g"]
    token = ClassicAgain("g", before, NewGroupToken("g", ()))

    refused = broker.shard.handle(AppendFailed("g", token, E.KAFKA_STORAGE_ERROR), broker.now_ms)
    assert refused.after is (classic_group if lives else before)
    assert [reply.to for reply in refused.replies] == ([] if lives else [waits])


@pytest.mark.parametrize(("version", "answered"), [(0, 0), (3, 3), (4, 3)])
def test_a_classic_member_is_assigned_in_its_own_version_up_to_the_last_that_kafka_knows(version: int, answered: int):
    """In a consumer group, and in the classic one that it becomes."""
    broker = Mixed()
    broker.stable("a")
    request = Request()
    protocols = (("range", said(version=version) + struct.pack(">ih", -1, -1)),)
    broker.feed(
        classic.Join(
            "g", "", None, "consumer", protocols, CLASSIC_SESSION, REBALANCE, 3, "x", "c", "/127.0.0.1", request
        )
    )
    answer = broker.ask(classic.Sync("g", "x", None, request.response.generation_id, None, None, [], 4, None))
    assert struct.unpack_from(">h", answer.assignment) == (answered,)
    broker.leave("a")
    assert struct.unpack_from(">h", broker.shard.groups["g"].members["x"].assignment) == (answered,)


def test_a_member_changes_its_protocol_in_place():
    """11.8: by a heartbeat with epoch 0, and back by JoinGroup."""
    broker = Mixed()
    broker.stable("a")
    broker.classic_join("x", new_id="x")
    assert broker.member("x").classic is not None
    broker.join("x")
    assert broker.member("x").classic is None
    broker.classic_join("x")
    assert broker.member("x").classic is not None
    assert broker.group.classic_count == 1


def test_a_refused_downgrade_leaves_the_consumer_group():
    """D3: and every timer of it."""
    broker = Mixed()
    broker.classic_group("old")
    broker.join("a")
    before = broker.group.epoch
    broker.fail_appends(E.NOT_ENOUGH_REPLICAS)
    assert broker.leave("a") == E.COORDINATOR_NOT_AVAILABLE
    assert set(broker.group.members) == {"old", "a"}
    assert broker.group.epoch == before
    assert broker.timer_in("heartbeat", "a") is not None


def test_a_group_too_large_to_be_classic_is_not_downgraded():
    """11.8: `group.max.size`."""
    broker = Mixed(group_settings=GroupSettings(max_size=1))
    broker.stable("a")
    for name in ("x", "y"):
        broker.classic_join(name, new_id=name)
    broker.leave("a")
    assert set(broker.group.members) == {"x", "y"}
    broker.leave_group(("y", None))
    assert set(broker.shard.groups) == {"g"}


def test_what_becomes_of_a_classic_plan_is_nothing_to_the_consumer_group_of_today():
    """A leader's plan was on its way to the disk when a member of the new protocol came: the group is that one's."""
    broker = Mixed({"t": 2})
    broker.join("a", ["t"])
    group = broker.group
    leader = Member("c", None, "c", "/127.0.0.1", REBALANCE, CLASSIC_SESSION, "consumer", (("range", said()),))
    token = AssignmentToken("g", 1, leader, {"c": b""})
    late = AppendFailed("g", token, E.REQUEST_TIMED_OUT)
    for outcome in (broker.shard.handle(Appended("g", token), 1), broker.shard.handle(late, 1)):
        assert outcome.after is group
        assert not outcome.records and not outcome.replies


GARBAGE = (("range", b"\0"),)
OTHER = (("other", b"\0"),)  # what nobody here speaks, and cannot be read
STATIC = {"member_id": "x", "instance_id": "i", "protocols": GARBAGE}
REFUSED: dict[str, tuple[ErrorCode, dict[str, Any]]] = {  # wrong in this way and in all that are looked at after it
    "session timeout": (E.INVALID_SESSION_TIMEOUT, {"session_ms": 1, "protocols": OTHER, "full": True}),
    "policy": (E.INCONSISTENT_GROUP_PROTOCOL, {"policy": "disabled", "full": True}),
    "a full group": (E.GROUP_MAX_SIZE_REACHED, {"protocols": OTHER, "full": True}),
    "protocols": (E.INCONSISTENT_GROUP_PROTOCOL, {"protocols": OTHER}),
    "no id": (E.MEMBER_ID_REQUIRED, {"protocols": GARBAGE}),
    "a fenced static member": (E.FENCED_INSTANCE_ID, STATIC),
    "an unknown static member": (E.UNKNOWN_MEMBER_ID, {**STATIC, "instance_id": "nobody's"}),
    "the subscription": (E.INCONSISTENT_GROUP_PROTOCOL, {"protocols": GARBAGE, "version": 3}),
}


@pytest.mark.parametrize("first", REFUSED)
def test_a_join_that_is_wrong_in_several_ways_hears_of_what_kafka_looks_at_first(first: str) -> None:
    """GroupMetadataManager.classicGroupJoinToConsumerGroup, in the order of its checks."""
    code, wrong = REFUSED[first]
    broker = Mixed()
    broker.stable("a")
    broker.join("s", instance_id="i")
    broker.classic_join(new_id="c")
    broker.settings = altered(
        broker.settings,
        max_size=3 if wrong.get("full") else 9,
        migration_policy=wrong.get("policy", broker.settings.migration_policy),
    )
    broker.shard.configured("g")
    request, before = Request(), broker.group
    broker.feed(
        classic.Join(
            "g",
            wrong.get("member_id", ""),
            wrong.get("instance_id"),
            "consumer",
            wrong.get("protocols", GARBAGE),
            wrong.get("session_ms", CLASSIC_SESSION),
            REBALANCE,
            wrong.get("version", 9),
            "new",
            "c",
            "/127.0.0.1",
            request,
        )
    )
    assert request.response.error_code == code
    assert broker.group is before
