"""The one walk over batches: what it yields, where it stops, and what it says of that."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.load_summary import LoadFailed
from coordinator.log_batches import batches as loaded
from protocol.records.batch import CorruptBatch, Record, encode_batch, iterate_headers
from storage.reading import walk as walk_module
from storage.reading.walk import Verdict, Walk, sound_batch_after
from storage.state.log_config import LogConfig
from tests.storage.logs import batch as made
from tests.storage.logs import opened


def batch(offset: int, value: bytes = b"value") -> bytes:
    return bytes(encode_batch([Record(offset, 1, b"key", value, ())], base_offset=offset, leader_epoch=0))


LOG = batch(0) + batch(1, bytes(300)) + batch(2)
LAST = len(LOG) - len(batch(2))


@pytest.mark.parametrize("window", [65_536, 61, 100])
def test_headers_and_batches_agree_whatever_is_read_at_once(window: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(walk_module, "WINDOW_BYTES", window)
    monkeypatch.setattr(walk_module, "CHUNK_BYTES", window)
    headers, batches = Walk.of_bytes(LOG), Walk.of_bytes(LOG)

    assert [(at, header) for at, header, _ in batches.batches()] == list(headers.headers())
    assert [header[0] for _, header in Walk.of_bytes(LOG).headers()] == [0, 1, 2]
    assert (batches.position, batches.verdict, headers.position, headers.verdict) == (
        len(LOG),
        Verdict.WHOLE,
        len(LOG),
        Verdict.WHOLE,
    )


@pytest.mark.parametrize("cut", [1, 60, 70])
def test_what_ends_within_a_batch_is_torn(cut: int, tmp_path: Path):
    path = tmp_path / "log"
    path.write_bytes(LOG[:-cut])
    walk = Walk.of_file(path)

    assert len(list(walk.batches())) == 2
    assert (walk.position, walk.verdict) == (LAST, Verdict.TORN)
    assert walk.why == f"the last {len(LOG) - cut - LAST} bytes are no whole batch"


@pytest.mark.parametrize(
    ("at", "byte", "why"),
    [(16, 1, "magic 1"), (11, 3, "a length of 3 bytes"), (70, 0xFF, "CRC")],
)
def test_what_is_no_sound_batch_is_corrupt(at: int, byte: int, why: str):
    damaged = bytearray(LOG)
    damaged[LAST + at] = byte
    walk = Walk.of_bytes(bytes(damaged))

    assert len(list(walk.batches())) == 2
    assert (walk.position, walk.verdict) == (LAST, Verdict.CORRUPT)
    assert why in walk.why


def test_a_sound_batch_behind_damage_is_found():
    damaged = bytearray(LOG)
    damaged[len(batch(0)) + 70] ^= 1
    assert sound_batch_after(bytes(damaged), len(batch(0)), 1)
    assert not sound_batch_after(bytes(damaged), len(batch(0)), 3)
    assert not sound_batch_after(LOG[:-1], LAST, 2)


def until_it_fails(found):
    """What an iterator gives, and whether it raised that a batch is corrupt."""
    given = []
    try:
        given.extend(found)  # keeps what came before the error
    except (CorruptBatch, LoadFailed):
        return given, True
    return given, False


ENDS = st.one_of(st.integers(0, len(LOG)), st.sampled_from([len(batch(0)), LAST, len(LOG)]))


@given(st.integers(0, len(LOG) - 1), st.integers(0, 255), ENDS)
def test_who_goes_over_bytes_in_memory_finds_what_a_walk_over_the_file_does(at: int, flipped: int, end: int):
    """Headers of chunks as answers have them, and a coordinator that loads: no batch more, none less, and no word."""
    damaged = bytearray(LOG)
    damaged[at] ^= flipped
    data = bytes(damaged[:end])
    whole, headers = Walk.of_bytes(data), Walk.of_bytes(data)

    found, corrupt = until_it_fails((position, tuple(header)) for _, position, header in loaded([data]))
    assert found == [(position, header) for position, header, _ in whole.batches()]
    assert corrupt == (whole.verdict is not Verdict.WHOLE)

    found, corrupt = until_it_fails((position, tuple(header)) for position, header in iterate_headers(data))
    assert found == list(headers.headers())
    assert corrupt == (headers.verdict is Verdict.CORRUPT)


@pytest.mark.parametrize("interval_bytes", [1, 200, 1 << 20])
def test_what_a_fetch_finds_in_a_segment_is_what_a_walk_finds(tmp_path: Path, interval_bytes: int):
    """Where an offset's batch begins, and which batches end below a limit, with every batch indexed, some, or none."""
    log = opened(tmp_path / "t-0", LogConfig(segment_bytes=1 << 20, index_interval_bytes=interval_bytes))
    for count in (1, 3, 2, 9, 1, 1, 30, 2):
        log.append(made(count), leader_epoch=0)
    log.flush()
    [segment] = log.state.segments
    headers = list(Walk.of_file(segment.path(".log")).headers())
    starts = [position for position, _ in headers]
    ends = [*starts[1:], segment.size_bytes]
    lasts = [header[0] + header[6] for _, header in headers]

    for offset in range(log.log_end_offset + 1):
        expected = next((at for at, last in zip(starts, lasts, strict=True) if last >= offset), segment.size_bytes)
        assert segment.find(offset) == expected
    for start in starts:
        for limit in range(start, segment.size_bytes + 1, 7):
            end = max([start, *(end for end in ends if end <= limit)])
            after = -1 if end == segment.size_bytes else headers[starts.index(end)][1][0]
            assert segment.boundary(start, limit) == (end, after)
