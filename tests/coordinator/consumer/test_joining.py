"""Members come: shape of a heartbeat, first joins, lost answers, fencing. Ids are those of docs/scenarios."""

from __future__ import annotations

import pytest

from coordinator.consumer.inputs import ConsumerHeartbeat
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import INTERVAL, REBALANCE, SESSION, Driver, Request

E = ErrorCode


def test_k01_a_first_member_is_given_an_id_epoch_2_and_everything():
    """K01: version 0, without a member id."""
    broker = Driver({"t": 4})

    answer = broker.join("", version=0)

    assert (answer.member_id, answer.interval_ms) == ("made-1", INTERVAL)
    assert answer == (2, {"t": [0, 1, 2, 3]})
    assert broker.written() == ["5", "3", "7", "6", "8"]
    assert broker.state == "Stable"
    assert broker.timer_in("heartbeat", "made-1") == SESSION


def test_k13_from_version_1_on_the_member_says_its_id():
    """K13: at any epoch."""
    broker = Driver()
    for epoch in (0, 1, -1, -2):
        assert broker.heartbeat("", epoch, owned={}, names=["t"], rebalance_timeout_ms=1) == E.INVALID_REQUEST
    assert broker.heartbeat(" ", 0, owned={}, names=["t"], rebalance_timeout_ms=1) == E.INVALID_REQUEST
    assert not broker.shard.consumer_groups


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": {"t": [0]}},
        {"owned": {"t": []}},
        {"names": None},
        {"instance_id": ""},
        {"rack_id": " "},
    ],
    ids=repr,
)
def test_k14_what_a_first_heartbeat_must_say(wrong: dict[str, object]):
    """K14: else INVALID_REQUEST, and there is no group."""
    broker = Driver()
    said = {"owned": {}, "names": ["t"], "rebalance_timeout_ms": REBALANCE, **wrong}

    assert broker.heartbeat("a", 0, **said) == E.INVALID_REQUEST

    assert not broker.shard.consumer_groups
    assert not broker.log


def test_k14_a_member_may_want_no_topics():
    """K14, K17: it joins at epoch 1 and owns nothing; no group record is written."""
    broker = Driver()

    assert broker.join("a", []) == (1, {})

    assert broker.written() == ["5", "8"]
    assert (broker.group.epoch, broker.group.target_epoch, broker.state) == (1, 1, "Stable")


def test_k15_epochs_that_are_none_and_assignors_that_are_not_there():
    """K15."""
    broker = Driver()
    assert broker.heartbeat("a", -2) == E.INVALID_REQUEST
    assert broker.heartbeat("a", -3, instance_id="i") == E.INVALID_REQUEST
    assert broker.join("a", assignor="foo") == E.UNSUPPORTED_ASSIGNOR
    assert not broker.log


def test_k16_who_is_not_there():
    """K16: an unknown group, then an unknown member."""
    broker = Driver()
    assert broker.heartbeat("a", 5) == E.GROUP_ID_NOT_FOUND
    assert broker.leave("a") == E.GROUP_ID_NOT_FOUND
    broker.stable("a")
    assert broker.heartbeat("b", 5) == E.UNKNOWN_MEMBER_ID
    assert broker.leave("b") == E.UNKNOWN_MEMBER_ID
    assert broker.leave("a", "i") == E.UNKNOWN_MEMBER_ID


def test_k17_the_first_member_with_a_topic_has_epoch_2():
    """K17: group, target and member."""
    broker = Driver()
    broker.join("a")
    assert (broker.group.epoch, broker.group.target_epoch, broker.member("a").epoch) == (2, 2, 2)


def test_k18_a_stable_member_hears_nothing_new_unless_it_tells_all():
    """K18."""
    broker = Driver()
    broker.stable("a")
    batches = len(broker.log)
    assert broker.beat("a") == (2, None)
    assert broker.beat("a", owned={"t": [0, 1, 2, 3]}) == (2, None)
    full = broker.beat("a", owned={"t": [0]}, names=["t"], rebalance_timeout_ms=REBALANCE)
    assert full == (2, {"t": [0, 1, 2, 3]})
    assert len(broker.log) == batches


def test_k19_a_full_group_takes_nobody_in():
    """K19: the member itself goes on, also by joining again."""
    broker = Driver(max_size=1)
    broker.stable("a")
    assert broker.join("b") == E.GROUP_MAX_SIZE_REACHED
    assert broker.beat("b", 2, owned={}) == E.GROUP_MAX_SIZE_REACHED  # one that was expelled, and whose place is gone
    assert broker.beat("b", 2, instance_id="i") == E.GROUP_MAX_SIZE_REACHED
    assert broker.beat("a") == (2, None)
    assert broker.join("a") == (2, {"t": [0, 1, 2, 3]})


def test_k19_a_full_group_takes_a_static_member_back_under_another_id():
    """K19: as Kafka 4.4 does, and no stranger with an instance id of its own."""
    broker = Driver(max_size=1)
    broker.join("a", instance_id="i")
    broker.beat("a", -2, instance_id="i")
    assert broker.join("b", instance_id="j") == E.GROUP_MAX_SIZE_REACHED
    assert broker.join("b", instance_id="i") == (2, {"t": [0, 1, 2, 3]})


def test_k07_a_member_that_begins_anew_is_where_it_was():
    """K07, KAFKA-19233: epoch 0 under the same id: the same epoch, the whole assignment, no bump."""
    broker = Driver()
    broker.stable("a", "b")
    for member in ("c", "d", "e"):
        broker.join(member, [])
    epochs = broker.group.epoch, broker.member("a").epoch
    assert epochs[1] > 2  # an epoch that is not its previous one either
    batches = len(broker.log)

    assert broker.join("a") == (epochs[1], {"t": [0, 1]})

    assert (broker.group.epoch, broker.member("a").epoch) == epochs
    assert len(broker.log) == batches


def test_k03_a_lost_answer_is_given_again():
    """K03, K22: the previous epoch counts with a subset of what was assigned; what is older or more is fenced."""
    broker = Driver()
    broker.stable("a")
    broker.join("b")
    assert broker.beat("a", owned={"t": [0, 1, 2, 3]}) == (2, {"t": [0, 1]})
    assert broker.beat("a", owned={"t": [0, 1]}) == (3, None)

    assert broker.beat("a", 2, owned={"t": [0, 1]}) == (3, None)
    assert broker.beat("a", 2, owned={"t": [0]}) == (3, None)
    assert broker.beat("a", 2, owned={"t": [0, 1, 2]}) == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", 2, owned={"t": [0], "u": []}) == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", 2) == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", 1, owned={}) == E.FENCED_MEMBER_EPOCH
    assert broker.beat("a", 4, owned={}) == E.FENCED_MEMBER_EPOCH
    assert broker.held("a") == {"t": [0, 1]}


def test_k23_another_address_is_written_down_and_bumps_nothing():
    """K23."""
    broker = Driver()
    broker.stable("a")
    assert broker.beat("a", client_id="other") == (2, None)
    assert broker.written() == ["5"]
    assert (broker.member("a").client_id, broker.group.epoch) == ("other", 2)


def test_k62_what_another_implementation_thought_of_the_topics_costs_one_bump():
    """K62, K58: after a load the hash is compared; if it differs, one bump and the same partitions."""
    broker = Driver()
    broker.stable("a", "b")
    before = broker.group.epoch
    broker.reload()
    broker.beat("a", owned=broker.held("a"))
    assert broker.group.epoch == before

    from coordinator.consumer.records import epoch_record

    broker.log.append([epoch_record("g", before, 12345)])
    broker.reload()
    for _ in range(3):
        for member in ("a", "b"):
            broker.beat(member, owned=broker.held(member))

    assert broker.group.epoch == before + 1
    assert (broker.held("a"), broker.held("b"), broker.state) == ({"t": [0, 1]}, {"t": [2, 3]}, "Stable")


def test_k08_new_partitions_are_dealt_out_at_the_next_heartbeat():
    """K08: of anybody."""
    broker = Driver({"t": 4, "other": 1})
    broker.stable("a", "b")
    broker.with_topics({"t": 4, "other": 2})
    epoch = broker.group.epoch
    broker.beat("a")
    assert broker.group.epoch == epoch
    broker.with_topics({"t": 6, "other": 2})

    broker.settle()

    assert (broker.held("a"), broker.held("b")) == ({"t": [0, 1, 2]}, {"t": [3, 4, 5]})
    assert broker.group.epoch == epoch + 1


def test_a_refused_join_leaves_no_group_and_is_told():
    """D3: nothing is believed that is not written."""
    broker = Driver()
    broker.fail_appends(E.NOT_ENOUGH_REPLICAS)
    assert broker.join("a") == E.COORDINATOR_NOT_AVAILABLE
    assert not broker.shard.consumer_groups
    assert broker.join("a") == (2, {"t": [0, 1, 2, 3]})


def test_a_refused_step_is_taken_back_and_can_be_taken_again():
    """D3: the member is where it was, and its rebalance timer runs."""
    broker = Driver()
    broker.stable("a")
    broker.join("b")
    broker.beat("a", owned={"t": [0, 1, 2, 3]})
    before = broker.group
    broker.fail_appends(E.KAFKA_STORAGE_ERROR)
    assert broker.beat("a", owned={"t": [0, 1]}) == E.NOT_COORDINATOR
    assert broker.group == before
    assert broker.timer_in("rebalance", "a") == REBALANCE
    assert broker.beat("a", owned={"t": [0, 1]}) == (3, None)


def test_what_is_only_late_is_not_taken_back():
    """REQUEST_TIMED_OUT: the records are in the log."""
    broker = Driver()
    broker.checks = False  # the driver's log lacks what was late
    broker.fail_appends(E.REQUEST_TIMED_OUT)
    assert broker.join("a") == E.COORDINATOR_NOT_AVAILABLE
    assert broker.held("a") == {"t": [0, 1, 2, 3]}


def test_the_assignor_is_told_who_has_only_just_come():
    """Kafka comes upon the member whose first heartbeat this is after all others: members in one bucket hang on it."""
    broker = Driver({"t": 4})
    told = []
    steps = broker.dealer.steps
    broker.dealer.steps = lambda spec: (told.append((list(spec.members), spec.newcomer)), steps(spec))[1]

    broker.join("b")
    broker.join("a", instance_id="i")
    broker.leave("a", instance_id="i", epoch=-2)
    broker.join("c", ("t", "u"), instance_id="i")
    broker.leave("b")
    broker.beat("c", instance_id="i")

    assert told == [(["b"], "b"), (["b", "a"], "a"), (["b", "c"], "c"), (["c"], None)]


@pytest.mark.parametrize("error", [E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_heartbeat_that_is_not_served_is_told_why(error):
    """What is wrong with the request itself comes first."""
    broker = Driver()
    for asked, told in (("a", error), ("", E.INVALID_REQUEST)):
        request = ConsumerHeartbeat(
            "g", asked, 0, None, None, 1_000, ("t",), None, None, {}, version=1, new_member_id="new", client_id="c",
            client_host="/h", reply_to=Request(),
        )  # fmt: skip
        assert broker.shard.unserved(request, error).response.error_code == told
