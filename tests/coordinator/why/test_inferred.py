"""What the records of `__consumer_offsets` tell where nobody kept a ledger: written as Kafka writes them, and read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator.why.inferred import generations
from coordinator.why.inferred_pauses import Commits
from coordinator.why.verdicts import verdicts
from protocol.records.consumer_group_records import CurrentTopicPartitions
from protocol.records.group_metadata import MemberMetadata
from protocol.records.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.coordinator.why.records import NOW
from tests.support.consumer_protocol import assignment, subscription

SESSION_MS, REBALANCE_MS, EVERY_MS = 45_000, 300_000, 5_000
Entry = tuple[bytes | None, bytes | None, int]


def generation(number: int, at_ms: int, owned: dict[str, list[int]]) -> Entry:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range" if owned else None,
        leader=next(iter(owned), None),
        current_state_timestamp=at_ms,
        members=[
            MemberMetadata(
                member_id=f"{name}-id", group_instance_id=None, client_id=name, client_host="/10.0.0.1",
                rebalance_timeout=REBALANCE_MS, session_timeout=SESSION_MS, subscription=subscription("t"),
                assignment=assignment({"t": partitions}),
            )
            for name, partitions in owned.items()
        ],
    )  # fmt: skip
    return encode_key(GroupMetadataKey("g")), encode_value(value), at_ms


def commits(partition: int, begin_ms: int, end_ms: int) -> Iterable[Entry]:
    for at_ms in range(begin_ms, end_ms + 1, EVERY_MS):
        value = OffsetCommitValue(offset=at_ms - NOW, leader_epoch=-1, metadata="", commit_timestamp=at_ms)
        yield encode_key(OffsetCommitKey("g", "t", partition)), encode_value(value), at_ms


def told(b_until_ms: int, a_until_ms: int, next_ms: int, owned: dict[str, list[int]]) -> tuple[str, str]:
    """Of `b`, which shared the topic with `a` and is gone in the next generation."""
    log = [generation(1, NOW, {"a": [0], "b": [1]}), *commits(1, NOW + 100, NOW + b_until_ms)]
    log += [*commits(0, NOW + 100, NOW + a_until_ms), generation(2, NOW + next_ms, owned)]
    (one,) = verdicts(generations("g", sorted(log, key=lambda entry: entry[2])), now_ms=NOW + next_ms)
    assert one["who"] == "b (10.0.0.1)"
    assert one["says"].endswith("(inferred)")
    return one["verdict"], one["says"]


@pytest.mark.parametrize(
    ("b_until_ms", "a_until_ms", "next_ms", "kind", "words"),
    [
        (60_100, 105_100, 106_000, "silent", "nothing for 45.0 s, about its session timeout of 45.0 s"),
        (100_100, 105_100, 106_000, "left", "had committed 5.0 s before"),
        (60_100, 300_100, 301_000, "too_slow", "stayed for longer than its session timeout"),
        (100_100, 105_100, 400_000, "untold", "all stood still for 4 min 55 s"),
        (80_100, 110_100, 111_000, "untold", "cannot be told: it had committed 30.0 s before"),
        (100, 100_100, 101_000, "untold", "committed too little"),
    ],
)
def test_what_became_of_a_member_is_inferred_from_its_commits_and_those_of_the_others(
    b_until_ms: int, a_until_ms: int, next_ms: int, kind: str, words: str
):
    found, says = told(b_until_ms, a_until_ms, next_ms, {"a": [0, 1]})
    assert (found, words in says) == (kind, True), says


@pytest.mark.parametrize(("at_ms", "kind"), [(63_000, "left"), (105_000, "silent")])
def test_of_the_last_member_the_moment_that_the_group_became_empty_tells(at_ms: int, kind: str):
    log: list[Any] = [generation(1, NOW, {"b": [0, 1]}), *commits(1, NOW + 100, NOW + 60_100)]
    log.append(generation(2, NOW + at_ms, {}))
    (one,) = verdicts(generations("g", log), now_ms=NOW + at_ms)
    assert one["verdict"] == kind, one


TOPIC_ID = bytes(range(16))


def epoch(number: int, at_ms: int) -> list[Entry]:
    bumped = encode_value(ConsumerGroupMetadataValue(epoch=number))
    target = encode_value(
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number, assignment_timestamp=at_ms)
    )
    return [
        (encode_key(ConsumerGroupMetadataKey("g")), bumped, at_ms),
        (encode_key(ConsumerGroupTargetAssignmentMetadataKey("g")), target, at_ms),
    ]


def here(name: str, partition: int, *, topics: list[str], instance_id: str | None = None) -> list[Entry]:
    told = ConsumerGroupMemberMetadataValue(
        client_id=name, client_host="/10.0.0.1", subscribed_topic_names=topics, instance_id=instance_id,
        rebalance_timeout_ms=REBALANCE_MS,
    )  # fmt: skip
    return [(encode_key(ConsumerGroupMemberMetadataKey("g", name)), encode_value(told), NOW), owns(name, partition)]


def owns(name: str, partition: int, *, epoch: int = 1, at_ms: int = NOW) -> Entry:
    held = CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[partition])
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=epoch, previous_member_epoch=0, state=0, assigned_partitions=[held],
        partitions_pending_revocation=[],
    )  # fmt: skip
    return encode_key(ConsumerGroupCurrentMemberAssignmentKey("g", name)), encode_value(value), at_ms


def gone(name: str, at_ms: int) -> list[Entry]:
    keys = ConsumerGroupCurrentMemberAssignmentKey("g", name), ConsumerGroupMemberMetadataKey("g", name)
    return [(encode_key(key), None, at_ms) for key in keys]


@pytest.mark.parametrize(
    ("until_ms", "gone_ms", "session_ms", "kind", "words"),
    [
        (60_100, 105_100, 45_000, "silent", "nothing for 45.0 s, about its session timeout of 45.0 s (inferred)"),
        (60_100, 105_100, None, "silent", "its session timeout of 45.0 s, which is the default (inferred)"),
        (100_100, 103_000, 45_000, "left", "it left: it had committed 2.9 s before"),
        (100_100, 103_000, None, "left", "which is the default (inferred)"),
        (80_100, 103_000, None, "untold", "it had committed 22.9 s before"),
        (60_100, 360_100, 45_000, "too_slow", "stayed for longer than its session timeout"),
        (100, 60_100, 45_000, "untold", "committed too little"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_what_became_of_a_member_of_a_consumer_group_its_commits_tell(
    until_ms: int, gone_ms: int, session_ms: int | None, kind: str, words: str, named: bool
):
    """Its records know topics by id: of one that names a single topic no names are needed."""
    topics = ["t", "other"] if named else ["t"]
    log: list[Entry] = [*here("a", 0, topics=topics), *here("b", 1, topics=topics), *epoch(1, NOW)]
    log += [*commits(1, NOW + 100, NOW + until_ms), *gone("b", NOW + gone_ms), *epoch(2, NOW + gone_ms)]
    names = {TOPIC_ID: "t"} if named else {}
    (one,) = verdicts(generations("g", log, names=names, session_ms=session_ms), now_ms=NOW + gone_ms)
    assert (one["who"], one["verdict"], words in one["says"]) == ("b (10.0.0.1)", kind, True), one
    assert one["says"].endswith("(inferred)")


def test_a_static_member_of_a_consumer_group_said_that_it_would_be_away():
    log: list[Entry] = [*here("b", 1, topics=["t"], instance_id="pod-1"), *epoch(1, NOW)]
    log += [*commits(1, NOW + 100, NOW + 30_100), owns("b", 1, epoch=-2, at_ms=NOW + 31_000)]
    back = [*log, *gone("b", NOW + 40_000), *here("b2", 1, topics=["t"], instance_id="pod-1"), *epoch(2, NOW + 40_000)]
    assert not verdicts(generations("g", back), now_ms=NOW + 40_000)
    log += [*gone("b", NOW + 76_000), *epoch(2, NOW + 76_000)]
    (one,) = verdicts(generations("g", log), now_ms=NOW + 76_000)
    assert (one["verdict"], one["who"]) == ("left", "pod-1 (10.0.0.1)")
    assert "closed 45.0 s before" in one["says"]


def test_a_pause_is_told_with_the_partition_that_had_the_longest():
    """Of those that were committed before the generation began, each until its first commit after it."""
    commits = Commits("g")
    for partition in (3, 4):
        for at_ms in (0, 500):
            commits.follow(("t", partition), at_ms, at_ms, empty=False, generation=1)
    commits.began(record := {})
    for partition, at_ms in ((3, 2_000), (4, 4_500)):
        commits.follow(("t", partition), at_ms, at_ms, empty=False, generation=2)

    assert record == {"paused": {"topic": "t", "partition": 4, "ms": 4_000, "usual_ms": 500}}
