"""A large mapping that shares what is old: it is a dict to whoever reads it, and what was copied stays as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from random import Random
from unittest.mock import patch

import pytest

from coordinator import layered
from coordinator.layered import Layered, changeable
from protocol.errors import ErrorCode
from tests.coordinator.consumer.driver import Driver
from tests.coordinator.driver import Driver as ClassicDriver


@pytest.fixture
def small() -> Iterator[None]:
    """Where three entries are many."""
    with patch.object(layered, "SMALL_MAX", 3):
        yield


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(40))
def test_any_changes_make_what_they_make_of_a_dict_and_old_ones_stay(seed: int) -> None:
    """In the order of its keys, too: so a history is its seed."""
    random = Random(seed)
    ours: MutableMapping[str, int] = {}
    theirs: dict[str, int] = {}
    kept: list[tuple[MutableMapping[str, int], dict[str, int]]] = []
    for number in range(400):
        key = str(random.randrange(random.choice((6, 30))))
        if random.random() < 0.4:
            kept.append((ours, theirs.copy()))
            ours = changeable(ours)
        if random.random() < 0.4:
            assert ours.pop(key, None) == theirs.pop(key, None)
        else:
            ours[key] = theirs[key] = number
        if random.random() < 0.2:
            assert list(ours.items()) == list(theirs.items())
        assert (ours.get(key), key in ours, len(ours)) == (theirs.get(key), key in theirs, len(theirs))
    assert any(type(mapping) is Layered for mapping, _ in kept)
    for mapping, was in kept:
        assert list(mapping.items()) == list(was.items())
        assert {**mapping} == was
        assert mapping == was


def test_a_small_one_is_a_dict() -> None:
    """Which is read fastest."""
    assert type(changeable(dict.fromkeys(range(layered.SMALL_MAX)))) is dict
    assert type(changeable(dict.fromkeys(range(layered.SMALL_MAX + 1)))) is Layered


def test_a_change_copies_about_the_root_of_what_is_there() -> None:
    """Of a thousand members 45 a join: what came lately, and now and then all of them."""
    copied, mapping = 0, changeable(dict.fromkeys(range(1_000), 0))
    for number in range(1_000, 2_000):
        before, mapping = mapping, changeable(mapping)
        assert isinstance(before, Layered)
        assert isinstance(mapping, Layered)
        copied += len(mapping._recent)
        copied += len(mapping._bottom) if mapping._bottom is not before._bottom else 0
        mapping[number] = 0
    assert list(mapping) == list(range(2_000))
    assert copied < 1_000 * (2 * 2_000) ** 0.5


def test_what_most_went_from_gets_small() -> None:
    """A dict keeps room for whatever was in it: one of ten members that had ten thousand is as large as theirs."""
    large = dict.fromkeys(range(10_000), 0)
    mapping = changeable(large)
    assert isinstance(mapping, Layered)
    for number in range(9_990):
        del mapping[number]
    assert sys.getsizeof(mapping.whole()) < sys.getsizeof(large) // 100


@pytest.mark.usefixtures("small")
def test_a_refused_join_of_a_large_group_leaves_it_as_it_was() -> None:
    """Members, owners and counts."""
    broker = Driver({"t": 12})
    broker.stable(*"abcdef")
    assert type(broker.group.members) is Layered
    before = repr(broker.group)
    broker.fail_appends(ErrorCode.UNKNOWN_SERVER_ERROR)
    broker.join("g")
    assert repr(broker.group.members) in before
    assert list(broker.group.members) == list("abcdef")
    broker.join("g")
    assert list(broker.group.members) == list("abcdefg")


@pytest.mark.usefixtures("small")
def test_who_joins_a_large_classic_group_or_syncs_copies_no_others() -> None:
    """Ten thousand joins of ten thousand members are not a hundred million."""
    broker = ClassicDriver()
    ids = broker.stable_group(*"abcdefgh")
    assert list(broker.live.members) == ids
    assert type(broker.live.members) is dict  # until the next rebalance, they are looked up at every heartbeat
    broker.join(ids[0])
    for member_id in ids[1:]:
        broker.join(member_id)
    broker.sync(ids[1], broker.live.generation)
    assert type(broker.live.members) is Layered
    assert [member.member_id for member in broker.live.pending_sync()] == [ids[0], *ids[2:]]


@pytest.mark.usefixtures("small")
def test_when_all_members_of_a_large_group_go_at_once_it_is_not_gone_through_for_each() -> None:
    """Each of them leads when the one before it has gone."""
    broker = ClassicDriver()
    ids = broker.stable_group(*"abcdefghijklmnopqrstuvwxyz")
    with patch.object(Layered, "whole", autospec=True, side_effect=Layered.whole) as whole:
        broker.leave(*ids[:-1])
    assert list(broker.live.members) == ids[-1:] == [broker.live.leader_id]
    assert whole.call_count < len(ids) / 2
