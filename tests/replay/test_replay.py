"""Replay proof: whatever happens to a shard, its cleaner and its disk, the loaded state is the state before.

Any history of commits, joins, deletions and expiries; any legal choice of what the cleaner removes; a crash at any
file operation of an append, a roll, a clean or a removal. What was acknowledged is there as durability promises, what
was not is there whole or not at all. Each known bug of Apache Kafka's loader, built in again, is found.

The long run: `make replay HISTORIES=2000`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, get_args
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from coordinator.consumer.records import group_tombstones
from coordinator.events import GroupMigrated
from coordinator.load_summary import LoadFailed
from protocol.records.batch_reader import iterate_records
from protocol.records.group_records import ConsumerGroupMemberMetadataKey, GroupKey, decode_key
from tests.replay.known_bugs import LOADER_BUGS, cleaned_before_it_is_flushed
from tests.replay.life import STEPS, STEPS_OF_CONSUMER_GROUPS, Crashes, Step, live, read

if TYPE_CHECKING:
    from coordinator.consumer.group import ConsumerGroup

HISTORIES = int(os.environ.get("KOHORT_REPLAY_HISTORIES", "40"))

histories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 400)), min_size=5, max_size=40)
member_histories = st.lists(
    st.tuples(st.sampled_from(STEPS_OF_CONSUMER_GROUPS), st.integers(0, 400)), min_size=10, max_size=50
)
prefixes = st.integers(0, 3)
# What happens to one group without members, again and again.
one_group = st.lists(
    st.tuples(
        st.sampled_from(("commit", "commit", "delete_group", "roll", "flush", "clean")), st.sampled_from((0, 3, 9, 21))
    ),
    min_size=10,
    max_size=40,
)
# Every kind of step at least once, each crash of which is looked at: appends, rolls, cleans, swaps, removals, restarts.
FULL: list[Step] = [
    ("join", 1), ("commit", 1), ("commit", 7), ("commit", 0), ("join", 4), ("commit", 13), ("roll", 0),
    ("commit", 19), ("commit", 2), ("forget", 1), ("commit", 1), ("leave", 1), ("roll", 0), ("clean", 4), ("commit", 8),
    ("delete_offsets", 1), ("flush", 0), ("join", 2), ("commit", 2), ("silence", 1), ("roll", 0), ("clean", 7),
    ("remove", 0), ("delete_group", 2), ("expire", 1), ("commit", 3), ("roll", 0), ("clean", 10), ("restart", 0),
    ("commit", 9), ("join", 1), ("restart", 1), ("commit", 4), ("roll", 0), ("clean", 5), ("remove", 0),
]  # fmt: skip
# A group of the consumer protocol, and one that is classic, has both, is a consumer group and classic again.
MEMBERS: list[Step] = [
    ("beat", 0), ("beat", 2), ("beat", 14), ("resolve", 0), ("beat", 0), ("beat", 14), ("roll", 0), ("beat", 4),
    ("commit_as", 0), ("beat", 0), ("beat", 4), ("clean", 4), ("go", 10), ("beat", 4), ("restart", 1), ("beat", 0),
    ("beat", 2), ("roll", 0), ("classic", 1), ("beat", 1), ("classic", 0), ("beat", 1), ("commit_as", 1),
    ("roll", 0), ("clean", 9), ("classic", 0), ("beat", 1), ("flush", 0), ("go", 1), ("classic", 0), ("restart", 0),
    ("roll", 0), ("clean", 12), ("beat", 5), ("classic", 0), ("beat", 14), ("resolve", 0), ("beat", 0), ("go", 2),
    ("go", 0), ("go", 4), ("remove", 0), ("beat", 5), ("silence", 1), ("silence", 1), ("delete", 0), ("delete", 1),
    ("beat", 0), ("roll", 0), ("clean", 10), ("restart", 1),
]  # fmt: skip
# Transactions of both kinds of end, over a roll, a clean and a restart, beside plain commits and deletions.
TRANSACTIONS: list[Step] = [
    ("commit", 0), ("transact", 0), ("transact", 6), ("roll", 0), ("transact", 36), ("commit", 6), ("end", 1),
    ("transact", 0), ("restart", 1), ("transact", 9), ("end", 3), ("roll", 0), ("clean", 4), ("transact", 6),
    ("delete_offsets", 6), ("restart", 0), ("end", 37), ("transact", 39), ("flush", 0), ("delete_group", 0),
    ("end", 2), ("transact", 3), ("roll", 0), ("clean", 5), ("end", 39), ("expire", 1), ("commit", 3), ("end", 4),
    ("roll", 0), ("clean", 10), ("restart", 1), ("remove", 0),
]  # fmt: skip


def prove(
    history: list[Step], *, always: bool, prefix: int, crashes: int | None, seed: int = 0, segment_bytes: int = 900
) -> int:
    """Live the history, then look at `crashes` random moments of it, None: at all. How many loads that took.

    Raises: AssertionError.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        life = live(root / "life", history, always=always, prefix=prefix, segment_bytes=segment_bytes)
        for mixture, said in life.mixtures:
            found = read(mixture)
            assert (found[:3], found[4]) == (said[:3], said[4]), "a load that a clean overtook"
        random = Random(seed)
        total = len(life.disk.journal)
        picked = range(total) if crashes is None else frozenset(random.sample(range(total), min(crashes, total)))
        proof = Crashes(life, root)
        proof.check(lambda at, _: at in picked, random)
        return proof.count


@pytest.mark.parametrize("always", [False, True])
def test_a_crash_at_every_operation_of_a_full_life(always: bool) -> None:
    assert prove(FULL, always=always, prefix=0, crashes=None) > 500


@pytest.mark.parametrize("always", [False, True])
def test_p06_a_crash_at_every_operation_of_a_life_with_transactions(always: bool) -> None:
    """Pending offsets are pending again, and those that a marker has decided are there or gone."""
    assert prove(TRANSACTIONS, always=always, prefix=0, crashes=None) > 500


@pytest.mark.parametrize("always", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_crash_at_every_operation_of_a_life_with_consumer_groups(always: bool) -> None:
    """One of the consumer protocol, and one that is upgraded, has both, and is downgraded: all that they write."""
    assert prove(MEMBERS, always=always, prefix=0, crashes=None, segment_bytes=2_500) > 500


def test_the_life_with_consumer_groups_writes_every_record_of_theirs(tmp_path: Path) -> None:
    """And their tombstones, with an upgrade and a downgrade between them."""
    life = live(tmp_path / "life", MEMBERS, always=False, prefix=0, segment_bytes=2_500)
    written = [record for one in life.written()[1:] for record in iterate_records(one.batch)]
    said = {(decode_key(record.key).record_type, record.value is None) for record in written}  # type: ignore[union-attr]
    # Whoever adds a rule that writes another kind adds its step to MEMBERS (CONTRIBUTING.md). 0: commits of before 0.9.
    kinds = {key._field_defaults["record_type"] for key in get_args(GroupKey)} - {0, 4}
    assert said == {(kind, gone) for kind in kinds for gone in (False, True)} | {(4, True)}
    moved = [event.what.to for told in life.events for event in told if isinstance(event.what, GroupMigrated)]
    assert {"consumer", "classic"} <= set(moved)


def _without_members(group: ConsumerGroup) -> list[Any]:
    return [record for record in group_tombstones(group) if not isinstance(record[0], ConsumerGroupMemberMetadataKey)]


FAULTS: dict[str, Any] = {  # what stands in the place of a function
    "coordinator.consumer.downgrade.group_tombstones": _without_members,  # KAFKA-21117: its members stay behind
    "coordinator.consumer.removal.drop_unused": lambda draft: None,  # an expression that nobody uses stays
    "coordinator.consumer.fold._with_epochs": lambda topics, _: {  # since when a member has a partition is forgotten
        topic.topic_id: dict.fromkeys(topic.partitions, 0) for topic in topics
    },
}


@pytest.mark.parametrize("place", FAULTS)
def test_a_fault_planted_in_consumer_groups_is_found(place: str) -> None:
    with patch(place, FAULTS[place]), pytest.raises((AssertionError, LoadFailed)):
        prove(MEMBERS, always=False, prefix=0, crashes=0, segment_bytes=2_500)


@settings(max_examples=HISTORIES, deadline=None)
@given(member_histories, st.booleans(), prefixes, st.integers(0, 1 << 20))
def test_whatever_happens_to_consumer_groups_is_loaded_again(
    history: list[Step], always: bool, prefix: int, seed: int
) -> None:
    prove(history, always=always, prefix=prefix, crashes=6, seed=seed, segment_bytes=2_500)


@settings(max_examples=HISTORIES, deadline=None)
@given(histories, st.booleans(), prefixes, st.integers(0, 1 << 20))
def test_whatever_happens_is_loaded_again(history: list[Step], always: bool, prefix: int, seed: int) -> None:
    prove(history, always=always, prefix=prefix, crashes=6, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("prefix", [2, 3])
def test_a_crash_at_every_operation_on_what_kafka_left(always: bool, prefix: int) -> None:
    """Records of KIP-848 groups and of transactions lie before ours, and stay."""
    assert prove(FULL, always=always, prefix=prefix, crashes=None) > 500


@pytest.mark.slow
@pytest.mark.long
@settings(max_examples=HISTORIES * 5, deadline=None)
@given(histories, st.booleans(), prefixes, st.integers(0, 1 << 20))
def test_whatever_happens_is_loaded_again_at_length(history: list[Step], always: bool, prefix: int, seed: int) -> None:
    prove(history, always=always, prefix=prefix, crashes=25, seed=seed)


@pytest.mark.parametrize(("bug", "prefix"), LOADER_BUGS, ids=[bug.__name__ for bug, _ in LOADER_BUGS])
def test_each_known_bug_of_the_loader_is_found(bug: Callable[[], AbstractContextManager[None]], prefix: int) -> None:
    """KAFKA-17306, its three faults, and KAFKA-19862."""

    # What is tried depends on the modules that are loaded: usually it takes a few dozen.
    @settings(max_examples=3_000, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.one_of(histories, one_group))
    def search(history: list[Step]) -> None:
        with bug():
            prove(history, always=False, prefix=prefix, crashes=0)

    with pytest.raises((AssertionError, LoadFailed)):
        search()


def test_a_clean_before_the_flush_is_found() -> None:
    """A flushed commit, superseded by one that is not flushed yet in a segment that the clean leaves as it is."""
    history = [("commit", 36), ("roll", 0), ("flush", 0), *[("commit", 36 + at) for at in range(5)], ("roll", 0)]
    history += [("commit", 0), ("clean", 0)]
    assert prove(history, always=False, prefix=0, crashes=None) > 20
    with cleaned_before_it_is_flushed(), pytest.raises(AssertionError, match="power lost"):
        prove(history, always=False, prefix=0, crashes=None)


def test_a_crash_amid_a_swap_brings_no_deleted_offset_back(tmp_path: Path) -> None:
    """Passes cut short had left an offset below its tombstone, whose time was over: the next one took both."""
    history: list[Step] = [("end", 0), ("end", 0), ("commit", 129), ("roll", 0), ("end", 0), ("end", 0)]
    history += [("delete_group", 0), ("commit", 0), ("commit", 0), ("join", 3), ("commit", 0), ("commit", 0)]
    history += [("clean", 317), ("clean", 291), ("clean", 0)]
    life = live(tmp_path / "life", history, always=False, prefix=2)
    proof = Crashes(life, tmp_path)
    proof.check(lambda _, op: op.kind in {"rename", "sync_folder"}, Random(0))
    assert proof.count > 100


def test_a_power_loss_that_takes_an_earlier_segment_leaves_groups_that_can_be_loaded() -> None:
    """The end of a KIP-848 group without that of its members: Kafka would not load the partition."""
    history: list[Step] = [("end", 183), ("expire", 115), ("transact", 238), ("silence", 14), ("flush", 270)]
    history += [("expire", 115), ("silence", 14), ("delete_offsets", 174)]
    assert prove(history, always=False, prefix=3, crashes=25, seed=602_744) > 80
