"""Reading a group's timeline back from the ledger in steps, so that a question over HTTP holds nobody up."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.groups.ledger import reading
from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from storage.log.partition_log import PartitionLog
from storage.state.log_config import LogConfig
from tests.support.steps import lines_of


@pytest.fixture
def partition(tmp_path: Path) -> Any:
    """Five thousand records of a busy group after one of a group that has been quiet since."""
    return a_partition(tmp_path / "log", 5_000)


def a_partition(folder: Path, busy: int) -> Any:
    folder.mkdir()
    log = PartitionLog.open(folder, LogConfig())
    for group, count in (("quiet", 1), ("busy", busy)):
        record = {
            "kind": "rebalance_ended", "group_id": group, "at_ms": 1_000, "rebalance_id": "0@1", "from_generation": 0,
            "to_generation": 1, "outcome": "stable", "first_cause": None, "further_causes": [], "members": [],
            "padding": "x" * 500,
        }  # fmt: skip
        value = json.dumps(record).encode()
        for start in range(0, count, 500):
            records = [Record(n, 1_000, group.encode(), value, ()) for n in range(min(500, count - start))]
            log.append(encode_batch(records), leader_epoch=0)
    return SimpleNamespace(log=log, log_start_offset=0, log_end_offset=log.log_end_offset, name="ledger-0")


def look_back(partition: Any) -> tuple[int, int]:
    """(lines of the step that ran the most, how many steps) until the quiet group's record is found."""
    steps = reading.newest_in_steps(partition, "quiet", 10)
    longest, count = 0, 0
    found: list[dict[str, Any]] | None = None

    def step() -> list[dict[str, Any]] | None:
        try:
            next(steps)
        except StopIteration as end:
            return list(end.value)
        return None

    while found is None:
        lines, found = lines_of(step)
        longest, count = max(longest, lines), count + 1
    assert [record["group_id"] for record in found] == ["quiet"]
    return longest, count


def test_a_look_far_back_is_taken_in_more_steps_and_no_longer_ones(partition: Any, tmp_path: Path):
    near, _ = look_back(a_partition(tmp_path / "near", 2_000))
    far, steps = look_back(partition)

    assert steps > 100
    assert far < 1.1 * near


def test_in_steps_or_at_once_the_same_is_found(partition: Any):
    assert reading.newest(partition, "busy", 3) == reading.finished(reading.newest_in_steps(partition, "busy", 3))
    assert len(reading.newest(partition, "busy", 3)) == 3
