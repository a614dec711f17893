"""The one walk over batches: what it yields, where it stops, and what it says of that."""

from pathlib import Path

import pytest

from protocol.records.batch import Record, encode_batch
from storage.reading import walk as walk_module
from storage.reading.walk import Verdict, Walk, sound_batch_after


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
