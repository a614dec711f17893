"""A member on its way from what it owns to what it shall own. Ids are those of docs/scenarios."""

from __future__ import annotations

from coordinator.values import altered
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import REBALANCE, Driver, tid

E = ErrorCode
ALL = {"t": [0, 1, 2, 3]}


def two(**settings: object) -> Driver:
    """A owns everything, and B has just come."""
    broker = Driver(**settings)
    broker.stable("a")
    assert broker.join("b") == (3, {})
    return broker


def test_the_worked_example():
    """A reconciliation, step by step: K02, K03, K27, K28, K29, K33 in one history."""
    broker = two()
    assert broker.member("b").state == 2
    assert broker.beat("a") == (2, {"t": [0, 1]})
    assert (broker.pending("a"), broker.timer_in("rebalance", "a")) == ({"t": [2, 3]}, REBALANCE)
    batches = len(broker.log)
    assert broker.beat("a", owned=ALL) == (2, None)
    assert len(broker.log) == batches
    assert broker.beat("b") == (3, None)
    assert broker.beat("a", owned={"t": [0, 1]}) == (3, None)
    assert broker.timer_in("rebalance", "a") is None
    assert broker.beat("b") == (3, {"t": [2, 3]})
    assert broker.state == "Stable"
    assert broker.beat("a", 2, owned={"t": [0, 1]}) == (3, None)
    assert broker.beat("a", 2) == E.FENCED_MEMBER_EPOCH
    assert broker.join("a") == (3, {"t": [0, 1]})


def test_k02_of_three_the_third_gets_what_the_others_no_longer_report():
    """K02."""
    broker = Driver({"t": 6})
    broker.stable("a", "b")
    broker.join("c")
    assert broker.beat("a", owned=broker.held("a")) == (3, {"t": [0, 1]})
    assert broker.beat("c", owned={}) == (4, None)
    assert broker.beat("a", owned={"t": [0, 1]}) == (4, None)
    # What was a's is b's now, and what was b's is c's.
    assert broker.beat("b", owned={"t": [3, 4, 5]}) == (3, {"t": [3]})
    assert broker.beat("c", owned={}) == (4, None)
    assert broker.beat("b", owned={"t": [3]}) == (4, {"t": [2, 3]})
    assert broker.beat("c", owned={}) == (4, {"t": [4, 5]})
    assert broker.state == "Stable"


def test_k28_the_rebalance_timer_runs_on_while_nothing_is_given_up():
    """K28, K04, K34: it fires at the epoch that it was set for."""
    broker = two()
    broker.beat("a", owned=ALL)
    for _ in range(3):
        broker.advance(5_000)
        broker.beat("a")
        broker.beat("a", owned={"t": [0, 3]})
    assert broker.timer_in("rebalance", "a") == REBALANCE - 15_000

    broker.advance(15_000)

    assert set(broker.group.members) == {"b"}
    assert broker.written() == ["-8", "-7", "-5", "3"]
    assert broker.group.epoch == 4
    assert broker.beat("b", owned={}) == (4, ALL)
    assert broker.heartbeat("a", 2) == E.UNKNOWN_MEMBER_ID


def test_k34_a_rebalance_timer_of_an_older_epoch_does_nothing():
    """K34."""
    from coordinator.consumer.inputs import RebalanceTimedOut

    broker = two()
    broker.beat("a", owned=ALL)
    broker.feed(RebalanceTimedOut("g", "a", 1))
    broker.feed(RebalanceTimedOut("g", "nobody", 2))
    broker.feed(RebalanceTimedOut("other", "a", 2))
    assert set(broker.group.members) == {"a", "b"}


def test_k30_what_was_to_be_given_up_comes_back_with_a_new_target():
    """K30: it is assigned again in the heartbeat that says it is given up."""
    broker = two()
    broker.beat("a", owned=ALL)
    assert broker.pending("a") == {"t": [2, 3]}
    broker.dealer.plan = {"a": {"t": [0, 1, 2]}, "b": {"t": [3]}}
    broker.with_topics({"t": 5})
    broker.beat("b")
    assert broker.group.target_epoch == 4

    assert broker.beat("a", owned={"t": [0, 1, 3]}) == (2, None)
    assert broker.beat("a", owned={"t": [0, 1]}) == (4, {"t": [0, 1, 2]})

    assert broker.member("a").assigned[tid("t")] == {0: 2, 1: 2, 2: 4}


def test_k31_who_waits_for_what_a_new_target_gives_to_others_waits_no_more():
    """K31."""
    broker = two()
    broker.dealer.plan = {"a": ALL, "b": {}}
    broker.with_topics({"t": 5})
    assert broker.beat("b") == (4, None)
    assert (broker.member("b").state, broker.held("b")) == (0, {})


def test_k32_a_dropped_topic_is_given_up_although_the_target_stays():
    """K32: the epoch stays; what the member no longer owns is dropped at once."""
    broker = Driver({"t": 2, "u": 2}, interval_ms=1_000)
    broker.join("a", ["t", "u"])
    broker.join("b", [])

    answer = broker.beat("a", names=["t"], owned={"t": [0, 1], "u": [0, 1]})

    assert answer == (2, {"t": [0, 1]})
    assert (broker.pending("a"), broker.member("a").state) == ({"u": [0, 1]}, 1)
    assert broker.state == "Assigning"

    other = Driver({"t": 2, "u": 2}, interval_ms=1_000)
    other.join("a", ["t", "u"])
    assert other.beat("a", names=["t"], owned={"t": [0, 1]}) == (2, {"t": [0, 1]})
    assert (other.pending("a"), other.member("a").state) == ({}, 0)


def test_k33_a_fruitless_heartbeat_writes_once_more_and_then_nothing():
    """K33: the previous epoch becomes the epoch."""
    broker = two()
    batches = len(broker.log)
    broker.beat("b")
    assert (broker.member("b").previous_epoch, len(broker.log)) == (3, batches + 1)
    broker.beat("b")
    assert len(broker.log) == batches + 1


def test_k35_a_state_of_a_later_version_must_give_everything_up():
    """K35."""
    from coordinator.consumer.records import current_record

    broker = Driver()
    broker.stable("a")
    broker.log.append([current_record("g", altered(broker.member("a"), state=9))])
    broker.reload()
    assert broker.beat("a") == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", owned=ALL) == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", owned={}) == (2, None)
    assert broker.member("a").state == 0


def test_k24_a_target_is_computed_once_in_an_interval():
    """K24: who comes in between gets the old epoch and nothing; the first heartbeat after it computes for all."""
    broker = Driver(interval_ms=1_000)
    broker.join("a")
    broker.advance(500)
    assert broker.join("b") == (2, {})
    assert broker.state == "Assigning"
    broker.advance(499)
    assert broker.beat("a", owned=ALL) == (2, None)
    broker.advance(1)
    assert broker.beat("a", owned=ALL) == (2, {"t": [0, 1]})
    assert broker.group.target_epoch == 3


def test_k25_many_joins_in_an_interval_are_one_target():
    """K25: at the last group epoch."""
    broker = Driver(interval_ms=1_000)
    broker.join("a")
    for member in "bcdef":
        broker.join(member)
    assert broker.dealer.asked == 1
    broker.advance(1_000)
    broker.beat("c")
    assert (broker.dealer.asked, broker.group.target_epoch, broker.group.epoch) == (2, 7, 7)


def test_k26_without_an_interval_each_join_computes():
    """K26."""
    assert two().group.target_epoch == 3


def test_k57_most_votes_win_and_nobody_s_is_the_first_of_the_settings():
    """K57."""
    broker = Driver()
    broker.join("a", assignor="range")
    broker.join("b", assignor="range")
    broker.join("c", assignor="uniform")
    assert (broker.dealer.asked, broker.other_dealer.asked) == (0, 3)
    other = Driver()
    other.join("a")
    assert (other.dealer.asked, other.other_dealer.asked) == (1, 0)


def test_an_assignor_is_told_who_subscribes_to_what_exists_and_what_they_shall_own_now():
    """11.4: existing topics only, and the target so far."""
    from coordinator.consumer.target import assignment_spec

    broker = Driver({"t": 2, "u": 1})
    broker.join("a", ["t", "u", "gone"], rack_id="r1")
    broker.join("b", ["t"], instance_id="i")
    spec = assignment_spec(broker.group, broker.topics, "r")
    assert set(spec.topics) == {tid("t"), tid("u")}
    assert spec.topics[tid("t")].partition_count == 2
    assert spec.topics[tid("t")].racks == (frozenset({"r"}),) * 2
    a, b = spec.members["a"], spec.members["b"]
    assert (a.topic_ids, a.rack_id, a.target) == ({tid("t"), tid("u")}, "r1", {tid("t"): (0,), tid("u"): (0,)})
    assert (b.topic_ids, b.instance_id) == ({tid("t")}, "i")
    assert not spec.homogeneous


def test_a_large_group_is_computed_beside_the_loop():
    """The heartbeat that finds the target missing does not wait for it; who leaves meanwhile gets nothing of it."""
    broker = Driver({"t": 3_000})
    broker.hold_tasks()
    assert broker.join("a") == (1, {})
    assert broker.join("b") == (1, {})
    assert len(broker.tasks) == 1
    broker.run_tasks()
    assert (broker.group.target_epoch, broker.group.epoch) == (2, 3)
    broker.hold_tasks()
    assert broker.beat("b").epoch == 2
    assert len(broker.tasks) == 1
    broker.leave("a")
    broker.run_tasks()
    assert broker.group.target_epoch == 3
    broker.settle()
    assert len(broker.held("b")["t"]) == 3_000


def test_an_assignor_that_fails_beside_the_loop_is_asked_again():
    """11.4: nothing is written."""
    from coordinator.consumer.inputs import ComputeTarget, TargetComputed

    broker = Driver({"t": 3_000})
    broker.hold_tasks()
    broker.join("a")
    task = broker.tasks.pop()
    assert isinstance(task, ComputeTarget)
    broker.feed(TargetComputed("g", task.epoch, task.spec, None))
    assert broker.group.target_epoch == 1
    broker.beat("a")
    broker.run_tasks()
    assert broker.group.target_epoch == 2
