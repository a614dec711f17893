"""What is told of each situation of the tables while it lasts, after a start and from the log alone, is what is kept.

And what the assignors give to random groups: their own tests say what must hold of it.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

from coordinator.consumer.assignor import Target
from coordinator.consumer.group import ConsumerGroup
from coordinator.group import Group
from coordinator.loading import fold_log, replay_log
from coordinator.why import inferred, live, live_consumer
from protocol.records.group_records import encode_key, encode_value
from tests.coordinator import driver as classic_driver
from tests.coordinator.classic import test_every_state_and_input as classic
from tests.coordinator.consumer import driver as consumer_driver
from tests.coordinator.consumer import test_every_state_and_input as consumer
from tests.coordinator.consumer.random_groups import history, readable
from tests.coordinator.offsets import table as offsets_table
from tests.coordinator.outcomes import plain
from tests.coordinator.test_kept_outcomes import of_later, of_nobody, of_regexes, of_unread_topics, over_full
from tests.support.kept import held, news

KEPT = Path(__file__).parent / "kept"
CONSUMER = (*consumer.SITUATIONS, of_later, of_regexes, of_unread_topics, of_nobody)


class Told:
    """Lines, of which each says only what is new in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._before: dict[str, Any] = {}

    def add(self, what: str, name: str, value: Any) -> None:
        """As JSON values, or whatever `plain` makes of it."""
        said = plain(value, classic_driver.Request)
        self.lines.append(f"{what}, {name}: {news(said, self._before.get(what))}")
        self._before[what] = said


def test_of_groups_while_they_last():
    told = Told()
    for situation in (*classic.SITUATIONS, over_full):
        broker, _ = situation()
        group = broker.group
        if group is not None:
            told.add("state", situation.__name__, live.live_state(group))
        for later_ms in (-1, 0, 1_234):
            told.add(
                "in progress", f"{situation.__name__} {later_ms}", live.in_progress(group, broker.now_ms + later_ms)
            )
    for situation in CONSUMER:
        broker = situation()
        group = broker.shard.consumer_groups.get("g")
        if group is None:
            continue
        for settings in (broker.settings, consumer_driver.Driver().settings):
            state = live_consumer.live_consumer_state(group, broker.topics, settings)
            told.add("consumer's state", situation.__name__, state)
        for later_ms in (-1, 0, 1_234):
            now_ms = broker.now_ms + later_ms
            told.add(
                "consumers in progress",
                f"{situation.__name__} {later_ms}",
                live_consumer.epoch_in_progress(group, now_ms),
            )
    held(KEPT / "live.txt", told.lines)


def _shard(shard: Any) -> dict[str, Any]:
    groups: dict[str, Group | ConsumerGroup] = {**shard.groups, **shard.consumer_groups}
    return {"groups": groups, "offsets": {name: dict(table) for name, table in shard.offsets.items()}}


def test_of_groups_after_a_start():
    """However the log is read."""
    told = Told()
    for situation in CONSUMER:
        broker = situation()
        for way in (None, replay_log, fold_log):
            told.add("loaded", f"{situation.__name__} {way and way.__name__}", _shard(broker.loaded(way)))
    held(KEPT / "loaded.txt", told.lines)


def test_of_logs_without_a_ledger():
    told = Told()
    for situation in (*classic.SITUATIONS, *offsets_table.SITUATIONS, *CONSUMER):
        made = situation()
        broker = made[0] if isinstance(made, tuple) else made
        log = broker.log if isinstance(broker, classic_driver.Driver) else list(chain.from_iterable(broker.log))
        written = [
            (encode_key(key), None if value is None else encode_value(value), 1_000_000 + 7_000 * at)
            for at, (key, value, *_) in enumerate(log)
        ]
        group_id = getattr(broker, "group_id", "g")
        for session_ms in (None, 45_000):
            records = inferred.generations(group_id, written, names={b"\1" * 16: "t"}, session_ms=session_ms)
            told.add("inferred", f"{situation.__name__} {session_ms}", records)
    held(KEPT / "inferred.txt", told.lines)


def _digest(target: Target) -> str:
    return (
        f"{crc32(str(sorted((name, sorted(owned.items())) for name, owned in readable(target).items())).encode()):08x}"
    )


def test_of_assignors():
    """Of each step of a random group's history: how many members have how many partitions, and which by a digest."""
    lines = []
    for seed in range(60):
        for group, given, target in history(f"kept/{seed}", 4):
            spread = sorted(sum(map(len, target.get(name, {}).values())) for name in given.members)
            lines.append(f"{seed} {group.assignor} {given.homogeneous} {spread} {_digest(target)}")
    held(KEPT / "assignors.txt", lines)
