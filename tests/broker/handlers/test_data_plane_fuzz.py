"""Whatever a client sends that decodes is answered by a code: no exception leaves a handler of the data plane."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from protocol.records.batch import Record, encode_batch
from protocol.records.batch_header import write_crc
from tests.support.data_plane import NOW_MS, DataPlane, batch, got

if TYPE_CHECKING:
    from pathlib import Path

EDGES = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 61, 100, 2**15, 2**31 - 1, 2**31, 2**63 - 1]
TOPICS = ["plain", "compacted", "stamped", "limited", "recompressed"]


def made(directory: Path) -> DataPlane:
    plane = DataPlane(directory)
    plane.create("plain")
    plane.create("compacted", cleanup_policy="compact")
    plane.create("stamped", message_timestamp_type="LogAppendTime")
    plane.create("limited", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms=str(2**63 - 1))
    plane.create("recompressed", compression_type="lz4")
    return plane


def mutated(rng: random.Random) -> bytes:
    """A batch with a few bytes changed, mostly with a CRC that is right again."""
    records = [
        Record(at, NOW_MS + rng.choice([-5, 0, 5]), rng.choice([None, b"k"]), rng.choice([None, b"", b"v" * 40]))
        for at in range(rng.randrange(1, 5))
    ]
    data = encode_batch(
        records,
        compression=rng.choice([0, 0, 0, 1, 2, 3, 4]),
        producer_id=rng.choice([-1, -1, 3]),
        producer_epoch=rng.choice([0, 1]),
        base_sequence=rng.choice([-1, 0, 5, 2**31 - 1]),
    )
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.1:
        data = data[: rng.randrange(len(data))]
    if rng.random() < 0.8 and len(data) > 61:
        write_crc(data)
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_batches_are_stored_or_refused(tmp_path: Path, seed: int) -> None:
    """And what is stored can be fetched, whole, whatever is inside."""
    rng = random.Random(seed)
    plane = made(tmp_path / "data")
    stored = 0
    for _ in range(1_500):
        name = rng.choice(TOPICS)
        before = plane.partition(name).log_end_offset
        result = plane.produce(name, mutated(rng), version=rng.choice([3, 7, 9]))
        after = plane.partition(name).log_end_offset
        if result.error_code:
            assert (result.base_offset, after) == (-1, before), f"seed {seed}"
        else:
            stored += 1
    assert stored
    for name in TOPICS:
        offset, end = 0, plane.partition(name).log_end_offset
        while offset < end:
            found = plane.fetch(name, offset)[0]
            assert found.error == 0
            assert found.base_offsets[0] <= offset
            last = plane.partition(name).log.read(found.base_offsets[-1], 1).next_offset
            assert last > offset
            offset = last
        for timestamp in EDGES:
            assert plane.list_offset(name, timestamp, version=11).error_code in (0, 2, 35)


@pytest.mark.parametrize("seed", range(2))
def test_any_numbers_in_fetch_list_offsets_and_delete_records(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    plane = made(tmp_path / "data")
    for at in range(20):
        plane.produce("plain", batch(b"v" * 50, timestamp=NOW_MS + at))
    for _ in range(2_000):
        name = rng.choice([*TOPICS, "", "nosuch"])
        kind = rng.randrange(3)
        if kind == 0:
            returned = plane.fetch_request(
                name,
                rng.choice(EDGES),
                rng.choice(EDGES),
                version=rng.choice([4, 11, 12, 13]),
                max_wait_ms=rng.choice([-1, 0, 5]),
                min_bytes=rng.choice(EDGES),
                max_bytes=rng.choice(EDGES),
                partition_max_bytes=rng.choice(EDGES),
                isolation_level=rng.choice([0, 1, 7, -1]),
                current_leader_epoch=rng.choice([-1, 0, 1, 2**31 - 1]),
                last_fetched_epoch=rng.choice([-1, 0, 1, 2**31 - 1]),
                session_id=rng.choice([0, 1, -5]),
                session_epoch=rng.choice([-1, 0, 1, 2**31 - 1, -(2**31)]),
            )
            plane.runtime.advance(5)
            response = returned.response if hasattr(returned, "response") else returned
            if not response.error_code:
                got(response)
        elif kind == 1:
            plane.list_offset(
                name, rng.choice(EDGES), version=rng.choice([1, 7, 11]), isolation_level=rng.choice([0, 1])
            )
        else:
            plane.delete_records(name, rng.choice([*EDGES[:6], 3]), index=rng.choice([0, 1, -1, 2**31 - 1]))
    assert plane.fetch("plain", plane.partition("plain").log_start_offset)[0].error == 0
