"""One partition's leader in virtual time: batches, order, refusals, failures. Ids are those of docs/scenarios."""

import pytest

from broker.coordinators.batches import LeaderState
from broker.groups.groups import expire_offsets, forget_topics
from broker.groups.tenant import GroupTenant
from broker.partitions import PartitionFailed
from coordinator.classic.inputs import Leave, Leaver
from coordinator.group import GroupState
from coordinator.load_summary import LoadSummary
from coordinator.offsets.inputs import CommitOffsets, DeleteGroup, DeleteOffsets, DescribeGroup
from coordinator.outcome import AppendFailed
from coordinator.shard import Shard
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.records.batch_encoder import encoded_pair_bytes
from protocol.records.batch_header import HEADER_BYTES, read_header
from protocol.records.batch_reader import iterate_records
from protocol.records.consumer_protocol import encode_assignment
from protocol.records.group_records import GroupMetadataKey, OffsetCommitKey
from tests.support.consumer_protocol import subscription
from tests.support.group_leader_fixture import FakePartition, Leading, committed, fetched
from tests.support.heard import Heard

DAY = 24 * 60 * 60_000


def test_all_of_one_turn_is_one_batch():
    """D4: what is handled in one turn is written together, and answered when the turn ends."""
    broker = Leading()
    answers = [broker.commit(f"g{index}", index) for index in range(50)]
    assert not any(answer.done for answer in answers)
    assert not broker.partition.log.batches

    broker.turn()

    (batch,) = broker.partition.log.batches
    header = read_header(batch)
    assert (header.record_count, header.base_sequence, header.leader_epoch) == (50, 0, 0)
    assert (header.producer_id, header.producer_epoch) == (-1, -1)
    assert header.base_timestamp == header.max_timestamp == broker.runtime.now_ms()
    assert all(committed(answer) == [0] for answer in answers)

    broker.commit("g1", 99)
    broker.turn()
    assert len(broker.partition.log.batches) == 2
    assert broker.leader.shard.offsets["g1"]["t", 0].offset == 99
    assert broker.leader.shard.offsets["g1"]["t", 0].log_offset == 50


def test_r10_an_answer_waits_for_the_records_before_it():
    broker = Leading()
    (member,) = broker.stable_group()
    broker.partition.hold = True

    commit = broker.commit("g", 5, member_id=member, generation=1)
    heartbeat = broker.heartbeat(member)
    other = broker.heartbeat("x", group_id="other")
    broker.turn()
    later = broker.heartbeat(member)
    assert not any(answer.done for answer in (commit, heartbeat, other, later))

    broker.partition.commit()

    assert committed(commit) == [0]
    assert heartbeat.response.error_code == later.response.error_code == 0
    assert other.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_answers_leave_in_the_order_of_their_requests():
    broker = Leading()
    order: list[str] = []

    class Named(Heard):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def complete(self, response: object) -> None:
            order.append(self.name)

    topics = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])]
    broker.partition.hold = True
    for name in ("a", "b", "c"):
        broker.leader.submit(CommitOffsets("g", "", None, -1, topics, 8, -1, Named(f"commit {name}")))
        broker.leader.submit(DescribeGroup("g", 5, Named(f"describe {name}")))
        broker.turn()
    broker.partition.commit()

    assert order == [f"{what} {name}" for name in ("a", "b", "c") for what in ("commit", "describe")]


def test_o12_a_fetch_sees_the_commit_before_it():
    """docs/decisions/one-state-per-shard.md: the open batch is written first, and the answer waits for it."""
    broker = Leading()
    broker.commit("g", 1)
    broker.turn()
    broker.partition.hold = True

    commit = broker.commit("g", 2)
    plain, stable = broker.fetch(), broker.fetch(stable=True)
    assert len(broker.partition.log.batches) == 2
    assert not plain.done
    assert not stable.done

    broker.partition.commit()
    assert committed(commit) == [0]
    assert fetched(plain) == fetched(stable) == [2]


def test_a_batch_is_cut_between_outcomes(monkeypatch: pytest.MonkeyPatch):
    """D4: cut at max.message.bytes, never inside an outcome."""
    broker = Leading(FakePartition(max_message_bytes=400), topics={"t": 100})
    asked = []
    soon = broker.runtime.soon
    monkeypatch.setattr(broker.runtime, "soon", lambda callback: asked.append(callback) or soon(callback))
    answers = [broker.commit("g", index, partition=index) for index in range(20)]
    assert len(asked) == 1  # for the end of the turn, of all batches
    broker.turn()

    assert all(committed(answer) == [0] for answer in answers)
    assert len(broker.partition.log.batches) > 1
    assert all(len(batch) <= 400 for batch in broker.partition.log.batches)
    assert [value.offset for _, value in broker.partition.records()] == list(range(20))


def test_a_batch_is_filled_to_the_last_byte_that_its_records_may_take():
    """A byte less, and they take one batch more; what alone is larger than that is refused."""
    measured = Leading()
    measured.commit("g", 1)
    measured.turn()
    (record,) = iterate_records(measured.partition.log.batches[0])
    size = encoded_pair_bytes(record.key, record.value)

    told = []
    for limit in (size, size - 1, 2 * size, 2 * size - 1):
        broker = Leading(FakePartition(max_message_bytes=HEADER_BYTES + limit))
        answers = [broker.commit("g", 1), broker.commit("g", 1)]
        broker.turn()
        told.append((len(broker.partition.log.batches), *[committed(answer)[0] for answer in answers]))
    too_large = ErrorCode.UNKNOWN_SERVER_ERROR
    assert told == [(2, 0, 0), (0, too_large, too_large), (1, 0, 0), (2, 0, 0)]


def test_an_outcome_too_large_for_any_batch_fails_alone():
    """D4, 2.2: too large is an unknown server error for its own request, and nothing else."""
    broker = Leading(FakePartition(max_message_bytes=400))

    before = broker.commit("g", 1)
    large = broker.commit("h", 2, metadata="x" * 1_000)
    after = broker.commit("i", 3)
    broker.turn()

    assert committed(before) == committed(after) == [0]
    assert committed(large) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert "h" not in broker.leader.shard.groups
    assert len(broker.partition.log.batches) == 1


def test_a_name_that_no_record_can_hold_fails_alone(capsys):
    """A flexible request can carry a client id of more than 32,767 bytes; a record cannot."""
    broker = Leading()
    commit = broker.commit("g" * 40_000)
    other = broker.commit("g")
    broker.turn()

    assert committed(commit) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert committed(other) == [0]
    said = capsys.readouterr().err
    assert "WARN group_record_not_encodable group_id='gggg" in said
    assert "error='a string of 40000 bytes is longer than a record can hold'" in said


def test_what_happened_where_no_record_can_say_it_is_told_once():
    """As of anything that is refused."""
    broker = Leading()
    answer = broker.consumer_heartbeat("m", 0, "g" * 40_000)
    broker.turn()

    assert answer.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [event.kind for event in broker.events].count("member_joined") == 1


def test_a_refused_batch_fails_every_commit_in_it_and_nothing_after():
    broker = Leading()
    broker.commit("g", 1)
    broker.turn()
    broker.partition.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]

    refused = [broker.commit("g", 2), broker.commit("new", 3)]
    broker.turn()
    accepted = broker.commit("g", 4, partition=1)
    broker.turn()

    assert [committed(answer) for answer in refused] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * 2
    assert committed(accepted) == [0]
    assert {key: stored.offset for key, stored in broker.leader.shard.offsets["g"].items()} == {
        ("t", 0): 1,
        ("t", 1): 4,
    }
    assert set(broker.leader.shard.groups) == {"g"}
    assert fetched(broker.fetch()) == [1]


def test_a_disk_that_refuses_is_told_once_until_it_has_taken_something(capsys):
    """A full disk refuses every batch: one line, not one for each."""
    broker = Leading()
    told = []
    for refused in (True, True, True, False, True, True):
        broker.partition.refusals = [ErrorCode.KAFKA_STORAGE_ERROR] * refused
        broker.commit("g", 1)
        broker.turn()
        told += [line for line in capsys.readouterr().err.splitlines() if "group_records_refused" in line] or [None]

    assert [line is not None for line in told] == [True, False, False, False, True, False]
    assert "ERROR group_records_refused partition=0 error=KAFKA_STORAGE_ERROR" in (told[0] or "")


def test_answers_beside_a_refused_batch_wait_for_the_batches_before_it():
    """A batch on its way to the disk may still be lost: nobody may read what is in it, refusals beside it or not."""
    broker = Leading()
    (member,) = broker.stable_group()
    broker.partition.hold = True
    committing = broker.commit("g", 1, member_id=member, generation=1)
    broker.turn()
    broker.partition.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]

    refused = broker.commit("g", 2, member_id=member, generation=1)
    heartbeat = broker.heartbeat(member)
    broker.turn()
    assert not any(answer.done for answer in (committing, refused, heartbeat))

    broker.partition.commit()
    assert committed(committing) == [0]
    assert committed(refused) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert heartbeat.response.error_code == 0


def test_s05_a_refused_assignment_sends_everybody_back_to_joining():
    broker = Leading()
    joins = [broker.join() for _ in range(3)]
    broker.runtime.advance(6_000)
    members = [joined.response.member_id for joined in joins]
    broker.partition.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]

    followers = [broker.sync(member_id, 1) for member_id in members[1:]]
    leader = broker.sync(members[0], 1, dict.fromkeys(members, b"a"))
    broker.turn()

    for answer in (*followers, leader):
        assert answer.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.leader.shard.groups["g"].state is GroupState.PREPARING_REBALANCE


def test_s02_followers_are_answered_when_the_leaders_record_is_committed():
    broker = Leading()
    joins = [broker.join() for _ in range(2)]
    broker.runtime.advance(6_000)
    members = [joined.response.member_id for joined in joins]
    broker.partition.hold = True

    follower = broker.sync(members[1], 1)
    leader = broker.sync(members[0], 1, {members[0]: b"l", members[1]: b"f"})
    broker.turn()
    assert not follower.done
    assert not leader.done
    broker.partition.commit()

    assert (follower.response.assignment, leader.response.assignment) == (b"f", b"l")
    assert broker.leader.shard.groups["g"].state is GroupState.STABLE


def test_m11_a_refused_replacement_gives_the_old_id_back():
    broker = Leading()
    (old,) = broker.stable_group(instance_id="i")
    broker.partition.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    joiner = broker.join(instance_id="i", version=5)
    broker.turn()

    assert (joiner.response.error_code, joiner.response.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert broker.heartbeat(old, instance_id="i").response.error_code == 0


def test_refusals_are_taken_back_last_first():
    """A static member replaced twice in one batch that is refused: the first id holds again, not the second."""
    broker = Leading()
    (old,) = broker.stable_group(instance_id="i")
    broker.partition.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]

    broker.join(instance_id="i", version=5)
    broker.join(instance_id="i", version=5)
    broker.turn()

    assert list(broker.leader.shard.groups["g"].members) == [old]


def test_who_left_a_group_that_did_not_change_its_protocol_after_all_is_answered():
    """The last member of the new protocol and a classic one leave in one turn, whose records are refused."""
    broker = Leading()
    x, y = _classic_members(broker)
    broker.consumer_heartbeat("a", 0)
    broker.turn()
    broker.partition.refusals = [ErrorCode.NOT_ENOUGH_REPLICAS]

    last = broker.consumer_heartbeat("a", -1)
    assert "g" in broker.leader.shard.groups
    left = broker.leave(x)
    broker.turn()

    assert last.response.error_code == left.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(broker.leader.shard.consumer_groups["g"].members) == {"a", x, y}
    assert broker.leave(x).done is False
    broker.turn()
    assert set(broker.leader.shard.consumer_groups["g"].members) == {"a", y}


def _classic_members(broker: Leading) -> list[str]:
    """Two in a Stable group, whose plan says what they read."""
    said = (("range", subscription("t")),)
    joins = [broker.join(protocols=said) for _ in range(2)]
    broker.runtime.advance(6_000)
    members = [joined.response.member_id for joined in joins]
    plan = {member_id: encode_assignment(0, {"t": [at]}) for at, member_id in enumerate(members)}
    for member_id in members:
        broker.sync(member_id, 1, plan if member_id == members[0] else None)
    broker.turn()
    return members


def test_a_failed_flush_closes_the_shard_and_loads_it_anew():
    """D4: under `always` a batch that cannot be fsynced is answered NOT_COORDINATOR, whoever asked, and reads too."""
    broker = Leading()
    members = broker.stable_group(2)
    broker.commit("g", 1, member_id=members[0], generation=1)
    broker.turn()
    broker.partition.hold = True

    commit = broker.commit("g", 2, member_id=members[0], generation=1)
    fetch = broker.fetch()
    broker.turn()
    open_commit = broker.commit("g", 3, member_id=members[0], generation=1)
    parked = broker.join("", group_id="h")
    broker.partition.fail()

    assert committed(commit) == committed(open_commit) == [ErrorCode.NOT_COORDINATOR]
    assert fetch.response.error_code == ErrorCode.NOT_COORDINATOR
    assert parked.response.error_code == ErrorCode.NOT_COORDINATOR
    assert broker.leader.state is LeaderState.FAILED
    assert committed(broker.commit("g", 4)) == [ErrorCode.NOT_COORDINATOR]
    broker.runtime.advance(60_000)  # no timer of the closed shard does anything

    broker.partition.hold = False
    broker.partition.recover()
    broker.load()

    assert fetched(broker.fetch()) == [1]
    assert [broker.heartbeat(member_id).response.error_code for member_id in members] == [0, 0]
    broker.commit("g", 5, member_id=members[0], generation=1)
    broker.turn()
    assert fetched(broker.fetch()) == [5]


def test_a_log_that_fails_while_appending_closes_the_shard_too():
    broker = Leading()
    broker.commit("g", 1)
    broker.turn()
    commit = broker.commit("g", 2)
    broker.partition.fail()
    broker.turn()

    assert committed(commit) == [ErrorCode.NOT_COORDINATOR]
    assert broker.leader.state is LeaderState.FAILED


def test_a_log_that_failed_and_lost_nothing_disturbs_nobody():
    """Under `os` everything is kept when the background's fsync fails, so the members need not join again."""
    broker = Leading()
    (member,) = broker.stable_group()
    parked = broker.join(group_id="h")
    broker.turn()
    broker.partition.fail()
    broker.partition.recover()

    broker.leader.recovered(broker.partition)  # type: ignore[arg-type]  # a fake of what it uses

    assert broker.heartbeat(member).response.error_code == 0
    assert not parked.done
    broker.runtime.advance(6_000)
    assert parked.response.error_code == 0


def test_a_shard_that_is_loaded_while_it_serves_answers_everybody_first():
    broker = Leading()
    parked = broker.join(group_id="h")
    broker.turn()
    broker.load()
    assert parked.response.error_code == ErrorCode.NOT_COORDINATOR
    broker.runtime.advance(600_000)
    assert broker.leader.shard.groups["h"].state is GroupState.EMPTY


def test_a_log_that_grew_without_us_is_loaded_anew(capsys):
    """2.2: an append that lands elsewhere than predicted means that the shard does not know its log."""
    broker = Leading()
    broker.commit("g", 1)
    broker.turn()
    other = Leading(broker.partition)
    other.commit("g", 7, partition=2)
    other.turn()

    refused = broker.commit("g", 2)
    broker.turn()

    assert committed(refused) == [ErrorCode.NOT_COORDINATOR]
    assert broker.leader.state is LeaderState.ACTIVE
    assert broker.leader.shard.offsets["g"]["t", 2].offset == 7
    assert "ERROR group_log_moved partition=0 expected=1 found=2" in capsys.readouterr().err


@pytest.mark.parametrize("state", [LeaderState.FAILED, LeaderState.RESIGNED])
def test_r06_a_partition_that_is_not_led_here(state: LeaderState):
    broker = Leading()
    broker.leader.state = state

    assert committed(broker.commit()) == [ErrorCode.NOT_COORDINATOR]
    assert broker.fetch().response.error_code == ErrorCode.NOT_COORDINATOR
    assert broker.join().response.error_code == ErrorCode.NOT_COORDINATOR
    assert broker.sync("m", 1).response.error_code == ErrorCode.NOT_COORDINATOR
    assert broker.heartbeat().response.error_code == ErrorCode.NOT_COORDINATOR
    answer = Heard()
    for event in (
        Leave("g", [Leaver("m")], 3, answer),
        DeleteGroup("g", answer := Heard()),
        DescribeGroup("g", 5, answer := Heard()),
        DeleteOffsets("g", [], answer := Heard()),
    ):
        broker.leader.submit(event)
        assert event.reply_to.response.error_code == ErrorCode.NOT_COORDINATOR
    assert answer.done


def test_r07_a_partition_that_is_being_loaded():
    broker = Leading(load=False)
    assert broker.leader.state is LeaderState.LOADING

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert committed(broker.commit()) == [loading]
    assert broker.join().response.error_code == loading
    assert broker.fetch().response.error_code == loading
    leave = Leave("g", [Leaver("m")], 3, Heard())
    broker.leader.submit(leave)
    assert leave.reply_to.response.error_code == loading
    assert broker.heartbeat().response.error_code == 0
    assert broker.sync("m", 1).response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_r11_a_partition_that_is_given_up_answers_everybody_who_waits():
    broker = Leading()
    a, b = broker.stable_group(2)
    first = broker.join(group_id="joining")
    rejoined = [broker.join(a), broker.join(b)]
    broker.turn()
    syncing = broker.sync(b, 2)
    assert not first.done
    assert all(answer.done for answer in rejoined)
    assert not syncing.done
    commit = broker.commit("other", 3)

    broker.leader.close()

    assert first.response.error_code == syncing.response.error_code == ErrorCode.NOT_COORDINATOR
    assert committed(commit) == [0]  # its record was still written
    events = len(broker.events)
    broker.runtime.advance(600_000)
    assert len(broker.events) == events
    assert len(broker.runtime.timers) == 0
    assert committed(broker.commit("other", 4)) == [ErrorCode.NOT_COORDINATOR]


def test_p12_a_resignation_of_an_older_leadership_is_ignored():
    broker = Leading(load=False)
    broker.partition.leader_epoch = 5
    broker.load()

    broker.leader.resign(4)
    broker.leader.resign(5)
    assert broker.leader.state is LeaderState.ACTIVE
    broker.leader.resign(6)
    assert broker.leader.state is LeaderState.RESIGNED


def test_p01_p02_a_restart_keeps_members_and_starts_their_sessions():
    before = Leading()
    a, b = before.stable_group(2)
    before.commit("g", 5, member_id=b, generation=1)
    before.turn()

    after = Leading(before.partition)

    assert fetched(after.fetch()) == [5]
    assert after.heartbeat(a).response.error_code == after.heartbeat(b).response.error_code == 0
    after.runtime.advance(9_000)
    after.heartbeat(a)
    after.runtime.advance(1_000)
    assert list(after.leader.shard.groups["g"].members) == [a]


def test_a_group_that_was_loaded_is_told_how_long_that_took(monkeypatch: pytest.MonkeyPatch):
    before = Leading()
    before.stable_group()
    after = Leading(before.partition, load=False)
    read = after.partition.log.read

    def read_slowly(*arguments: object, **named: object) -> object:
        after.runtime._now_ms += 7
        return read(*arguments, **named)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(after.partition.log, "read", read_slowly)
    after.load()

    (loaded,) = [event for event in after.events if event.kind == "coordinator_loaded"]
    assert loaded.facts["load_ms"] == 7 * len(after.partition.log.batches) > 0


def test_p08_a_log_that_cannot_be_understood_is_not_served(capsys):
    broker = Leading()
    broker.commit("g", 1)
    broker.turn()
    batch = bytearray(broker.partition.log.batches[0])
    at = batch.index(b"\x00\x04")  # the value's version
    batch[at + 1] = 9
    broker.partition.log.batches[0] = bytes(batch)

    again = Leading(broker.partition)

    assert again.leader.state is LeaderState.FAILED
    said = capsys.readouterr().err
    assert "ERROR group_load_failed partition=0 error=" in said
    assert str(again.leader.load_error) in said
    assert again.leader.load_error.__traceback__ is again.leader.load_error.__context__ is None
    assert committed(again.commit()) == [ErrorCode.NOT_COORDINATOR]


def test_what_a_load_could_not_use_is_told_with_its_partition(capsys, monkeypatch: pytest.MonkeyPatch):
    """And what it could use is served."""
    summary = LoadSummary(skipped_types={77: 2}, contradictions=["a group is not empty", "nor is another"])
    monkeypatch.setattr(GroupTenant, "load", lambda *_: summary)
    broker = Leading()

    said = capsys.readouterr().err.splitlines()
    [skipped] = [line for line in said if "group_records_skipped" in line]
    assert "WARN" in skipped
    assert "partition=0 types={77: 2}" in skipped
    [contradicted] = [line for line in said if "group_records_contradicted" in line]
    assert "ERROR" in contradicted
    assert "partition=0 count=2 first=" in contradicted
    assert "a group is not empty" in contradicted
    assert broker.leader.state is LeaderState.ACTIVE


def test_p10_batches_larger_than_the_load_buffer():
    broker = Leading(topics={"t": 1_000})
    for partition in range(1_000):
        broker.commit("g", partition, partition=partition)
    broker.turn()
    assert len(broker.partition.log.batches[0]) > 5_000

    again = Leading(broker.partition, load=False)
    again.leader.load(again.partition, chunk_bytes=100)  # type: ignore[arg-type]  # a fake of what it uses

    assert len(again.leader.shard.offsets["g"]) == 1_000


def test_a_session_that_ends_says_how_long_the_member_was_silent():
    """D2: facts that only the edge knows arrive inside the input."""
    broker = Leading()
    (member,) = broker.stable_group()
    broker.runtime.advance(3_000)
    broker.heartbeat(member)
    broker.runtime.advance(10_000)

    (expired,) = [event for event in broker.events if event.kind == "session_expired"]
    assert expired.facts["last_heard_ms"] == 10_000
    assert expired.facts["last_api"] == "Heartbeat"
    assert broker.leader.shard.groups["g"].state is GroupState.EMPTY
    assert broker.partition.records()[-1][0] == GroupMetadataKey("g")


def test_who_is_silent_since_its_assignment_was_written_asked_for_that_last():
    """Its session began in the name of the record that was committed, not of a request."""
    broker = Leading()
    broker.stable_group()
    broker.runtime.advance(10_000)

    (expired,) = [event for event in broker.events if event.kind == "session_expired"]
    assert expired.facts["last_api"] == "SyncGroup"


def test_a_heartbeat_that_comes_in_time_moves_the_end_of_the_session():
    broker = Leading()
    (member,) = broker.stable_group()
    for _ in range(5):
        broker.runtime.advance(9_000)
        assert broker.heartbeat(member).response.error_code == 0
    assert list(broker.leader.shard.groups["g"].members) == [member]


def test_expired_offsets_may_go_in_several_batches():
    """2.2: tombstones of the retention check are not one operation; everything else is."""
    settings = GroupSettings(offsets_retention_ms=DAY)
    broker = Leading(FakePartition(max_message_bytes=1_000), topics={"t": 500}, settings=settings)
    for partition in range(200):
        broker.commit("g", 1, partition=partition)
    broker.commit("h", 1)
    broker.turn()
    before = len(broker.partition.records())
    broker.runtime.advance(DAY)

    expire_offsets(broker.leader)
    broker.turn()

    tombstones = broker.partition.records()[before:]
    assert len(tombstones) == 203
    assert all(value is None for _, value in tombstones)
    assert [key.group for key, _ in tombstones if isinstance(key, GroupMetadataKey)] == ["g", "h"]
    assert not broker.leader.shard.groups
    assert not broker.leader.shard.offsets
    assert all(len(batch) <= 1_000 for batch in broker.partition.log.batches)
    assert sum(event.kind == "group_removed" for event in broker.events) == 2


@pytest.mark.parametrize("refused", [0, 1])
def test_two_tombstones_that_do_not_fit_into_one_batch_go_in_two(refused: int):
    """And of a first one that the disk refuses the rule hears, as of any: what it says is gone is there again."""
    broker = Leading(FakePartition(max_message_bytes=280), settings=GroupSettings(offsets_retention_ms=DAY))
    group_id = "g" * 120
    broker.commit(group_id, 1)
    broker.turn()
    broker.runtime.advance(DAY)
    broker.partition.refusals = [ErrorCode.KAFKA_STORAGE_ERROR] * refused

    expire_offsets(broker.leader)
    broker.turn()

    assert len(broker.partition.log.batches) == 3 - refused
    assert (group_id in broker.leader.shard.groups) == bool(refused)
    assert fetched(broker.fetch(group_id)) == [1 if refused else -1]


@pytest.mark.parametrize("refused", range(5))
def test_a_group_of_which_one_of_many_batches_is_refused_goes_at_the_next_check(refused: int):
    """Whichever it is: else its offsets would be there without a group, and not expire."""
    broker = Leading(
        FakePartition(max_message_bytes=280), topics={"t": 8}, settings=GroupSettings(offsets_retention_ms=DAY)
    )
    group_id = "g" * 60
    for partition in range(8):
        broker.commit(group_id, 1, partition=partition)
    broker.turn()
    before = len(broker.partition.log.batches)
    broker.runtime.advance(DAY)
    broker.partition.refusals = [ErrorCode.NONE] * refused + [ErrorCode.KAFKA_STORAGE_ERROR]

    expire_offsets(broker.leader)
    broker.turn()
    assert len(broker.partition.log.batches) == before + 4
    assert group_id in broker.leader.shard.groups

    expire_offsets(broker.leader)
    broker.turn()
    for shard in (broker.leader.shard, Leading(broker.partition).leader.shard):
        assert not shard.groups
        assert not shard.offsets


def test_a_group_that_somebody_deletes_goes_in_one_batch_or_stays():
    """Unlike one that expires: who asked is told of the whole of it."""
    broker = Leading(FakePartition(max_message_bytes=280), topics={"t": 8})
    for partition in range(8):
        broker.commit("g", 1, partition=partition)
    broker.turn()
    before = len(broker.partition.log.batches)
    answer = Heard()
    broker.leader.submit(DeleteGroup("g", answer))
    broker.turn()

    assert answer.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(broker.partition.log.batches) == before
    assert "g" in broker.leader.shard.groups
    assert len(broker.leader.shard.offsets["g"]) == 8


def test_offsets_of_a_group_that_lives_may_go_in_several_batches():
    """As those of a deleted topic: the group stays as it is."""
    broker = Leading(FakePartition(max_message_bytes=1_000), topics={"t": 100})
    (member,) = broker.stable_group()
    for partition in range(100):
        broker.commit("g", 1, partition=partition, member_id=member, generation=1)
    broker.turn()

    forget_topics(broker.leader, {"t": broker.leader.shard.topics.topic_id("t") or b""})
    assert list(broker.leader.shard.groups["g"].members) == [member]
    broker.turn()
    assert not broker.leader.shard.offsets
    assert broker.heartbeat(member).response.error_code == 0


def test_a_log_that_fails_under_an_outcome_is_told_to_its_own_group(monkeypatch: pytest.MonkeyPatch):
    """It did not fit into the open batch, which was written first, and refused with the log."""
    broker = Leading(FakePartition(max_message_bytes=300))
    heard = []
    handle = Shard.handle
    monkeypatch.setattr(
        Shard, "handle", lambda shard, event, now_ms: heard.append(event) or handle(shard, event, now_ms)
    )
    answers = [broker.commit("g", 1, metadata="x" * 100)]
    broker.partition.error = PartitionFailed("__consumer_offsets", 0, "no space left on device")
    answers += [broker.commit("h", 2, metadata="x" * 100)]

    assert [committed(answer) for answer in answers] == [[ErrorCode.NOT_COORDINATOR]] * 2
    assert [event.key for event in heard if isinstance(event, AppendFailed)] == ["g", "h"]


def test_a_group_whose_removal_is_refused_stays_and_goes_at_the_next_check():
    broker = Leading(settings=GroupSettings(offsets_retention_ms=DAY))
    broker.commit("g", 1)
    broker.turn()
    broker.runtime.advance(DAY)
    broker.partition.refusals = [ErrorCode.KAFKA_STORAGE_ERROR]

    expire_offsets(broker.leader)
    broker.turn()
    assert "g" in broker.leader.shard.groups
    assert fetched(broker.fetch()) == [1]

    expire_offsets(broker.leader)
    broker.turn()
    assert "g" not in broker.leader.shard.groups


def test_o18_deleted_topics():
    broker = Leading(topics={"t": 2, "u": 2})
    broker.commit("g", 1)
    broker.commit("g", 2, topic="u")
    broker.turn()

    forget_topics(broker.leader, {"t": broker.leader.shard.topics.topic_id("t") or b""})
    broker.turn()

    assert broker.partition.records()[-1] == (OffsetCommitKey("g", "t", 0), None)
    assert list(broker.leader.shard.offsets["g"]) == [("u", 0)]


def test_deleting_a_group_and_committing_to_it_in_one_turn():
    """The tombstones lie before the new offset in the log, and memory agrees."""
    broker = Leading()
    broker.commit("g", 1)
    broker.commit("g", 1, partition=1)
    deleted = Heard()
    broker.leader.submit(DeleteGroup("g", deleted))
    again = broker.commit("g", 2)
    broker.turn()

    assert deleted.response.error_code == 0
    assert committed(again) == [0]
    assert {key: stored.offset for key, stored in broker.leader.shard.offsets["g"].items()} == {("t", 0): 2}
    reloaded = Leading(broker.partition)
    assert reloaded.leader.shard.groups.keys() == broker.leader.shard.groups.keys() == {"g"}
    assert reloaded.leader.shard.offsets["g"].keys() == {("t", 0)}


def test_a_bug_in_one_step_keeps_nobody_else_waiting(capsys):
    """Whoever shares a batch with it is answered all the same, committed or refused."""

    class Broken(Heard):
        def complete(self, response: object) -> None:
            raise RuntimeError("a bug")

    broker = Leading()
    topics = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)])]
    for refusals in ([], [ErrorCode.NOT_ENOUGH_REPLICAS]):
        broker.partition.refusals = list(refusals)
        before = broker.commit("g", 1)
        broker.leader.submit(CommitOffsets("h", "", None, -1, topics, 8, -1, Broken()))
        after = broker.commit("i", 3)
        broker.turn()
        assert committed(before) == committed(after) == [15 if refusals else 0]
        assert "group_step_failed" in capsys.readouterr().err


def test_reads_of_the_whole_shard_wait_like_any_other():
    broker = Leading()
    seen: list[int] = []
    broker.leader.when_settled(lambda: seen.append(0))
    assert seen == [0]
    broker.partition.hold = True
    broker.commit("g", 1)
    broker.leader.when_settled(lambda: seen.append(1))
    broker.turn()
    assert seen == [0]
    broker.partition.commit()
    assert seen == [0, 1]


def test_what_happened_is_told_once_it_is_true():
    """D10: events are published with the replies of their outcome, also when its record was refused."""
    broker = Leading()
    (member,) = broker.stable_group()
    assert [event.kind for event in broker.events][:2] == ["member_joined", "rebalance_began"]
    broker.partition.hold = True
    count = len(broker.events)
    broker.leave(member)
    broker.turn()
    assert len(broker.events) == count
    broker.partition.commit()
    assert "member_left" in [event.kind for event in broker.events[count:]]
