"""Reading a group's story back from the ledger in steps, so that a question over HTTP holds nobody up."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.ledger import reading
from protocol.records.batch_encoder import encode_batch
from protocol.records.batch_reader import Record
from storage.log_config import LogConfig
from storage.partition_log import PartitionLog

STEP_MS = 10.0  # of CPU time; a step takes half a millisecond on the machine where it was measured


@pytest.fixture
def partition(tmp_path: Path) -> Any:
    """Five thousand records of a busy group after one of a group that has been quiet since."""
    folder = tmp_path / "log"
    folder.mkdir()
    log = PartitionLog.open(folder, LogConfig())
    for group, count in (("quiet", 1), ("busy", 5_000)):
        record = {
            "kind": "rebalance_began", "group_id": group, "at_ms": 1_000, "rebalance_id": "0@1", "from_generation": 0,
            "cause": None, "members": "x" * 600,
        }  # fmt: skip
        value = json.dumps(record).encode()
        for start in range(0, count, 500):
            records = [Record(n, 1_000, group.encode(), value, ()) for n in range(min(500, count - start))]
            log.append(encode_batch(records), leader_epoch=0)
    return SimpleNamespace(log=log, log_start_offset=0, log_end_offset=log.log_end_offset, name="ledger-0")


def test_a_look_far_back_is_taken_in_short_steps(partition: Any):
    steps = reading.newest_in_steps(partition, "quiet", 10)
    longest_ms, count, found = 0.0, 0, None
    while found is None:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
        longest_ms = max(longest_ms, (time.thread_time() - began) * 1_000)
        count += 1

    assert [record["group_id"] for record in found] == ["quiet"]
    assert count > 100
    assert longest_ms < STEP_MS


def test_in_steps_or_at_once_the_same_is_found(partition: Any):
    assert reading.newest(partition, "busy", 3) == reading.finished(reading.newest_in_steps(partition, "busy", 3))
    assert len(reading.newest(partition, "busy", 3)) == 3
