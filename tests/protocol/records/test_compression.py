"""The codecs: Java's spellings of snappy and lz4, limits, and damaged streams."""

import contextlib
import random
from pathlib import Path

import cramjam
import pytest

from protocol.records.compression import Compression, compress, decompress
from protocol.records.errors import CorruptBatch, DecompressedTooLarge

TEXTS = [b"", b"a", b"hello " * 5_000, random.Random(1).randbytes(200_000), bytes(300_000)]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", TEXTS, ids=["empty", "one", "text", "noise", "zeros"])
def test_what_is_compressed_comes_back(codec: Compression, data: bytes):
    assert decompress(codec, compress(codec, data), limit_bytes=len(data) + 1) == data


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_limit_is_exact(codec: Compression):
    data = b"0123456789" * 50_000
    packed = compress(codec, data)

    assert decompress(codec, packed, limit_bytes=len(data)) == data
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, limit_bytes=len(data) - 1)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_cut_or_damaged_stream_is_corrupt_and_never_anything_else(codec: Compression):
    packed = compress(codec, b"hello world " * 500)
    rng = random.Random(7)
    for cut in range(1, len(packed)):
        with contextlib.suppress(CorruptBatch):
            decompress(codec, packed[:cut], limit_bytes=1 << 20)
    for _ in range(2_000):
        data = bytearray(packed)
        data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(CorruptBatch):
            decompress(codec, data, limit_bytes=1 << 20)


def test_raw_snappy_is_read_as_well_as_xerial_blocks():
    """librdkafka and others send raw snappy, Java sends xerial's framing."""
    data = b"some text " * 10_000
    framed = compress(Compression.SNAPPY, data)

    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(Compression.SNAPPY, framed) == data
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_a_raw_snappy_block_that_lies_about_its_length_takes_no_memory():
    huge = b"\xff\xff\xff\xff\x0f" + b"\x00a"

    with pytest.raises(DecompressedTooLarge):
        decompress(Compression.SNAPPY, huge, limit_bytes=1 << 20)


def test_lz4_frames_have_independent_blocks_as_java_demands():
    data = random.Random(3).randbytes(70_000) + bytes(100_000)
    frame = compress(Compression.LZ4, data)

    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert bytes(cramjam.lz4.decompress(frame)) == data


def test_lz4_frames_of_others_are_read_whatever_their_flags():
    data = b"abc" * 100_000

    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(data))) == data


@pytest.mark.parametrize(
    ("name", "codec"),
    [("none", 0), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_codecs_have_kafkas_names(name: str, codec: int):
    assert Compression.of_name(name) == codec


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Compression.GZIP, 1, 9), (Compression.LZ4, 9, 12), (Compression.ZSTD, 1, 19)]
)
def test_a_higher_level_compresses_more_and_reads_the_same(codec: Compression, low: int, high: int) -> None:
    """KIP-390: the level is honoured; lz4's default, 9, is the fast compressor."""
    data = Path(random.__file__).read_bytes()
    fast, thorough = compress(codec, data, low), compress(codec, data, high)
    assert len(thorough) < len(fast)
    assert decompress(codec, fast) == decompress(codec, thorough) == data
