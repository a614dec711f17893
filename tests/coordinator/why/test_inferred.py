"""What the records of `__consumer_offsets` tell where nobody kept a ledger: written as Kafka writes them, and read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator.why.inferred import generations
from coordinator.why.verdicts import verdicts
from protocol.records.group_metadata import MemberMetadata
from protocol.records.group_records import (
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
