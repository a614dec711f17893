"""Every rebalance says why it began, how long its phases took and who was waited for (ledger 3, 4)."""

from __future__ import annotations

import pytest

from coordinator.cause import CLASSIC_TRIGGERS, FURTHER_CAUSES_MAX
from coordinator.classic.inputs import GroupLoaded, Leaver
from coordinator.loaded_records import group_of
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.records.consumer_protocol import (
    MetadataError,
    assigned_partitions,
    owned_partitions,
    subscribed_topics,
)
from tests.coordinator.driver import REBALANCE, SESSION, D, Driver, Topics
from tests.support.consumer_protocol import assignment, subscription

COOPERATIVE = "cooperative-sticky"


def offer(metadata: bytes, name: str = "range") -> tuple[tuple[str, bytes], ...]:
    return ((name, metadata),)


def test_metadata_is_read_as_clients_write_it():
    """3.5: version 0's layout reads the beginning of every version."""
    metadata = subscription("t1", "t2", owned={"t1": [0, 2]})

    assert subscribed_topics(metadata) == ["t1", "t2"]
    assert owned_partitions(metadata) == {("t1", 0), ("t1", 2)}
    assert owned_partitions(subscription("t1")) is None
    assert assigned_partitions(assignment({"t": [1]})) == {("t", 1)}
    assert assigned_partitions(b"") == frozenset()


@pytest.mark.parametrize("length", range(len(subscription("t1", owned={"t1": [0]}))))
def test_cut_metadata_is_an_error_and_nothing_else(length):
    """Bytes of clients: every length is checked."""
    with pytest.raises(MetadataError):
        owned_partitions(subscription("t1", owned={"t1": [0]})[:length])


def test_a_group_whose_metadata_cannot_be_read_has_unknown_topics():
    """3.5: null if any parse fails, or for another protocol type; the union otherwise; empty when Empty."""
    broker = Driver()
    [a] = broker.stable_group("a", protocols=offer(subscription("t1", "t2")))
    assert broker.live.subscribed_topics == {"t1", "t2"}
    broker.leave(a)
    assert broker.live.subscribed_topics == frozenset()

    broker = Driver()
    broker.stable_group("a", protocols=offer(b"m"))
    assert broker.live.subscribed_topics is None

    broker = Driver()
    broker.stable_group("a", protocols=offer(subscription("t1")), protocol_type="connect")
    assert broker.live.subscribed_topics is None


def test_rl01_the_first_member_of_a_group():
    """RL01: began by member_joined, ended 0 -> 1 stable. RL22: the join that got a member id is no cause. RL25: the
    initial delay is the setting, nobody was waited for."""
    broker = Driver()
    broker.join(broker.join(client_id="a").response.member_id, client_id="a")
    member_id = next(iter(broker.live.members))
    broker.advance(D)
    broker.sync(member_id, 1, {})

    began, ended = broker.last("rebalance_began").facts, broker.last("rebalance_ended").facts
    assert broker.kinds().count("rebalance_began") == 1
    assert (began["trigger"], began["client_id"], began["state_before"]) == ("member_joined", "a", "Empty")
    assert (ended["outcome"], ended["from_generation"], ended["to_generation"]) == ("stable", 0, 1)
    assert (ended["duration_ms"], ended["join_ms"], ended["initial_delay_ms"]) == (D, D, D)
    assert (ended["assign_ms"], ended["sync_ms"], ended["slowest_to_join"]) == (0, 0, None)
    assert ended["rebalance_id"] == began["rebalance_id"]


def test_rl02_a_member_that_leaves_with_a_reason():
    """RL02: 1 -> 2, first cause member_left with its text."""
    broker = Driver()
    a, b = broker.stable_group("a", "b")
    broker.leave(Leaver(b, reason="shutting down"))
    broker.join(a)
    broker.sync(a, 2, {})

    ended = broker.last("rebalance_ended")
    assert (ended.facts["trigger"], ended.facts["client_id"], ended.facts["reason"]) == (
        "member_left",
        "b",
        "shutting down",
    )
    assert ended.rebalance is not None
    assert [(member.member_id, change) for member, change in ended.rebalance.departed] == [(b, "left")]
    assert set(ended.rebalance.members_before) == {a, b}


@pytest.mark.parametrize(
    ("reason", "trigger"),
    [
        ("consumer poll timeout has expired.", "poll_timeout"),
        ("max.poll.interval.ms exceeded", "poll_timeout"),
        ("the consumer is being closed", "member_left"),
        (None, "member_left"),
    ],
)
def test_rl23_a_reason_may_tell_that_polling_was_too_slow(reason, trigger):
    """RL23"""
    broker = Driver()
    _, b = broker.stable_group("a", "b")

    broker.leave(Leaver(b, reason=reason))

    assert broker.last("rebalance_began").facts["trigger"] == trigger


def test_rl04_who_leaves_while_others_are_awaited_is_a_further_cause():
    """RL04"""
    broker = Driver()
    a, b, c = broker.stable_group("a", "b", "c")
    broker.leave(c)
    broker.leave(a)
    broker.join(b)
    broker.sync(b, 2, {})

    ended = broker.last("rebalance_ended")
    assert broker.kinds().count("rebalance_began") == 1
    assert ended.facts["client_id"] == "c"
    assert ended.rebalance is not None
    assert [(cause.trigger, cause.member_id) for cause in ended.rebalance.further_causes] == [("member_left", a)]


def test_rl05_who_does_not_rejoin_in_time():
    """RL05: join_timeout as a further cause, slowest_to_join null, change expired."""
    broker = Driver()
    a, b = broker.stable_group("a", "b", session_timeout_ms=60_000)
    broker.join(a)
    broker.advance(REBALANCE)
    broker.sync(a, 2, {})

    ended = broker.last("rebalance_ended")
    assert ended.facts["slowest_to_join"] is None
    assert ended.rebalance is not None
    assert [cause.trigger for cause in ended.rebalance.further_causes] == ["join_timeout"]
    assert [(member.member_id, change) for member, change in ended.rebalance.departed] == [(b, "expired")]


def test_rl06_who_never_syncs_supersedes_the_rebalance():
    """RL06"""
    broker = Driver()
    a, _ = broker.completing_group("a", "b", session_timeout_ms=60_000)
    broker.sync(a, 1, {})
    broker.advance(REBALANCE)

    began, ended = broker.last("rebalance_began"), broker.last("rebalance_ended")
    assert (began.facts["trigger"], began.facts["client_id"]) == ("sync_timeout", "b")
    assert (ended.facts["outcome"], ended.facts["by"]) == ("superseded", began.facts["rebalance_id"])


def test_rl07_rl08_the_phases_and_the_slowest_are_told():
    """RL07: who answered the rebalance after 3 s. RL08: a leader that plans for 2 s."""
    broker = Driver()
    a, b, c = broker.stable_group("a", "b", "c")
    broker.join(a)
    broker.join(c)
    broker.advance(3_000)
    broker.join(b)
    broker.advance(2_000)
    broker.sync(a, 2, {})
    broker.sync(b, 2)
    broker.advance(500)
    broker.sync(c, 2)

    facts = broker.last("rebalance_ended").facts
    spans = [facts[name] for name in ("join_ms", "assign_ms", "sync_ms", "duration_ms", "initial_delay_ms")]
    assert spans == [3_000, 2_000, 500, 5_500, 0]
    assert (facts["slowest_to_join"]["client_id"], facts["slowest_to_join"]["after_ms"]) == ("b", 3_000)
    assert (facts["slowest_to_sync"]["client_id"], facts["slowest_to_sync"]["after_ms"]) == ("c", 500)
    assert (facts["protocol"], facts["mode"], facts["leader"], facts["leader_changed"]) == ("range", "eager", a, False)


def test_who_asks_for_its_assignment_again_is_not_the_slowest():
    """RL07: the answer may have been lost; what counts is when it came first."""
    broker = Driver()
    a, b, c = broker.completing_group("a", "b", "c")
    broker.sync(a, 1, {})
    broker.advance(1_000)
    broker.sync(b, 1)
    broker.advance(3_000)
    broker.sync(b, 1)
    broker.sync(c, 1)

    facts = broker.last("rebalance_ended").facts
    assert (facts["slowest_to_sync"]["client_id"], facts["slowest_to_sync"]["after_ms"]) == ("c", 4_000)


def test_rl09_a_changed_subscription_names_the_topics():
    """RL09"""
    broker = Driver()
    _, b = broker.stable_group("a", "b", protocols=offer(subscription("t1", "t2")))

    broker.join(b, protocols=offer(subscription("t2", "t3")))

    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["topics_added"], facts["topics_removed"]) == (
        "subscription_changed",
        ["t3"],
        ["t1"],
    )


def test_a_topic_that_was_deleted_and_made_anew_is_no_topic_that_grew():
    topics = Topics({"t": 3, "u": 2})
    broker = Driver(topics=topics)
    metadata = offer(subscription("t", "u"))
    a, _ = broker.stable_group("a", "b", protocols=metadata)
    topics.partitions["t"], topics.lives["t"], topics.partitions["u"] = 1, 1, 4
    broker.join(a, protocols=metadata)

    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["topics"], facts["made_anew"]) == ("partitions_changed", {"u": (2, 4)}, ["t"])


def test_rl10_a_grown_topic_is_the_cause_once():
    """RL10: the leader comes unchanged, but a topic has other partitions than at the last assignment."""
    topics = Topics({"t": 3})
    broker = Driver(topics=topics)
    metadata = offer(subscription("t"))
    a, b = broker.stable_group("a", "b", protocols=metadata)
    topics.partitions["t"] = 6
    broker.join(a, protocols=metadata)
    broker.join(b, protocols=metadata)

    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["topics"]) == ("partitions_changed", {"t": (3, 6)})
    assert broker.live.rebalance is not None
    assert broker.live.rebalance.further_causes == ()

    broker.sync(a, 2, {})
    broker.sync(b, 2)
    broker.join(a, protocols=metadata)
    assert broker.last("rebalance_began").facts["trigger"] == "leader_rejoined"


def test_rl12_two_processes_with_one_instance_id():
    """RL12: member_fenced names who was refused and who holds it, whatever the request."""
    broker = Driver()
    a, s = broker.stable_group("a", "s", static=("s",))
    broker.join("other", instance_id="s")
    broker.heartbeat("other", 1, "s")
    broker.sync("other", 1, instance_id="s")
    broker.leave(Leaver("other", "s"))

    fenced = [event.facts for event in broker.events if event.kind == "member_fenced"]
    assert [facts["api"] for facts in fenced] == ["JoinGroup", "Heartbeat", "SyncGroup", "LeaveGroup"]
    assert {(facts["refused_member_id"], facts["holder_member_id"]) for facts in fenced} == {("other", s)}
    assert a in broker.live.members


def test_rl13_the_second_round_of_a_cooperative_protocol_follows_the_first():
    """RL13: a member comes back owning what its assignment left it."""

    def owning(*numbers: int) -> tuple[tuple[str, bytes], ...]:
        return offer(subscription("t", owned={"t": list(numbers)} if numbers else {}), COOPERATIVE)

    broker = Driver()
    [a] = broker.stable_group("a", protocols=owning())
    b = broker.join(version=3, protocols=owning(), client_id="b")
    broker.join(a, protocols=owning(0, 1, 2, 3))
    b_id = b.response.member_id
    broker.sync(a, 2, {a: assignment({"t": [0, 1]}), b_id: assignment({})})
    broker.sync(b_id, 2)
    first = broker.last("rebalance_ended").facts
    broker.join(a, protocols=owning(0, 1))

    second = broker.last("rebalance_began").facts
    assert (first["mode"], first["outcome"]) == ("cooperative", "stable")
    assert (second["trigger"], second["follows"]) == ("cooperative_followup", first["rebalance_id"])


def test_rl20_a_group_that_is_not_of_consumers_has_its_events_too():
    """RL20"""
    broker = Driver()
    a, b = broker.stable_group("a", "b", protocol_type="connect", protocols=offer(b"\x00", "sessioned"))
    broker.join(b, protocol_type="connect", protocols=(("sessioned", b"\x01"), ("default", b"")))

    facts = broker.last("rebalance_began").facts
    assert (facts["trigger"], facts["protocols_changed"]) == (
        "subscription_changed",
        [["sessioned"], ["sessioned", "default"]],
    )
    assert a in broker.live.members


def test_rl21_a_retried_join_is_no_second_cause():
    """RL21: the same member id again."""
    broker = Driver()
    broker.stable_group("a")
    pending = broker.join().response.member_id
    broker.join(pending)
    broker.join(pending)

    assert broker.live.rebalance is not None
    assert broker.live.rebalance.further_causes == ()


def test_many_causes_are_cut_and_counted():
    """Ledger 3: at most 100 further causes, then a count."""
    broker = Driver(GroupSettings(initial_rebalance_delay_ms=D))
    for _ in range(FURTHER_CAUSES_MAX + 11):
        broker.join(version=3)

    rebalance = broker.live.rebalance
    assert rebalance is not None
    assert (len(rebalance.further_causes), rebalance.further_causes_cut) == (FURTHER_CAUSES_MAX, 10)


def _stable(*clients: str, **more) -> tuple[Driver, list[str]]:
    broker = Driver()
    return broker, broker.stable_group(*clients, **more)


def _joined() -> Driver:
    broker = Driver()
    broker.join(version=3)
    return broker


def _left(reason: str | None = None, member_id: str | None = None) -> Driver:
    broker, [_, b] = _stable("a", "b", static=("b",))
    broker.leave(Leaver(b if member_id is None else member_id, "b", reason))
    return broker


def _expired() -> Driver:
    broker, _ = _stable("a")
    broker.advance(SESSION)
    return broker


def _expired_while_completing() -> Driver:
    broker = Driver()
    broker.completing_group("a", "b", session_timeout_ms=6_000)
    broker.advance(6_000)
    return broker


def _never_synced() -> Driver:
    broker = Driver()
    a, _ = broker.completing_group("a", "b", session_timeout_ms=60_000)
    broker.sync(a, 1, {})
    broker.advance(REBALANCE)
    return broker


def _never_rejoined() -> Driver:
    broker, [a, _] = _stable("a", "b", session_timeout_ms=60_000)
    broker.join(a)
    broker.advance(REBALANCE)
    return broker


def _subscribed() -> Driver:
    broker, [a, _] = _stable("a", "b", protocols=offer(subscription("t")))
    broker.join(a, protocols=offer(subscription("t", "u")))
    return broker


def _other_metadata() -> Driver:
    broker, [_, b] = _stable("a", "b", protocols=offer(subscription("t")))
    broker.join(b, protocols=offer(subscription("t") + b"more"))
    return broker


def _partitions_grew() -> Driver:
    topics = Topics({"t": 3})
    broker = Driver(topics=topics)
    a, _ = broker.stable_group("a", "b", protocols=offer(subscription("t")))
    topics.partitions["t"] = 6
    broker.join(a, protocols=offer(subscription("t")))
    return broker


def _leader_again() -> Driver:
    broker, [a, _] = _stable("a", "b")
    broker.join(a, reason="x" * 300)
    assert len(broker.last("rebalance_began").facts["reason"]) == 255
    return broker


def _replaced() -> Driver:
    broker = Driver()
    broker.completing_group("a", "s", static=("s",))
    broker.join(instance_id="s")
    return broker


def _cooperated() -> Driver:
    def owning(*numbers: int) -> tuple[tuple[str, bytes], ...]:
        return offer(subscription("t", owned={"t": list(numbers)} if numbers else {}), COOPERATIVE)

    broker, [a] = _stable("a", protocols=owning())
    b = broker.join(version=3, protocols=owning(), client_id="b")
    broker.join(a, protocols=owning(0, 1))
    broker.sync(a, 2, {a: assignment({"t": [0]}), b.response.member_id: assignment({})})
    broker.sync(b.response.member_id, 2)
    broker.join(a, protocols=owning(0))
    return broker


def _not_written() -> Driver:
    broker = Driver()
    a, _ = broker.completing_group("a", "b")
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)
    broker.sync(a, 1, {})
    return broker


def _loaded(max_size: int = 10) -> tuple[Driver, list[str]]:
    """A group of two as it is read from the log."""
    before, ids = _stable("a", "b", protocols=offer(subscription("t")))
    broker = Driver(GroupSettings(max_size=max_size))
    _, value = before.log[-1]
    broker.core.groups["g"] = group_of("g", value)
    broker.feed(GroupLoaded("g"))
    return broker, ids


def _too_large() -> Driver:
    return _loaded(max_size=1)[0]


def _restarted() -> Driver:
    broker, [a, _] = _loaded()
    broker.join(a, protocols=offer(subscription("t")))
    return broker


def _restarted_with_two_protocols() -> Driver:
    """The log holds the chosen protocol only; that a client offers more is no change of its."""
    broker, [a, _] = _loaded()
    broker.join(a, protocols=(*offer(subscription("t")), ("roundrobin", subscription("t"))))
    return broker


PATHS = [
    (_joined, "member_joined", "Empty"),
    (_left, "member_left", "Stable"),
    (lambda: _left("consumer poll timeout has expired."), "poll_timeout", "Stable"),
    (lambda: _left("member was removed by an admin"), "member_removed", "Stable"),
    (lambda: _left(member_id=""), "member_removed", "Stable"),
    (_expired, "session_expired", "Stable"),
    (_expired_while_completing, "session_expired", "CompletingRebalance"),
    (_never_synced, "sync_timeout", "Stable"),
    (_never_rejoined, "join_timeout", "PreparingRebalance"),
    (_subscribed, "subscription_changed", "Stable"),
    (_other_metadata, "subscription_changed", "Stable"),
    (_partitions_grew, "partitions_changed", "Stable"),
    (_leader_again, "leader_rejoined", "Stable"),
    (_replaced, "static_replaced", "CompletingRebalance"),
    (_cooperated, "cooperative_followup", "Stable"),
    (_not_written, "append_failed", "CompletingRebalance"),
    (_too_large, "over_capacity", "Stable"),
    (_restarted, "coordinator_restarted", "Stable"),
    (_restarted_with_two_protocols, "coordinator_restarted", "Stable"),
]


@pytest.mark.parametrize(("path", "trigger", "state"), PATHS, ids=lambda value: getattr(value, "__name__", value))
def test_every_way_into_a_rebalance_has_its_one_trigger(path, trigger, state):
    """Ledger 3: no path is unknown. (The driver holds in every test that a rebalance begins with a known cause.)"""
    broker = path()
    if trigger == "join_timeout":  # which comes to a rebalance that somebody else began
        causes = broker.live.rebalance.further_causes
        assert [cause.trigger for cause in causes] == ["join_timeout"]
        return
    began = broker.last("rebalance_began").facts
    assert (began["trigger"], began["state_before"]) == (trigger, state)


def test_every_trigger_has_a_path():
    """Ledger 3: and the other way round."""
    assert {trigger for _, trigger, _ in PATHS} == CLASSIC_TRIGGERS


def test_a_leader_that_comes_long_after_a_restart_is_not_told_as_one_of_it():
    """Ledger 3: a group that was Stable goes on; only within a rebalance timeout somebody may still be on the way."""
    broker, [a, b] = _loaded()
    for _ in range(5):
        broker.advance(8_000)
        broker.heartbeat(a, 1)
        broker.heartbeat(b, 1)
    broker.join(a, protocols=offer(subscription("t")))

    assert broker.last("rebalance_began").facts["trigger"] == "leader_rejoined"
