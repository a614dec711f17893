"""The codecs of record batches: gzip, snappy (raw and xerial), lz4 frames, zstd.

Decompression is always bounded: output is written into a buffer that grows up to `limit_bytes` and no
further, so a few kilobytes from the network can never claim gigabytes.

Source: Kafka's CompressionType, SnappyOutputStream of xerial, Lz4BlockOutputStream.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from protocol.records.errors import CorruptStream, DecompressedTooLarge, UnsupportedCompression

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_LIMIT_BYTES = 128 * 1024 * 1024
"""What one batch may decompress to, unless the caller says otherwise."""

_INT32 = struct.Struct(">i")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
# Magic, then version 1 with independent blocks, 64 KiB blocks, and the checksum byte of these two. The Java
# client refuses frames whose blocks depend on each other, which is all that the library's own frames offer.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_CONTENT_SIZE = 0x08
_LZ4_FAST_LEVEL = 9  # Kafka's default level, at which it takes the fast compressor; any other means the thorough one
_GZIP_OWN_LEVEL = -1
_ZSTD_LEVEL = 3


class Compression(IntEnum):
    """The codec in bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_name(cls, name: str) -> Compression:
        """The codec that `compression.type` names; `uncompressed` is `none`. Raises: KeyError."""
        return _BY_NAME[name]


_BY_NAME = {
    "none": Compression.NONE,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """The bytes of `data` as Java's clients would compress them; `level` None or Kafka's default is the codec's own.

    Snappy has no levels. Raises: UnsupportedCompression. Source: KIP-390.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return bytes(_cramjam().gzip.compress(data, level=None if level == _GZIP_OWN_LEVEL else level))
    if codec == Compression.SNAPPY:
        return _compress_xerial(data)
    if codec == Compression.LZ4:
        return _compress_lz4(data, level)
    if codec == Compression.ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompression(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
    """The bytes that were compressed.

    Raises: as `decompress_uncopied`.
    """
    return bytes(decompress_uncopied(codec, data, limit_bytes))


def decompress_uncopied(codec: int, data: Buffer, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes | bytearray:
    """The bytes that were compressed, as they were gathered: at no time more than twice their size is held.

    Raises: DecompressedTooLarge beyond `limit_bytes`; CorruptStream when the stream is damaged or cut;
    UnsupportedCompression.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.SNAPPY:
        if bytes(data[:8]) == _XERIAL_MAGIC:
            return _decompress_xerial(data, limit_bytes)
        return _decompress_raw_snappy(data, limit_bytes)
    if codec == Compression.GZIP:
        return _decompress_growing(_cramjam().gzip.decompress_into, data, limit_bytes)
    if codec == Compression.LZ4:
        return _decompress_growing(_cramjam().lz4.decompress_into, data, limit_bytes)
    if codec == Compression.ZSTD:
        return _decompress_growing(_cramjam().zstd.decompress_into, data, limit_bytes)
    raise UnsupportedCompression(f"unknown compression codec {codec}")


def _cramjam() -> Any:
    import cramjam  # noqa: PLC0415 - a native library that a broker of uncompressed data never needs

    return cramjam


def _decompress_growing(decompress_into: Callable[..., int], data: Buffer, limit_bytes: int) -> bytearray:
    capacity = min(max(16 * 1024, 8 * len(data)), limit_bytes)
    output = bytearray()
    while True:
        output.clear()  # before the next is made, so that they are never held together
        output = bytearray(capacity)
        try:
            size = decompress_into(data, output)
        except _cramjam().DecompressionError as error:
            # The library has one exception class; only its text tells a full buffer from a damaged stream.
            if "failed to write whole buffer" not in str(error):
                raise CorruptStream(f"compressed records are damaged: {error}") from error
            if capacity >= limit_bytes:
                raise DecompressedTooLarge(limit_bytes) from None
            capacity = min(capacity * 6, limit_bytes)
            continue
        del output[size:]
        return output


def _decompress_raw_snappy(data: Buffer, limit_bytes: int) -> bytearray:
    cramjam = _cramjam()
    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > limit_bytes:
            raise DecompressedTooLarge(limit_bytes)
        output = bytearray(size)
        del output[cramjam.snappy.decompress_raw_into(data, output) :]
        return output
    except cramjam.DecompressionError as error:
        raise CorruptStream(f"compressed records are damaged: {error}") from error


def _decompress_xerial(data: Buffer, limit_bytes: int) -> bytearray:
    cramjam = _cramjam()
    blocks = _xerial_blocks(data)
    if len(blocks) == 1:
        return _decompress_raw_snappy(blocks[0], limit_bytes)
    try:
        # What each block becomes stands in front of it: nothing is made for a stream that becomes too much.
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > limit_bytes:
            raise DecompressedTooLarge(limit_bytes)
        output = bytearray(sum(sizes))
        at = 0
        with memoryview(output) as view:
            for block, size in zip(blocks, sizes, strict=True):
                with view[at : at + size] as room:
                    if cramjam.snappy.decompress_raw_into(block, room) != size:
                        raise CorruptStream("a snappy block is not as long as it says")
                at += size
    except cramjam.DecompressionError as error:
        raise CorruptStream(f"compressed records are damaged: {error}") from error
    return output


def _xerial_blocks(data: Buffer) -> list[memoryview]:
    position, end = len(_XERIAL_HEADER), len(data)
    if end < position:
        raise CorruptStream("snappy stream ends inside its header")
    view = memoryview(data)
    blocks = []
    while position < end:
        if position + 4 > end:
            raise CorruptStream("snappy stream ends inside a block length")
        size = _INT32.unpack_from(data, position)[0]
        position += 4
        if size < 0 or position + size > end:
            raise CorruptStream(f"snappy block of {size} bytes passes the end of its stream")
        blocks.append(view[position : position + size])
        position += size
    return blocks


def _compress_xerial(data: Buffer) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    lz4 = _cramjam().lz4
    thorough = level is not None and level != _LZ4_FAST_LEVEL
    view = memoryview(data)
    parts = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        raw = view[start : start + _LZ4_BLOCK_BYTES]
        if thorough:
            # The library has levels for frames only. A chunk of a block's size makes a frame of one block: that is it.
            frame = bytes(lz4.compress(raw, level=level))
            at = 15 if frame[4] & _LZ4_CONTENT_SIZE else 7
            size = int.from_bytes(frame[at : at + 4], "little")
            block = frame[at + 4 : at + 4 + size] if size < _LZ4_STORED else bytes(raw)
        else:
            block = bytes(lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(raw) | _LZ4_STORED).to_bytes(4, "little"), bytes(raw))
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)
