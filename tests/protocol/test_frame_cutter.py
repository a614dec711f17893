"""Frames come out whole and in order, however their bytes came in."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.frame_cutter import BadFrameSize, FrameCutter


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@given(st.lists(st.binary(max_size=30) | st.binary(min_size=4_090, max_size=4_110), max_size=6), st.data())
def test_any_chunking_gives_the_same_frames(contents: list[bytes], data: st.DataObject) -> None:
    """Whole, one byte at a time, or cut anywhere."""
    stream = b"".join(map(framed, contents))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    cutter = FrameCutter(limit=10_000)

    frames = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += cutter.feed(stream[start:end])

    assert frames == [framed(content) for content in contents]
    assert all(type(frame) is bytes for frame in frames)
    assert not cutter.holds_part


def test_one_byte_at_a_time_gives_the_same_frames() -> None:
    """Also across sizes that come in pieces."""
    contents = [b"", b"a", b"b" * 5_000, b"c" * 3]
    cutter = FrameCutter(limit=10_000)

    frames = [frame for byte in b"".join(map(framed, contents)) for frame in cutter.feed(bytes([byte]))]

    assert frames == [framed(content) for content in contents]


def test_a_chunk_that_is_one_frame_is_passed_on_as_it_came() -> None:
    """No copy is made of it."""
    chunk = framed(b"x" * 100_000)

    (frame,) = FrameCutter(limit=1_000_000).feed(chunk)

    assert frame is chunk


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_a_size_that_is_negative_or_too_large_is_refused(size: int) -> None:
    """The error says the size, and hands over the frames before it."""
    good = framed(b"good")

    with pytest.raises(BadFrameSize, match=str(size)) as caught:
        FrameCutter(limit=1_000).feed(good + good + size.to_bytes(4, "big", signed=True) + b"rest")

    assert (caught.value.size, caught.value.limit, caught.value.frames) == (size, 1_000, [good, good])


def test_a_bad_size_that_came_in_pieces_is_refused_with_its_last_byte() -> None:
    """Nothing is decided before the size is whole."""
    cutter = FrameCutter(limit=1_000)

    assert cutter.feed(b"\xff\xff") == []
    assert cutter.holds_part
    with pytest.raises(BadFrameSize):
        cutter.feed(b"\xff\xff")


def test_a_frame_of_the_allowed_size_passes() -> None:
    """The limit itself is allowed."""
    assert FrameCutter(limit=4).feed(framed(b"1234")) == [framed(b"1234")]


def test_what_is_kept_of_a_slow_sender_is_what_it_sent() -> None:
    """A sender of single bytes costs no object for each, and a promised size costs nothing."""
    cutter = FrameCutter(limit=100 * 2**20)
    cutter.feed((100 * 2**20).to_bytes(4, "big"))
    for _ in range(20_000):
        cutter.feed(b"x")

    kept = sum(sys.getsizeof(piece) for piece in cutter._pieces)
    assert len(cutter._pieces) <= 2
    assert kept < 60_000
