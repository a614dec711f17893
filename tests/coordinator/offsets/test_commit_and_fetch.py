"""OffsetCommit and OffsetFetch. Ids are those of docs/scenarios/group-coordinator.md."""

import pytest

from coordinator.classic.inputs import Unload
from coordinator.group import Group, GroupState
from coordinator.offsets.commit import utf16_length
from coordinator.offsets.inputs import CommitOffsets
from coordinator.offsets.topic_filter import filter_commit, filter_delete, filter_fetch
from coordinator.view import GroupSettings
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequestTopics
from protocol.records.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, encode_value
from tests.coordinator.driver import SESSION, Topics
from tests.coordinator.offsets.driver import DAY, PRODUCER, OffsetDriver, errors, offsets, results

NONE = ErrorCode.NONE
T1_ID = b"t1".ljust(16, b"\0")


def test_o01_a_commit_without_a_group_makes_a_simple_one():
    broker = OffsetDriver()

    assert errors(broker.commit(42)) == [NONE]

    assert broker.listed() == [("g", "", "Empty")]
    assert broker.live.is_simple
    assert broker.stored() == {("t1", 0): 42}


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_o02_a_generation_of_an_unknown_group(version: int, error: ErrorCode):
    broker = OffsetDriver()

    assert errors(broker.commit(generation=3, member_id="m", version=version)) == [error]

    assert broker.group is None
    assert not broker.log


def test_o03_nobody_may_commit_to_a_living_group():
    broker = OffsetDriver()
    broker.stable_group("a")

    assert errors(broker.commit()) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert not broker.stored()


def test_o04_anybody_may_commit_to_an_empty_group():
    broker = OffsetDriver()
    broker.leave(*broker.stable_group("a"))
    assert broker.state is GroupState.EMPTY

    assert errors(broker.commit(5, member_id="whoever", instance_id="whatever")) == [NONE]
    assert broker.stored() == {("t1", 0): 5}
    assert errors(broker.commit(6, member_id="whoever", generation=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_o05_nothing_is_committed_between_join_and_sync():
    broker = OffsetDriver()
    (a,) = broker.completing_group("a")

    assert errors(broker.commit(member_id=a, generation=1)) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert errors(broker.commit(member_id="x", generation=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(broker.commit(member_id=a, generation=0)) == [ErrorCode.ILLEGAL_GENERATION]


def test_o06_the_last_generation_may_commit_while_the_group_prepares():
    broker = OffsetDriver()
    a, _ = broker.stable_group("a", "b")
    broker.join(client_id="c", version=3)
    assert broker.state is GroupState.PREPARING_REBALANCE
    broker.advance(4_000)

    assert errors(broker.commit(9, member_id=a, generation=1)) == [NONE]

    assert broker.stored() == {("t1", 0): 9}
    assert broker.timer_in("heartbeat", a) == SESSION


def test_a_commit_keeps_a_member_of_a_stable_group_alive():
    """An accepted OffsetCommit restarts the session, a refused one does not."""
    broker = OffsetDriver()
    (a,) = broker.stable_group("a")
    broker.advance(4_000)
    broker.commit(member_id=a, generation=7)
    assert broker.timer_in("heartbeat", a) == SESSION - 4_000

    broker.commit(member_id=a, generation=1)

    assert broker.timer_in("heartbeat", a) == SESSION


def test_a_static_member_commits_under_its_own_name_only():
    broker = OffsetDriver()
    (a,) = broker.stable_group("i", static=("i",))

    assert errors(broker.commit(member_id=a, instance_id="i", generation=1)) == [NONE]
    assert errors(broker.commit(member_id="old", instance_id="i", generation=1)) == [ErrorCode.FENCED_INSTANCE_ID]
    assert errors(broker.commit(member_id=a, instance_id="j", generation=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(broker.commit(instance_id="i")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_dead_group_takes_no_commit():
    broker = OffsetDriver()
    broker.stable_group("a")
    broker.feed(Unload("g"))

    assert errors(broker.commit()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_o07_metadata_is_measured_in_utf16_units():
    broker = OffsetDriver()
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata=metadata)
        for index, metadata in enumerate(["x" * 4_096, "x" * 4_097, "\U0001f600" * 2_048, "\U0001f600" * 2_048 + "x"])
    ]

    request = broker.commit_topics([OffsetCommitRequestTopic(name="t1", partitions=partitions)])

    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert errors(request) == [NONE, too_large, NONE, too_large]
    assert broker.stored() == {("t1", 0): 0, ("t1", 2): 2}
    assert utf16_length("a\U0001f600é") == 4


def test_null_metadata_is_stored_as_empty():
    broker = OffsetDriver()

    broker.commit(1, metadata=None)

    assert broker.fetch({"t1": [0]}).topics[0].partitions[0].metadata == ""


def test_a_request_of_which_nothing_is_accepted_writes_nothing():
    broker = OffsetDriver(GroupSettings(offset_metadata_max_chars=2))

    assert errors(broker.commit(metadata="abc")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert not broker.log


def _partitions(*indexes: int) -> list[OffsetCommitRequestPartition]:
    return [OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in indexes]


def test_o08_unknown_topics_and_partitions_do_not_reach_the_coordinator():
    topics = [
        OffsetCommitRequestTopic(name="known", partitions=_partitions(0, 4, -1)),
        OffsetCommitRequestTopic(name="gone", partitions=_partitions(0)),
        OffsetCommitRequestTopic(name="secret", partitions=_partitions(0)),
    ]

    accepted, refused = filter_commit(
        topics, Topics({"known": 4, "secret": 1}), lambda name: name != "secret", by_id=False
    )

    assert [(t.name, [p.partition_index for p in t.partitions]) for t in accepted] == [("known", [0])]
    unknown, forbidden = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in refused] == [
        ("known", [(4, unknown), (-1, unknown)]),
        ("gone", [(0, unknown)]),
        ("secret", [(0, forbidden)]),
    ]


def test_o21_version_10_names_topics_by_id():
    topics = [
        OffsetCommitRequestTopic(topic_id=T1_ID, partitions=_partitions(1)),
        OffsetCommitRequestTopic(topic_id=b"?" * 16, partitions=_partitions(0)),
    ]
    accepted, refused = filter_commit(topics, Topics({"t1": 4}), lambda _: True, by_id=True)
    assert [(t.topic_id, t.partitions[0].error_code) for t in refused] == [(b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)]
    broker = OffsetDriver()
    request = broker.request("commit")
    broker.feed(CommitOffsets("g", "", None, -1, accepted, 10, -1, request, refused))

    answers = [(t.topic_id, t.partitions[0].error_code) for t in request.response.topics]
    assert answers == [(b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID), (T1_ID, NONE)]
    assert broker.log[0][1].topic_id == T1_ID


def test_a_committed_topic_without_partitions_is_not_answered():
    """7.1: nothing of it reaches the coordinator, and nothing was refused."""
    topics = [OffsetCommitRequestTopic(name="t1"), OffsetCommitRequestTopic(name="t2", partitions=_partitions(0))]
    accepted, refused = filter_commit(topics, Topics({"t1": 4, "t2": 2}), lambda _: True, by_id=False)
    assert [t.name for t in accepted] == ["t2"]
    assert refused == []


def test_refused_topics_come_first_and_keep_their_place_for_the_rest():
    """7.1: in the answer the refused topics come first; a topic with both kinds of partitions stands there too."""
    broker = OffsetDriver()
    topics = [
        OffsetCommitRequestTopic(name="t2", partitions=_partitions(0)),
        OffsetCommitRequestTopic(name="t1", partitions=_partitions(0, 9)),
    ]
    accepted, refused = filter_commit(topics, broker.topics, lambda _: True, by_id=False)
    request = broker.request("commit")
    broker.feed(CommitOffsets("g", "", None, -1, accepted, 8, -1, request, refused))

    assert [(t.name, [p.partition_index for p in t.partitions]) for t in request.response.topics] == [
        ("t1", [9, 0]),
        ("t2", [0]),
    ]


def test_topics_that_are_named_again_and_again_are_one_where_something_was_refused():
    """As Kafka's builder of the answer. A hundred thousand entries must not be put together by copying each time."""
    broker = OffsetDriver()
    topics = [OffsetCommitRequestTopic(name="t1", partitions=_partitions(9))]
    topics += [OffsetCommitRequestTopic(name=name, partitions=_partitions(0)) for name in ("t1", "t2") * 5_000]
    accepted, refused = filter_commit(topics, broker.topics, lambda _: True, by_id=False)
    request = broker.request("commit")
    broker.feed(CommitOffsets("g", "", None, -1, accepted, 8, -1, request, refused))

    assert [(t.name, len(t.partitions)) for t in request.response.topics] == [("t1", 5_001), ("t2", 5_000)]


def test_a_group_error_goes_onto_every_partition_that_reached_the_coordinator():
    broker = OffsetDriver()
    topic = OffsetCommitRequestTopic(name="t1", partitions=_partitions(0, 1, 2))

    request = broker.commit_topics([topic], generation=4, member_id="m")

    assert errors(request) == [ErrorCode.ILLEGAL_GENERATION] * 3


def test_o09_a_retention_of_its_own_is_stored_with_the_offset():
    broker = OffsetDriver()
    broker.commit(1, version=4, retention_ms=3_600_000)
    broker.commit(2, partition=1, version=4)

    (_, with_retention), (_, without) = broker.log

    assert encode_value(with_retention)[:2] == b"\x00\x01"
    assert with_retention.expire_timestamp == broker.now_ms + 3_600_000
    assert encode_value(without)[:2] == b"\x00\x04"
    broker.wait(3_600_000)
    assert [key.partition for key, _ in broker.expire()] == [0]


def test_a_retention_for_ever_fits_its_record():
    """Found by tests/fuzz: the largest number, added to now, is none that the record can hold."""
    broker = OffsetDriver()
    broker.commit(1, version=4, retention_ms=2**63 - 1)

    ((_, value),) = broker.log
    assert value.expire_timestamp == 2**63 - 1
    encode_value(value)


def test_o26_a_commit_is_stored_with_the_id_that_the_topic_has_now():
    broker = OffsetDriver()

    broker.commit(42, leader_epoch=5, metadata="m", version=9)

    assert broker.log == [
        (OffsetCommitKey("g", "t1", 0), OffsetCommitValue(42, 5, "m", broker.now_ms, -1, T1_ID)),
    ]
    assert encode_value(broker.log[0][1])[-19:] == b"\x01\x00\x10" + T1_ID


def test_o10_nothing_committed():
    broker = OffsetDriver()
    unknown = broker.fetch({"t1": [0, 1]})
    broker.commit(1, partition=3)

    for group in (unknown, broker.fetch({"t1": [0, 1]})):
        assert group.error_code == NONE
        for partition in group.topics[0].partitions:
            assert (partition.committed_offset, partition.committed_leader_epoch) == (-1, -1)
            assert (partition.metadata, partition.error_code) == ("", NONE)
    assert OffsetDriver().fetch().topics == []


def test_o11_leader_epochs():
    broker = OffsetDriver()
    broker.commit(1, partition=0, leader_epoch=7)
    broker.commit(2, partition=1)

    partitions = broker.fetch({"t1": [0, 1]}).topics[0].partitions

    assert [partition.committed_leader_epoch for partition in partitions] == [7, -1]


def test_all_topics_are_those_with_offsets():
    broker = OffsetDriver()
    broker.commit(1, topic="t1", partition=2)
    broker.commit(2, topic="t2", partition=0)
    broker.commit(3, topic="t1", partition=0)

    assert offsets(broker.fetch()) == {("t1", 2): 1, ("t1", 0): 3, ("t2", 0): 2}


def test_o13_a_pending_transaction_makes_an_offset_unstable():
    broker = OffsetDriver()
    broker.commit(1)
    broker.pend(5)
    broker.pend(6, partition=1)

    assert offsets(broker.fetch({"t1": [0, 1]})) == {("t1", 0): 1, ("t1", 1): -1}
    unstable = broker.fetch({"t1": [0, 1]}, stable=True)
    assert set(results(unstable).values()) == {ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert set(offsets(unstable).values()) == {-1}
    assert results(broker.fetch(stable=True)) == {("t1", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}

    broker.shard.end_transaction(PRODUCER, committed=True)
    assert offsets(broker.fetch({"t1": [0, 1]}, stable=True)) == {("t1", 0): 5, ("t1", 1): 6}


def test_of_two_offsets_for_one_partition_the_later_record_wins():
    """7.6: a pending offset replaces a committed one only if its record lies behind it in the log."""
    broker = OffsetDriver()
    broker.pend(5, log_offset=10)
    broker.shard.replay(OffsetCommitKey("g", "t1", 0), OffsetCommitValue(7, -1, "", 0), -1, 11)
    broker.shard.end_transaction(PRODUCER, committed=True)
    assert broker.stored() == {("t1", 0): 7}

    broker.pend(8, log_offset=12)
    broker.shard.end_transaction(PRODUCER, committed=False)
    assert broker.stored() == {("t1", 0): 7}
    assert not broker.shard.pending


def test_o22_fetching_by_id():
    topics = [
        OffsetFetchRequestTopics(topic_id=T1_ID, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0, 1]),
    ]
    accepted, refused = filter_fetch(topics, Topics({"t1": 1}), lambda _: True, by_id=True)
    assert [topic.name for topic in accepted] == ["t1"]
    (unknown,) = refused
    assert [(p.committed_offset, p.error_code) for p in unknown.partitions] == [(-1, ErrorCode.UNKNOWN_TOPIC_ID)] * 2

    broker = OffsetDriver()
    broker.commit(1)
    broker.commit(2, topic="t2")
    del broker.topics.partitions["t2"]
    (topic,) = broker.fetch(by_id=True).topics
    assert (topic.topic_id, topic.partitions[0].committed_offset) == (T1_ID, 1)


def test_o23_an_offset_belongs_to_the_topic_it_was_committed_for():
    broker = OffsetDriver()
    broker.commit(1)
    new_id = {"t1": b"a new topic with "[:16]}

    assert offsets(broker.fetch({"t1": [0]}, by_id=True, ids=new_id)) == {("t1", 0): -1}
    assert offsets(broker.fetch({"t1": [0]}, by_id=True, ids={"t1": T1_ID})) == {("t1", 0): 1}
    assert offsets(broker.fetch({"t1": [0]})) == {("t1", 0): 1}


def test_fetching_forbidden_topics():
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("t1", "t2")]

    accepted, (refused,) = filter_fetch(topics, Topics(), lambda name: name == "t1", by_id=False)

    assert [topic.name for topic in accepted] == ["t1"]
    assert (refused.name, refused.partitions[0].error_code) == ("t2", ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def test_filtering_an_offset_delete():
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in (0, 5)]
        )
        for name in ("t1", "gone", "secret")
    ]

    accepted, refused = filter_delete(topics, Topics({"t1": 1, "secret": 9}), lambda name: name != "secret")

    assert [(t.name, [p.partition_index for p in t.partitions]) for t in accepted] == [("t1", [0])]
    assert [(t.name, [p.error_code for p in t.partitions]) for t in refused] == [
        ("t1", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("gone", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2),
        ("secret", [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2),
    ]


def test_a_refused_commit_is_answered_with_the_mapped_error_and_leaves_no_group_behind():
    """2.2: storage errors are mapped for clients, and nothing of the commit holds."""
    broker = OffsetDriver()
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)

    assert errors(broker.commit()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    assert broker.group is None
    assert not broker.stored()


def test_a_refused_commit_tells_each_partition_one_error():
    """Of a topic with an unknown partition too: nobody may read that the others were stored."""
    broker = OffsetDriver()
    broker.fail_appends(ErrorCode.NOT_ENOUGH_REPLICAS)
    topics = [OffsetCommitRequestTopic(name="t1", partitions=_partitions(0, 9))]
    accepted, refused = filter_commit(topics, broker.topics, lambda _: True, by_id=False)
    request = broker.request("commit")
    broker.feed(CommitOffsets("g", "", None, -1, accepted, 8, -1, request, refused))

    (topic,) = request.response.topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]


def test_a_refused_commit_leaves_a_group_with_offsets_alone():
    broker = OffsetDriver()
    broker.commit(1)
    broker.fail_appends(ErrorCode.KAFKA_STORAGE_ERROR)

    assert errors(broker.commit(2)) == [ErrorCode.NOT_COORDINATOR]

    assert broker.stored() == {("t1", 0): 1}
    assert broker.group is not None


def test_joining_a_simple_group_keeps_its_offsets():
    broker = OffsetDriver()
    broker.commit(3)

    broker.stable_group("a")

    assert broker.stored() == {("t1", 0): 3}
    assert isinstance(broker.log[-1][0], GroupMetadataKey)
    assert DAY  # the group is no simple one any more: retention counts from when it is Empty


@pytest.mark.parametrize("pending", [False, True])
def test_a_new_group_whose_first_record_is_refused_leaves_its_offsets_a_group(pending):
    """They were written meanwhile, by a producer that has not ended its transaction yet or by who is no member."""
    broker = OffsetDriver()
    broker.hold_appends()
    first = broker.join()
    if pending:
        broker.pend(7)
    else:
        broker.shard.replay(
            OffsetCommitKey("g", "t1", 0),
            OffsetCommitValue(offset=7, leader_epoch=-1, metadata="", commit_timestamp=0),
            -1,
            1,
        )
    broker.now_ms += 50
    broker.release_appends(refused=1)

    assert first.error is ErrorCode.NOT_COORDINATOR
    assert broker.group == Group("g", state_timestamp_ms=broker.now_ms)
